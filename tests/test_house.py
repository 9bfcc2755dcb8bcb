"""The rules that hold for the checkout as a whole."""

import ast
import importlib
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tornproof.impl
from tornproof.cli.app import COMMANDS
from tornproof.harness.checkers.rules import RULES
from tornproof.harness.explorers.processes.stop import POSITIONS
from tornproof.harness.mutation.catalogue import ALL
from tornproof.harness.simulator.filesystem.step_bound import CALLS_MAX, REPEATED_CALLS_MAX

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:home|root|tmp|work|Users)/\w")
CLOCK = re.compile(r"(monotonic|perf_counter|process_time|thread_time|time)(_ns)?")
REGISTRY_HOST = re.compile(rb"pypi\.org|pythonhosted\.org")


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def project_files() -> list[Path]:
    """All files that are tracked by git or could be."""
    if shutil.which("git") is None:
        pytest.skip("needs git to know which files belong to the project")
    listing = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip(f"needs a git checkout to know which files belong to the project: {listing.stderr.strip()}")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in files if path.is_file()]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_imported_from_this_checkout_and_by_one_name_alone(folder: str, tmp_path: Path) -> None:
    module = importlib.import_module(f"tornproof.{folder}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / folder / "__init__.py"
    inside = sorted(path.stem for path in (ROOT / folder).glob("[a-z]*.py"))[0]
    ways = [
        ("-c", f"import {folder}"),
        ("-c", f"import tornproof.{folder}, {folder}"),
        ("-c", f"from {folder} import {inside}"),
        ("-c", f"import importlib; importlib.import_module('{folder}.{inside}')"),
        ("-m", f"{folder}.{inside}"),
    ]
    for way in ways:
        here = subprocess.run([sys.executable, *way], cwd=ROOT, capture_output=True, text=True, check=False)
        assert f"this is tornproof.{folder}, and was imported as {folder}" in here.stderr, way
        elsewhere = subprocess.run([sys.executable, *way], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert f"No module named '{folder}'" in elsewhere.stderr, way


def test_links_lead_to_every_folder() -> None:
    links = {path.name: path.readlink().as_posix() for path in (ROOT / "src/tornproof").iterdir() if path.is_symlink()}
    # Scenarios are data that the harness reads from where it is installed.
    assert links == {name: f"../../{name}" for name in (*FOLDERS, "scenarios")}


def test_folders_of_tests_are_not_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_names_of_test_files_are_unique() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["machine_path", "registry_host"])
def test_no_file_of_the_project_names(pattern: re.Pattern[bytes]) -> None:
    found = {path.relative_to(ROOT).as_posix(): pattern.search(path.read_bytes()) for path in project_files()}
    assert {name: match.group() for name, match in found.items() if match} == {}


@pytest.mark.parametrize("text", [b"x = '%shome/ada/x'", b"(%stmp/x)", b"%sUsers/ada"])
def test_machine_paths_are_recognised(text: bytes) -> None:
    assert MACHINE_PATH.search(text % b"/")


@pytest.mark.parametrize("text", [b"https://example.com/home/page", b"../tmp/x", b"tmp/x", b"/home"])
def test_other_paths_are_left_alone(text: bytes) -> None:
    assert MACHINE_PATH.search(text) is None


def test_lock_file_pins_every_release_by_hash_and_holds_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    releases = re.split(r"\n(?=\w)", lock)
    assert [release for release in releases if "==" not in release or "--hash=sha256:" not in release] == []


@pytest.mark.parametrize("text", [b"https://%s.org/simple" % b"pypi", b"files.%s.org" % b"pythonhosted"])
def test_registry_hosts_are_recognised(text: bytes) -> None:
    assert REGISTRY_HOST.search(text)


def test_page_of_performance_has_the_numbers_of_the_run_that_is_kept() -> None:
    page = (ROOT / "docs/performance.md").read_text()
    results = json.loads((ROOT / "benchmarks/results/latest.json").read_text())
    assert results["machine"] in page
    lines = [line for line in page.splitlines() if re.match(r"\| (?!---|what )", line)]
    assert len(lines) == len(results["rows"]) + len(results["rates"])
    for row in results["rows"]:
        start = f"| {row['what']} | {row['ours_ms']:,.3f} | {row['peer']} | {row['peer_ms']:,.3f} | "
        (line,) = [line for line in lines if line.startswith(start)]
        is_missed = row["goal"] is not None and row["peer_ms"] / row["ours_ms"] < row["goal"]
        assert ("missed" in line) is is_missed


def timed_assertions(source: str) -> Iterator[int]:
    """Yield the lines of the assertions on what a clock says, or on a difference of what it has said."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        named: set[str] = set()
        while more := {name for node in ast.walk(function) for name in measured_names(node, named)} - named:
            named |= more
        for node in ast.walk(function):
            if isinstance(node, ast.Assert) and measures(node.test, named):
                yield node.lineno


def measured_names(node: ast.AST, named: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.NamedExpr) and measures(node.value, named):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def measures(node: ast.expr, named: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=clock)):
            return CLOCK.fullmatch(clock) is not None
        case ast.Name(id=name):
            return name in named
        case ast.Compare(left=left, comparators=others):
            return any(measures(each, named) for each in (left, *others))
        case ast.BinOp(left=left, right=right):
            return measures(left, named) or measures(right, named)
        case ast.BoolOp(values=values):
            return any(measures(each, named) for each in values)
        case ast.UnaryOp(operand=operand):
            return measures(operand, named)
    return False


def test_no_test_asserts_on_time_because_a_busy_machine_is_no_wrong_one() -> None:
    sources = {path.name: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    found = {name: list(timed_assertions(text)) for name, text in sources.items() if "import time\n" in text}
    assert found and {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "body",
    [
        "start = time.monotonic(); assert time.monotonic() - start < 5",
        "end = time.time_ns() + 5; late = end - 1; assert not (done and late > 7)",
    ],
)
def test_timed_assertions_are_recognised(body: str) -> None:
    assert list(timed_assertions(f"def test_it():\n    {body}")) == [2]


@pytest.mark.parametrize(
    "body", ["run(clock=time.monotonic); assert run.seconds == 5", "start = time.monotonic(); assert wait(start) == 3"]
)
def test_other_uses_of_clocks_are_left_alone(body: str) -> None:
    assert list(timed_assertions(f"def test_it():\n    {body}")) == []


def contexts_in(tree: ast.Module) -> set[str]:
    """Return the names of a module's functions that make something to be entered."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(map(makes_context, (*node.decorator_list, node.returns)))
    }


def makes_context(node: ast.expr | None) -> bool:
    return node is not None and re.match(r"contextmanager$|AbstractContextManager\b", ast.unparse(node)) is not None


def left_contexts(tree: ast.Module, known: dict[str, set[str]]) -> Iterator[int]:
    """Yield the lines that make something to be entered and leave it at that; `known` has what each module makes."""
    names = contexts_in(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            made = known.get(f"{node.module}".rpartition(".")[2], ())
            names |= {each.name for each in node.names if each.name in made}
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in names:
                yield node.lineno


def test_what_is_made_to_be_entered_is_entered() -> None:
    """Nothing says so of what is to be replaced for a while, and never is."""
    sources = {path: path.read_text() for path in project_files() if path.suffix == ".py"}
    trees = {path: ast.parse(text) for path, text in sources.items() if re.search("(?i)contextmanager", text)}
    known = {path.stem: contexts_in(tree) for path, tree in trees.items()}
    assert known["patch"] == {"replaced", "all_replaced", "wrapped", "blind_to_metadata"}
    statement = re.compile(rf"^ *(?:{'|'.join(name for names in known.values() for name in names)})\(", re.MULTILINE)
    found = {path: [*left_contexts(ast.parse(text), known)] for path, text in sources.items() if statement.search(text)}
    assert found and {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "is_left"),
    [
        ("replaced('x', 1)", True),
        ("from a.patch import wrapped\nwrapped('x', 1)", True),
        ("from a.patch import other\nother('x', 1)", False),
        ("with replaced('x', 1): pass", False),
        ("stack.enter_context(replaced('x', 1))", False),
    ],
)
def test_what_is_made_and_not_entered_is_recognised(line: str, *, is_left: bool) -> None:
    makers = "@contextmanager\ndef replaced(): ...\n", "def wrapped() -> AbstractContextManager[None]: ...\n"
    known = {"patch": contexts_in(ast.parse("".join(makers)))}
    assert known == {"patch": {"replaced", "wrapped"}}
    assert bool([*left_contexts(ast.parse(makers[0] + line), known)]) is is_left


def test_commands_say_of_themselves_what_the_list_of_commands_says() -> None:
    for name, sentence in COMMANDS.items():
        command = getattr(importlib.import_module(f"tornproof.cli.commands.{name}"), name)
        assert command.__doc__.partition("\n")[0] == sentence
    assert {path.stem for path in (ROOT / "src/tornproof/cli/commands").glob("[a-z]*.py")} == set(COMMANDS)


def test_the_numbers_in_how_it_works_are_those_of_the_code() -> None:
    page = " ".join((ROOT / "docs" / "how-it-works.md").read_text().split())
    for said in (
        f"The {len(list((ROOT / 'scenarios').glob('*.toml')))} scenarios in",
        f"lists {len(ALL)} planted faults",
        f"{len(RULES)} kinds of anomaly",
        f"{len(POSITIONS) + 1} writer processes in sequence, {len(POSITIONS)} of them killed",
        f"at most {CALLS_MAX:,} calls, and {REPEATED_CALLS_MAX:,} if it only repeats itself",
    ):
        assert said in page


UNLIMITED_CACHES = {
    *(
        "arguments:_hints_of",
        "chunk.row_group_encoder:_sorting_field",
        "extension.alp:_pairs",
        "migrate.shapes:shape_of",
    ),
    *("parquet.pages:_plan", "pm.block:_known", "read.decoding:_pool", "storage.checksum:_helper"),
    "storage.fences:fence_of_this_machine",
}
"""What they are asked for is in the code, of which there is only so much."""


def test_nothing_that_a_file_says_is_remembered_without_a_limit() -> None:
    found = set()
    for module in pkgutil.walk_packages(tornproof.impl.__path__, "tornproof.impl."):
        members = vars(importlib.import_module(module.name)).items()
        own = {name: each for name, each in members if getattr(each, "__module__", "") == module.name}
        caches = {name: each.cache_parameters() for name, each in own.items() if hasattr(each, "cache_parameters")}
        short = module.name.removeprefix("tornproof.impl.")
        found |= {f"{short}:{name}" for name, limits in caches.items() if limits["maxsize"] is None}
    assert found == UNLIMITED_CACHES
