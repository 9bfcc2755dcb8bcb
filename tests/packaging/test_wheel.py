"""What an installation brings, and that it gets along with a project whose packages have the names of our folders."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tornproof.cli.report_writing import PACKAGES

ROOT = Path(__file__).parents[2]
FOLDERS = ("model", "impl", "harness", "reports", "pipeline", "scenarios")
PROJECT_TEST = """
import importlib, pickle
import harness, impl, model, pipeline, reports, scenarios
import tornproof, tornproof.impl.errors
from tornproof.impl.layout.record import Record

def test_each_name_is_whose_it_is():
    for own in (model, impl, harness, reports, pipeline, scenarios):
        assert own.MINE == own.__name__
        assert importlib.import_module(f"tornproof.{own.__name__}" if own is not scenarios else "tornproof") is not own
    assert tornproof.impl.errors.__name__ == "tornproof.impl.errors"
    assert pickle.loads(pickle.dumps(tornproof.impl.errors.TornproofError("x"))).args == ("x",)

def test_the_plugin_is_there(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("tornproof")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the archive of the sources."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, "sdist", folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        assert not [member.name for member in sources if member.issym()]
        sources.extractall(folder, filter="data")
    build(folder / archive.name.removesuffix(".tar.gz"), "wheel", folder)
    (built,) = folder.glob("*.whl")
    return built


def build(project: Path, kind: str, target: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    subprocess.run(command, cwd=project, capture_output=True, check=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in which the wheel is installed; its dependencies are those of this one, and this checkout is not."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # What is named in a .pth file does not have its own .pth files read, such as that of an editable installation.
    (site / "dependencies.pth").write_text(str(Path(pytest.__file__).parents[1]))
    return folder / "bin" / "python"


def test_one_name_and_all_that_belongs_to_it_is_installed(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tornproof"}
    listing = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "src/tornproof", *FOLDERS], capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("needs a git checkout to know which files belong to the project")
    tracked = {ROOT / line for line in listing.stdout.splitlines()}
    expected = {
        f"tornproof/{path.relative_to(ROOT).as_posix().removeprefix('src/tornproof/')}"
        for path in tracked
        if path.is_file() and not path.is_symlink()
    }
    assert {name for name in names if name.startswith("tornproof/")} == expected
    assert "tornproof/py.typed" in expected


def test_extras_bring_what_only_pages_and_spark_take(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    extras: dict[str, set[str]] = {}
    for line in metadata.get_all("Requires-Dist", []):
        requirement, _, extra = line.partition("extra == ")
        extras.setdefault(extra.strip("'\" "), set()).add(re.split(r"[<>=;! ]", requirement)[0])
    assert set(extras) == {"", "reports", "spark"}
    assert extras["reports"] == set(PACKAGES) and not extras["reports"] & extras[""]
    assert "pyspark" in extras["spark"] and {"pyarrow", "hypothesis", "typer"} <= extras[""]


@pytest.mark.nightly
def test_a_project_with_packages_of_these_names_is_not_disturbed(
    installed: Path, tmp_path: Path, questdb_data: Path
) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "test_project.py").write_text(PROJECT_TEST)
    (tmp_path / "conftest.py").write_text("")
    run_in(installed, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", expected="2 passed")
    table = str(questdb_data / "tables/9.4.2/chain/table")
    run_in(installed, tmp_path, "-m", "tornproof", "verify", table, expected="sound")
    position = run_in(installed, tmp_path, "-c", "import tornproof.harness as h; print(h.__file__)", expected="")
    assert Path(position.strip()).is_relative_to(installed.parents[1])


@pytest.mark.nightly
def test_processes_of_an_installed_check_find_the_code_too(installed: Path, tmp_path: Path) -> None:
    run_in(installed, tmp_path, "-m", "tornproof", "check", "--effort", "1", "--only", "crash", expected="0 findings")


def run_in(python: Path, folder: Path, *arguments: str, expected: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected in done.stdout
    return done.stdout
