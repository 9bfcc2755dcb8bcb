"""Whatever stands where a table should be: one clear answer, a documented exit code, in little memory.

Every run of the command line here is a process of its own whose memory is measured alone, and which an alarm ends.
"""

import itertools
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hostile_tables as hostile
import pytest
import table_builder as tb
from command_line import Run, WarmRunner, run_here, sentence_of
from depth import sampled

from tornproof.cli import app
from tornproof.cli.output import ExitCode, visible
from tornproof.impl.errors import EMPTY_PATH

PEAK_BYTES_MAX = 300_000_000
COMMANDS = ("verify", "read", "check", "inspect")
NOBODY = 65534

# Exit codes of verify, read and check, where they are not 1: what is sound, what verify alone objects to (the Thrift
# footer and exactness are not what a reader goes by), what read refuses to spend memory on, what cannot be read.
SOUND = {
    "_txn: a_symbols_size = 0",
    "_txn: symbol_column_count = 4611686018427387904",
    "_txn: name_txn = 1",
    "_txn: row_count_and_flags = -2",
    "_txn: row_count_and_flags = -1",
    "_txn: row_count_and_flags = 9223372036854775807",
    "_meta: type = -1",
    "_meta: a name that steers terminals",
    "_pm: sorting_column_count = 0",
    "_pm: name_length = 1",
    "_pm: id = 2",
    "_pm: id = 1000",
    "_pm: id = 2147483648",
    "_pm: id = 4294967295",
    "_pm: type = 4294967295",
    "_pm: null_count = 1",
    "_pm: stat_sizes = 136",
    "_pm: stat_flags = 255",
    "_pm: min_stat = 1",
    "_pm: row_group_count = 1",
    "_pm: unused_bytes = 0",
    "_pm: unused_bytes = 1",
    "_pm: prev_parquet_meta_file_size = 0",
    "_pm: footer_feature_flags = 2147483648",
    "a bomb of repeated text",
    "a name that steers terminals",
}
ONLY_VERIFY_OBJECTS = {
    "_pm: column_count = 1",
    "_pm: name_length = 0",
    "_pm: stat_flags = 0",
    "_pm: stat_flags = 63",
    "2^24 rows",
    "2^24 rows of 8 columns",
    "2^24 rows of 8 columns in _pm",
}
UNSUPPORTED_BY_READ = {
    "_pm: max_rep_level = 1",
    "_pm: max_def_level = 2",
    "_pm: max_def_level = 255",
    "_pm: codec = 3",
    "2^62 rows",
    "2^24 + 1 rows",
}
UNREADABLE = {
    *(f"{name}: {what}" for name in ("_txn", "_meta") for what in ("a directory", "a FIFO", "a link to itself")),
    "_pm: a link to itself",
    "data.parquet: a link to itself",
    "a bomb of a dictionary",
    "_txn: missing",
    "_txn: 2^26 partitions in a file that is large enough",
    "_txn: an area behind 2 GiB",
    "_meta: 17 MiB",
    "_meta: partition_by = 6",  # a view
    *(f"_pm: feature_flags = {value}" for value in (2**62, 2**63, 2**64 - 1)),
    *(f"_pm: footer_feature_flags = {value}" for value in (2**62, 2**64 - 1)),
    "260,000 partitions",
    "_pm of 127 MiB of zeros",
    "_pm of 200 MiB of zeros",
}
NO_FILE = (": a directory", ": a FIFO", ": a link to itself", ": missing")
CODES = {
    **dict.fromkeys(SOUND, (0, 0, 0)),
    **dict.fromkeys(ONLY_VERIFY_OBJECTS, (1, 0, 1)),
    **dict.fromkeys(UNSUPPORTED_BY_READ, (1, 2, 1)),
    **dict.fromkeys(UNREADABLE, (2, 2, 2)),
    # None of them is there, and only `verify` looks at native ones.
    "20,000 partitions": (1, 0, 0),
    # Above what check copies into memory.
    "data.parquet of 150 MiB": (0, 0, 2),
    "data.parquet of 1 TiB": (0, 0, 2),
}


def expected_codes(command: str, name: str) -> set[int]:
    if command == "inspect":
        # It looks at one file, where another one may be what is wrong.
        return {2} if name.endswith(NO_FILE) else {0, 1, 2}
    return {CODES.get(name, (1, 1, 1))[("verify", "read", "check").index(command)]}


def arguments_of(command: str, name: str, table: Path) -> list[object]:
    match command:
        case "check":
            return ["check", table, "--only", "verify", "--findings", table.parent / "findings"]
        case "inspect":
            file = next((file for key, file in hostile.FILES.items() if name.startswith(f"{key}:")), tb.PM)
            return ["inspect", table / file]
        case _:
            return [command, table]


def complaint_about(run: Run, command: str, codes: set[int]) -> str:
    """Return what a run did wrong, or an empty text."""
    if run.code not in codes:
        return f"exit code {run.code}, not {codes}: {run.err or run.out}"
    if run.peak_bytes > PEAK_BYTES_MAX:
        return f"{run.peak_bytes} bytes"
    if "Traceback" in run.out + run.err or "defect" in run.err:
        return f"not an answer: {run.err}"
    if visible(run.err, kept="\n") != run.err or (command != "read" and visible(run.out, kept="\n") != run.out):
        return f"control characters: {run.err!r} {run.out[:500]!r}"
    listed = {"verify": "problem ", "check": "finding "}.get(command)
    if run.code == 1 and listed:
        problems = [line for line in run.out.splitlines() if line.startswith(listed)]
        return "" if problems and not run.err else f"no list of problems: {run.out} {run.err}"
    if run.code and (run.err.count("\n") != 1 or not run.err.startswith("tornproof: ")):
        return f"not one sentence: {run.err!r}"
    return ""


def complaints(runner: WarmRunner, command: str, cases: Mapping[str, hostile.Make], folder: Path) -> dict[str, str]:
    """Run a command on every table; an empty dictionary is a passed test."""
    found = {}
    for name, make in cases.items():
        table = folder / "table"
        make(table)
        run = runner(*arguments_of(command, name, table))
        found[name] = complaint_about(run, command, expected_codes(command, name))
        shutil.rmtree(table)
    assert found
    return {name: complaint for name, complaint in found.items() if complaint}


def every(step: int, start: int, cases: dict[str, hostile.Make]) -> dict[str, hostile.Make]:
    return dict(list(cases.items())[start::step])


@pytest.mark.parametrize(("name", "command"), sampled(6, list(itertools.product(hostile.FILES, COMMANDS))))
def test_whatever_stands_in_place_of_a_file_is_answered(
    tornproof: WarmRunner, tmp_path: Path, name: str, command: str
) -> None:
    # Each kind by one command, and by another one in each file.
    start = (COMMANDS.index(command) + list(hostile.FILES).index(name)) % len(COMMANDS)
    assert complaints(tornproof, command, every(len(COMMANDS), start, hostile.kinds(name)), tmp_path) == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_numbers_at_the_edges_of_their_types_are_answered(tornproof: WarmRunner, tmp_path: Path, command: str) -> None:
    # Others of them for each command.
    start = COMMANDS.index(command) * 10
    for group in (hostile.txn_cases(), hostile.meta_cases(), hostile.pm_cases()):
        assert complaints(tornproof, command, every(40, start, group), tmp_path) == {}


@pytest.mark.parametrize("name", sampled(3, list(hostile.special_cases())))
def test_bombs_and_crowds_are_answered(tornproof: WarmRunner, tmp_path: Path, name: str) -> None:
    # Each by one of the commands, and by others in each.
    table, cases = tmp_path / "table", hostile.special_cases()
    cases[name](table)
    command = COMMANDS[list(cases).index(name) % len(COMMANDS)]
    run = tornproof(*arguments_of(command, name, table))
    assert complaint_about(run, command, expected_codes(command, name)) == "", command


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_every_hostile_table_is_answered(tornproof: WarmRunner, tmp_path: Path, command: str) -> None:
    # Each by one of the commands, beside those that more of them are given by day.
    cases = every(len(COMMANDS), COMMANDS.index(command), hostile.all_cases())
    assert complaints(tornproof, command, cases, tmp_path) == {}


def test_every_exception_from_exit_code_1_is_about_a_table_that_exists() -> None:
    cases = hostile.all_cases()
    assert CODES.keys() - cases.keys() == set()
    assert len(cases) >= 370


def test_a_sound_table_is_not_complained_of(tornproof: WarmRunner, tmp_path: Path) -> None:
    hostile.sound().write_to(tmp_path / "table")
    for command in COMMANDS:
        run = tornproof(*arguments_of(command, "", tmp_path / "table"))
        assert complaint_about(run, command, {0}) == ""


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Run(code=-11, out="", err=""), id="signal"),
        pytest.param(Run(code=2, out="", err="tornproof: a\ntornproof: b\n"), id="two sentences"),
        pytest.param(Run(code=2, out="", err="Traceback (most recent call last)\n"), id="traceback"),
        pytest.param(Run(code=2, out="", err="tornproof: \x1b[2J\n"), id="control characters"),
        pytest.param(Run(code=2, out="", err="tornproof: a\n", peak_bytes=1 << 30), id="memory"),
        pytest.param(Run(code=-signal.SIGALRM, out="", err=""), id="time"),
        pytest.param(Run(code=1, out="damaged", err=""), id="no list"),
        pytest.param(Run(code=0, out="", err=""), id="sound"),
    ],
)
def test_bad_answers_are_complained_of(bad: Run) -> None:
    assert complaint_about(bad, "verify", {1, 2}) != ""
    assert complaint_about(Run(code=2, out="", err="tornproof: a\n"), "verify", {1, 2}) == ""


def missing(path: Path) -> None: ...


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "put",
    [missing, Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)],
    ids=["nothing", "empty folder", "FIFO", "link to itself"],
)
def test_what_is_no_table_is_exit_2(
    tornproof: WarmRunner, tmp_path: Path, command: str, put: Callable[[Path], None]
) -> None:
    position = tmp_path / "x\x1b[2J[red]\n"
    put(position)
    run = tornproof(command, position)
    assert (run.code, run.out) == (2, "")
    assert "\\x1b[2J[red]\\n" in sentence_of(run)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        pytest.param(path, command, id=f"{name}-{command}")
        for name, path in (("nothing", ""), ("too long", "a" * 300), ("device", os.devnull), ("root", "/"))
        for command in ("verify", "read", "check")
        # It verifies all tables that this machine has.
        if (name, command) != ("root", "verify")
    ],
)
def test_a_path_of_no_folder_is_exit_2(tornproof: WarmRunner, command: str, path: str) -> None:
    run = tornproof(command, path)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter and write to; pytest's own are for their user alone."""
    with tempfile.TemporaryDirectory(prefix="tornproof-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.mark.parametrize(
    "line",
    [
        *("check ''", "check --findings ''", "check --report ''", "verify ''", "verify t --json ''"),
        *("verify t --report ''", "recover ''", "migrate ''", "migrate t --out ''", "migrate t --report ''"),
        *("inspect ''", "extend ''", "extend f --strip --out ''", "read ''", "read t --out ''", "replay ''"),
        *("record --dir '' --out trace -- true", "record --dir . --out '' -- true", "power '' --check true"),
        *("power trace --check true --findings ''", "report ''", "report . --out ''", "report . --junit ''"),
        *("report file://", "report file://results", "campaign --spec '' --out out"),
        *("campaign --spec x.toml --out ''", "campaign --spec x.toml --out file://out", "barriers --json ''"),
        *("faults --from ''", "faults --table ''", "history ''", "history events --out ''"),
        *("history events --scratch ''", "archive '' --to t", "archive s --to ''"),
        *("archive s --to t --rejects ''", "archive s --to t --schema ''", "check --server ''"),
    ],
)
def test_an_empty_path_is_rejected_and_nothing_is_written(tornproof: WarmRunner, open_folder: Path, line: str) -> None:
    """It was the root of all files for some commands, and the working directory for others."""
    # Who is not root could not have written to the one, and everybody could to the other.
    run = tornproof(*shlex.split(line), folder=open_folder, user=NOBODY if os.geteuid() == 0 else None)
    assert (run.code, run.out) == (2, "")
    assert EMPTY_PATH in sentence_of(run) or "an address of one is file:///PATH" in sentence_of(run)
    assert list(open_folder.iterdir()) == []


@pytest.mark.parametrize("line", ["check --json x", "check --report x", "verify . --report x", "history events"])
def test_a_working_directory_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Standard output was blamed."""
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    with pytest.raises(FileNotFoundError) as failure:
        run_here(*line.split())
    assert app._explained(failure.value) == ExitCode.USAGE
    assert capsys.readouterr().err == "tornproof: the working directory is not there any more; change to one that is\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["campaign", "--spec", "x.toml", "--out", "gs://bucket/out"],
            "gs://bucket/out: no address of a file; valid ",
        ),
        (["archive", "x.jsonl", "--to", "s3a://bucket/t"], "--to: s3a://bucket/t: only paths of this machine's "),
        (["verify", "s3://bucket/table"], "TABLE: s3://bucket/table: only paths of this machine's "),
        (["migrate", "hdfs://host/tables"], "PATH: hdfs://host/tables: only paths of this machine's "),
        (["campaign", "--spec=file:///x.toml", "--out", "out"], "--spec: file:/x.toml: only paths of this machine's "),
        (["report", "ftp://host/results"], "ftp://host/results: no address of a file; valid are paths, hdfs://"),
        (["history", "gs://bucket/events", "here"], "gs://bucket/events: no address of a file; valid are paths, "),
    ],
)
def test_an_address_in_place_of_a_path_is_rejected_before_anything_is_written(
    tornproof: WarmRunner, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    run = tornproof(*arguments, folder=tmp_path)
    assert (run.code, run.out) == (2, "")
    assert sentence in sentence_of(run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["", *hostile.FILES])
def test_what_may_not_be_read_is_exit_2(tornproof: WarmRunner, open_folder: Path, name: str, command: str) -> None:
    table = hostile.sound().write_to(open_folder / "table")
    locked = table / hostile.FILES[name] if name else table
    locked.chmod(0)
    # Root may read everything, so its child becomes nobody.
    run = tornproof(*arguments_of(command, f"{name}:", table), user=NOBODY if os.geteuid() == 0 else None)
    locked.chmod(0o755)
    assert (run.code, run.out) == (2, "")
    assert "permission denied" in sentence_of(run)


@pytest.mark.parametrize("command", ["verify", "recover --dry-run", "migrate --dry-run"])
def test_a_view_of_a_server_is_no_damaged_table_of_it(tornproof: WarmRunner, tmp_path: Path, command: str) -> None:
    """CREATE VIEW makes a directory with `_txn`, which was damaged, and with it the whole folder."""
    hostile.sound().write_to(tmp_path / "table")
    view = hostile.sound().write_to(tmp_path / "view")
    (view / "_view").touch()
    meta = (view / "_meta").read_bytes()
    (view / "_meta").write_bytes(meta[:4] + b"\x06" + meta[5:])
    run = tornproof(*command.split(), tmp_path)
    document = tornproof(*command.split(), tmp_path, "--json", "-").document
    note = f"{view}: left out, because it is a view, which has no rows of its own"
    assert (run.code, run.err, document["note"]) == (0, "", note)
    assert f"note: {note}\n" in run.out
    (found,) = document["sources" if "sources" in document else "tables"]
    assert Path(found.get("path", found.get("table"))).name == "table"
    alone = tornproof(*command.split(), view)
    assert alone.code in (1, 2, 3) and "6, that of a view, which has no rows of its own" in alone.out + alone.err


@pytest.mark.parametrize("command", ["verify", "recover --dry-run", "migrate --dry-run"])
@pytest.mark.parametrize("checkpoint", [".checkpoint", "copy/_checkpoint_meta.d", "snapshot/db/_snapshot"])
def test_a_checkpoint_of_a_server_holds_no_damaged_tables(
    tornproof: WarmRunner, tmp_path: Path, command: str, checkpoint: str
) -> None:
    """Its tables have `_txn` without partitions, and were damaged, and with them the whole folder."""
    hostile.sound().write_to(tmp_path / "db/table")
    place = tmp_path / checkpoint
    if checkpoint != ".checkpoint":
        place.parent.mkdir(parents=True)
        place.touch()
        place = place.parent
    hostile.sound().write_to(place / "db/table")
    shutil.rmtree(place / "db/table" / tb.DIRECTORY)
    run = tornproof(*command.split(), tmp_path)
    document = tornproof(*command.split(), tmp_path, "--json", "-").document
    note = f"{place}: left out, because it holds a checkpoint, whose tables have no rows yet"
    assert (run.code, run.err, document["note"]) == (0, "", note)
    assert len(document["sources" if "sources" in document else "tables"]) == 1 and f"note: {note}\n" in run.out
    alone = tornproof(*command.split(), place)
    assert alone.code == 2


@pytest.mark.parametrize(("command", "code"), [("verify", 3), ("recover --dry-run", 3), ("migrate --dry-run", 1)])
def test_a_directory_that_may_not_be_read_hides_no_table_beside_it(
    tornproof: WarmRunner, open_folder: Path, command: str, code: int
) -> None:
    """One `lost+found` of root, and no table of the volume was looked at, because the volume was said to be none."""
    closed, table = open_folder / "lost+found", hostile.sound().write_to(open_folder / "table")
    closed.mkdir()
    closed.chmod(0)
    user = NOBODY if os.geteuid() == 0 else None
    run = tornproof(*command.split(), open_folder, user=user)
    document = tornproof(*command.split(), open_folder, "--json", "-", user=user).document
    shutil.rmtree(table)
    alone = tornproof(*command.split(), open_folder, user=user)
    bare = tornproof(command.split()[0], open_folder, user=user)
    closed.chmod(0o755)
    note = f"{closed}: cannot read: Permission denied"
    assert (run.code, run.err, document["note"]) == (code, "", note)
    assert f"note: {note}\n" in run.out
    (found,) = document["sources" if "sources" in document else "tables"]
    assert Path(found.get("path", found.get("table"))).name == "table"
    for nothing in (alone, bare):
        assert (nothing.code, sentence_of(nothing)) == (2, note)
