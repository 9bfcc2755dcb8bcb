"""`tornproof verify` as its users meet it: exit codes, JSON, plain text in a pipe, and what a terminal may be told."""

import json
import os
import pty
import re
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import table_builder as tb
from command_line import Run, WarmRunner, cold_run, environment, sentence_of
from depth import nightly
from golden_data import CHAIN, CUT_DATA, LEGACY, ORPHANED, CopyOf

from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.types.questdb import TypeTag

FLIPPED_PAGE = "power-loss/9.4.2/one-byte-flipped-inside-a-data-page/table"
ESCAPE = "\x1b"
KEYS = {"format", "table", "version", "sound", "verdict", "problems", "unreferenced", "notes", "counts", "partitions"}
KEYS |= {"path", "next", "as"}
PARTITION_KEYS = {"name", "format", "rows", "token", "generations", "orphans", "unused_bytes", "dead_bytes", "problems"}
PARTITION_KEYS |= {"looked_at"}
NATIVE_ROWS = "1 native partition (5 rows) looked at only in sizes, offsets, symbol keys and row times"
VERDICT = f"sound in its 1 parquet partition; {NATIVE_ROWS}"
NO_NATIVE = "problem 2024-01-02: directory: expected a directory, because _txn names it with 5 rows, found none"
"""Images of power losses lack their native partition."""
PROBLEM_KEYS = {"file", "field", "offset_bytes", "expected", "actual"}


def test_sound_table_is_exit_0_from_a_shell(questdb_data: Path) -> None:
    run = cold_run("verify", questdb_data / CHAIN)
    assert (run.code, run.err) == (0, "")
    assert f"version 5: {VERDICT}" in run.out
    assert "23 rows" in run.out


def test_damaged_table_is_exit_1_from_a_shell_and_names_the_place(questdb_data: Path) -> None:
    run = cold_run("verify", questdb_data / CUT_DATA)
    assert (run.code, run.err) == (1, "")
    assert "problem 2024-01-01.1/data.parquet: size: expected 6667 bytes or more" in run.out
    assert NO_NATIVE in run.out
    assert "damaged: 2 problems" in run.out


def test_no_table_is_exit_2_with_one_sentence(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("verify", tmp_path)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run) == f"{tmp_path}: not a table: it holds no _txn"


def test_json_of_a_sound_table_has_the_keys_of_the_contract(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / CHAIN, "--json", "-")
    assert (run.code, run.err) == (0, "")
    document = run.document
    assert document.keys() == KEYS
    assert (document["format"], document["sound"], document["problems"], document["as"]) == (1, True, [], None)
    assert document["verdict"] == VERDICT
    parquet, native = document["partitions"]
    assert parquet.keys() == native.keys() == PARTITION_KEYS
    assert (parquet["name"], parquet["format"], parquet["rows"], parquet["token"]) == (
        "2024-01-01.1",
        "parquet",
        23,
        10642,
    )
    assert parquet["generations"] == 4
    assert (native["format"], native["looked_at"]) == ("native", "sizes, offsets, symbol keys and row times")


def test_json_of_a_damaged_table_lists_problems_by_partition(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / CUT_DATA, "--json", "-")
    assert run.code == 1
    document = run.document
    assert (document["sound"], document["problems"]) == (False, [])
    (problem,) = document["partitions"][0]["problems"]
    assert problem.keys() == PROBLEM_KEYS
    assert (problem["file"], problem["field"], problem["offset_bytes"]) == ("2024-01-01.1/data.parquet", "size", None)


def test_damage_of_txn_belongs_to_the_table(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / "power-loss/9.4.2/txn-version-new-record-area-old/table", "--json", "-")
    assert (run.code, run.document["version"], run.document["partitions"]) == (1, None, [])
    assert [(each["file"], each["field"], each["offset_bytes"]) for each in run.document["problems"]] == [
        ("_txn", "TXN", 400)
    ]


def test_what_a_killed_writer_leaves_is_sound_and_counted(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / ORPHANED, "--json", "-")
    partition, native = run.document["partitions"]
    assert [f"problem {each['file']}: {each['field']}" for each in native["problems"]] == [
        "problem 2024-01-02: directory"
    ]
    assert (partition["orphans"], partition["problems"]) == (1, [])
    assert partition["dead_bytes"] > 0


def test_directories_that_no_version_names_are_listed(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    (table / "2024-01-01.7").mkdir()
    (table / "not a partition").mkdir()
    assert tornproof("verify", table, "--json", "-").document["unreferenced"] == ["2024-01-01.7"]
    assert "unreferenced: 2024-01-01.7 (no committed version names it)" in tornproof("verify", table).out


def test_quick_leaves_the_pages_out_and_says_so(tornproof: WarmRunner, questdb_data: Path) -> None:
    thorough, quick = (tornproof("verify", questdb_data / FLIPPED_PAGE, *flags) for flags in ((), ("--quick",)))
    assert "MAX_STAT of column 'ts'" in thorough.out
    assert "--quick: pages were left out" in quick.out
    assert "left out" not in thorough.out
    assert "MAX_STAT" not in quick.out


def test_table_from_before_pm_is_sound_with_a_note(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / LEGACY, "--json", "-")
    assert run.code == 0
    assert len(run.document["notes"]) == 1
    assert "it can be migrated" in run.document["notes"][0]


def test_in_a_pipe_there_is_neither_colour_nor_progress(tornproof: WarmRunner, questdb_data: Path) -> None:
    for name in (CHAIN, CUT_DATA):
        run = tornproof("verify", questdb_data / name)
        assert ESCAPE not in run.out + run.err
        assert "\r" not in run.out + run.err
        assert run.err == ""


def test_json_can_go_to_a_file_beside_the_text(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    run = tornproof("verify", questdb_data / CHAIN, "--json", target)
    assert run.code == 0
    assert "sound" in run.out
    assert json.loads(target.read_text()) == tornproof("verify", questdb_data / CHAIN, "--json", "-").document
    assert list(tmp_path.iterdir()) == [target]


def test_json_to_a_place_that_cannot_be_written_is_exit_2(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    for target in (tmp_path / "missing" / "out.json", tmp_path):
        run = tornproof("verify", questdb_data / CHAIN, "--json", target)
        assert run.code == 2
        assert sentence_of(run).startswith(f"{target}: cannot write: ")


def test_json_through_a_link_leaves_the_link(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    """A target was once replaced whatever it was; as root, `--json /dev/null` would have taken the device away."""
    target, link = tmp_path / "out.json", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    assert tornproof("verify", questdb_data / CHAIN, "--json", link).code == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["sound"]


@pytest.mark.parametrize("arguments", [(), nightly(("--json", "-"))], ids=["text", "json"])
def test_a_closed_pipe_is_quiet_and_gives_no_verdict(questdb_data: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = cold_run("verify", questdb_data / CHAIN, *arguments, stdout=writing)
    os.close(writing)
    assert (run.code, run.err) == (128 + 13, "")


def test_a_full_disk_is_exit_2_with_one_sentence(questdb_data: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with full.open("w") as stdout:
        run = cold_run("verify", questdb_data / CHAIN, stdout=stdout.fileno())
    assert run.code == 2
    assert sentence_of(run) == "standard output: cannot write: No space left on device"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("read", CHAIN), 2),
        (("inspect", f"{CHAIN}/_txn"), 2),
        (("verify", CHAIN, "--json", "-"), 2),
        (("verify", CHAIN), 0),
    ],
    ids=["rows", "contents", "json", "verdict"],
)
def test_with_standard_output_closed_only_a_verdict_is_an_answer(
    questdb_data: Path, arguments: tuple[str, ...], code: int
) -> None:
    """What was to be printed was written nowhere, with exit code 0."""
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "tornproof", *arguments]
    done = subprocess.run(command, cwd=questdb_data, env=environment(), stderr=subprocess.PIPE, text=True, check=False)
    said = "tornproof: standard output: cannot write: Bad file descriptor\n" if code else ""
    assert (done.returncode, done.stderr) == (code, said)


def test_arguments_that_make_no_sense_are_exit_2(tornproof: WarmRunner, questdb_data: Path) -> None:
    for arguments in ((), ("--nope",), (questdb_data / CHAIN, "more"), (questdb_data / CHAIN, "--json")):
        run = tornproof("verify", *arguments)
        assert (run.code, run.out) == (2, "")
        assert sentence_of(run)


HOSTILE = f"{ESCAPE}[2J{ESCAPE}]0;owned\x07\x9b31m[red]x\u202e"


def hostile_table(tmp_path: Path) -> Path:
    """A table whose column is named to take a terminal over; its statistics do not fit its values."""
    table = tb.build({HOSTILE: (TypeTag.LONG, pa.array([1, 2, 3]))}, compression="none", use_dictionary=False)
    values, others = struct.pack("<3q", 1, 2, 3), struct.pack("<3q", 1, 2, 99)
    assert table.files[tb.DATA].count(values) == 1
    damaged = table.files[tb.DATA].replace(values, others)
    return table.with_file(tb.DATA, damaged).write_to(tmp_path / f"table{HOSTILE}")


def in_a_terminal(*arguments: object) -> Run:
    """Run with both outputs on a terminal of its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tornproof", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**environment(), "TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:
            # A terminal whose other side is closed ends with an error on Linux.
            pass
        os.close(ours)
        code = process.wait(60)
    return Run(code=code, out=shown.decode(), err="")


@pytest.mark.parametrize("command", ["verify", nightly("read"), nightly("inspect")])
def test_a_name_in_a_file_cannot_steer_the_terminal(tmp_path: Path, command: str) -> None:
    table = hostile_table(tmp_path)
    position = table / tb.PM if command == "inspect" else table
    run = in_a_terminal(command, position)
    assert run.code == {"verify": 1, "read": 1, "inspect": 0}[command]
    for steering in (f"{ESCAPE}[2J", f"{ESCAPE}]0;", "\x07", "\x9b", "\u202e"):
        assert steering not in run.out, repr(run.out)
    assert "[red]x" in run.out
    assert "\\x1b[2J" in run.out


def test_a_terminal_gets_colours_of_our_own(questdb_data: Path) -> None:
    run = in_a_terminal("verify", questdb_data / CHAIN)
    assert run.code == 0
    assert f"{ESCAPE}[1;32msound" in run.out


def test_a_pipe_gets_names_written_out_too(tornproof: WarmRunner, tmp_path: Path) -> None:
    table = hostile_table(tmp_path)
    for arguments in (("verify", table), ("verify", table, "--json", "-"), ("read", table)):
        run = tornproof(*arguments)
        assert run.code == 1
        assert not {ESCAPE, "\x07", "\x9b"} & set(run.out + run.err)
        assert "[red]x" in run.out + run.err
    assert tornproof("verify", table, "--json", "-").document["table"] == str(table)


def test_a_path_that_is_no_text_can_be_verified(tornproof: WarmRunner, tmp_path: Path) -> None:
    table = tb.build({}).write_to(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")))
    for arguments in ((), ("--json", "-")):
        run = tornproof("verify", table, *arguments)
        assert (run.code, run.err) == (0, "")
        assert "\\udcff\\udcfe" in run.out.replace("\\\\", "\\")
    assert not re.search(r"(?<!\\)\\ud", run.out), "half a character is not valid in JSON"
    assert run.document["table"].endswith(r"/\udcff\udcfe")


def test_a_line_break_in_a_name_does_not_break_the_line(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    renamed = table.rename(table.with_name("two\nlines"))
    for command in ("verify", "recover"):
        run = tornproof(command, renamed)
        assert run.code == 0
        assert f"{renamed.parent}/two\\nlines version 5: " in run.out
    assert tornproof("verify", renamed, "--json", "-").document["table"] == str(renamed)


BY_HOUR = "tables/9.4.2/many/table"


def next_lines(run: Run) -> list[str]:
    return [line.removeprefix("next ") for line in run.out.splitlines() if line.startswith("next ")]


def test_a_damaged_table_leads_to_the_rows_that_can_be_read_and_to_the_repair(
    tornproof: WarmRunner, copy_of: CopyOf
) -> None:
    table = copy_of(BY_HOUR)
    damaged = table / "2024-10-01T01.1"
    content = bytearray((damaged / "_pm").read_bytes())
    content[100] ^= 1
    (damaged / "_pm").write_bytes(content)
    (table / "2024-10-01T03.3" / "data.parquet").write_bytes(b"PAR1")
    run = tornproof("verify", table)
    assert run.code == 1
    read = f"tornproof read {table}"
    rows, *ranges, repair, restore = next_lines(run)
    assert rows == "98 of 141 rows can still be read, those of 8 of 12 partitions"
    assert ranges == [
        f"{read} --from 2024-10-01 --to 2024-10-01T01:00:00",
        f"{read} --from 2024-10-01T02:00:00 --to 2024-10-01T03:00:00",
        f"{read} --from 2024-10-01T04:00:00 --to 2024-10-01T07:00:00",
        "and 1 more range of times",
    ]
    assert repair == f"tornproof migrate {table} repairs 2024-10-01T01.1: with the server stopped, --dry-run first"
    assert restore == "restore 2024-10-01T03.3 from a backup, and verify again"
    assert tornproof("verify", table, "--json", "-").document["next"] == next_lines(run)
    for command in ranges[:3]:
        reading = tornproof(*command.split()[1:])
        assert reading.code == 0
        assert len(reading.out.splitlines()) > 1
    assert tornproof("read", table, "--from", "2024-10-01T01:00").code == 1
    assert tornproof("migrate", table).code == 1
    assert "2024-10-01T01.1" not in next_lines(tornproof("verify", table))[-1]


def test_a_damage_that_recovery_repairs_names_it(tornproof: WarmRunner, questdb_data: Path) -> None:
    table = questdb_data / "power-loss/9.4.2/pm-header-old-txn-new/table"
    repair = f"tornproof recover {table} repairs 2024-01-01.1: with the server stopped, --dry-run first"
    assert repair in next_lines(tornproof("verify", table))


def test_a_table_without_version_says_so_and_what_to_restore(tornproof: WarmRunner, questdb_data: Path) -> None:
    table = questdb_data / "power-loss/9.4.2/txn-version-new-record-area-old/table"
    run = tornproof("verify", table)
    assert f"{table}: damaged: 1 problem, no version can be read" in run.out
    assert next_lines(run)[0].startswith("restore the named file from a backup")


def test_a_wrong_index_leads_to_dropping_it(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of("indexed/9.4.2/indexed_nonwal/table")
    with (table / "2024-05-01.1/s.v").open("r+b") as file:
        file.write(b"\5")
    run = tornproof("verify", table)
    assert run.code == 1
    rows, *_, index = next_lines(run)
    assert rows == "290 of 402 rows can still be read, those of 2 of 3 partitions"
    assert "lookups by an index are wrong, rows are not: column 's' has an index" in index


def test_a_sound_table_leads_nowhere(tornproof: WarmRunner, questdb_data: Path) -> None:
    assert next_lines(tornproof("verify", questdb_data / CHAIN)) == []


# Presets


KILLED = "crashes/9.4.2/sync-1-06/table"
NO_VERSION = "power-loss/9.4.2/txn-version-new-record-area-old/table"
LONG_TAIL = "crashes/2026-07/sync-2-17/table"
AS_KEYS = {"preset", "readable", "writable", "reason", "hazards"}


@pytest.mark.parametrize(
    ("table", "preset", "code", "readable", "writable"),
    [
        (CHAIN, "hardened", 0, True, True),
        nightly(CHAIN, "questdb-9.4.2", 0, True, True),
        (KILLED, "hardened", 0, True, True),
        (KILLED, "questdb-9.4.2", 1, False, False),
        nightly(KILLED, "questdb-9.4.3-sync", 1, False, False),
        (KILLED, "questdb-2026-07", 0, True, True),
        nightly(NO_VERSION, "questdb-9.4.2", 1, False, False),
        (FLIPPED_PAGE, "questdb-9.4.2", 1, True, True),
        (LEGACY, "questdb-9.4.2", 1, False, False),
    ],
)
def test_json_says_what_a_release_makes_of_a_table(
    table: str, preset: str, code: int, readable: bool, writable: bool, tornproof: WarmRunner, questdb_data: Path
) -> None:
    run = tornproof("verify", questdb_data / table, "--as", preset, "--json", "-")
    found = run.document["as"]
    assert (run.code, run.err) == (code, "")
    assert found.keys() == AS_KEYS
    assert (found["preset"], found["readable"], found["writable"]) == (preset, readable, writable)
    assert isinstance(found["reason"], str) and found["reason"]
    assert found["hazards"] == []
    plain = tornproof("verify", questdb_data / table, "--json", "-").document
    assert {**run.document, "as": None} == plain


def test_text_says_it_in_a_line_below_the_verdict(tornproof: WarmRunner, questdb_data: Path) -> None:
    rejected = tornproof("verify", questdb_data / KILLED, "--as", "questdb-9.4.2")
    assert rejected.code == 1
    assert "sound" in rejected.out
    assert "questdb-9.4.2: cannot read it: its reader refuses: 2024-01-01" in rejected.out
    gone_on = tornproof("verify", questdb_data / LONG_TAIL, "--as", "questdb-2026-07")
    assert gone_on.code == 0
    assert "questdb-2026-07: can continue: 314 rows are read" in gone_on.out
    assert "hazard a commit that does not cover the bytes behind the committed end loses a partition" in gone_on.out
    assert "questdb" not in tornproof("verify", questdb_data / LONG_TAIL).out.splitlines()[-1]


def test_table_that_can_be_read_but_not_gone_on_from_is_exit_1(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    (table / "_pins").mkdir()
    run = tornproof("verify", table, "--as", "hardened")
    assert run.code == 1
    assert "hardened: can read it, but not continue: its writer refuses: " in run.out


def test_unknown_preset_is_exit_2_with_the_names_of_all(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / CHAIN, "--as", "questdb-1.0")
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run) == f"there is no preset 'questdb-1.0'; there are {', '.join(PRESETS)}"


def test_damaged_metadata_of_a_table_is_no_answer_of_a_release_but_not_readable_either(
    tornproof: WarmRunner, copy_of: CopyOf
) -> None:
    table = copy_of(CHAIN)
    (table / "_meta").write_bytes(b"x" * 40)
    run = tornproof("verify", table, "--as", "questdb-9.4.2", "--json", "-")
    assert (run.code, run.err) == (1, "")
    assert run.document["as"]["readable"] is False
    assert run.document["as"]["reason"].startswith("_meta: ")
    assert run.document["problems"]


def test_the_table_itself_is_not_touched(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(KILLED)

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}

    before = content()
    for preset in ("hardened", "questdb-9.4.2", "questdb-2026-07"):
        tornproof("verify", table, "--as", preset)
    assert content() == before
    relative = tornproof("verify", table.name, "--as", "hardened", folder=table.parent)
    assert relative.code == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_page_about_presets_tells_of_each(preset: str) -> None:
    assert f"`{preset}`" in (Path(__file__).parents[2] / "docs/presets.md").read_text()


def test_release_that_cannot_go_on_is_told_of_the_command_after_which_it_can(
    tornproof: WarmRunner, questdb_data: Path
) -> None:
    for table, command in ((KILLED, "recover"), (LEGACY, "migrate")):
        run = tornproof("verify", questdb_data / table, "--as", "questdb-9.4.2", "--json", "-")
        assert run.document["as"]["reason"].endswith(
            f"; it can continue after tornproof {command} {questdb_data / table}"
        )
    lost = tornproof("verify", questdb_data / NO_VERSION, "--as", "questdb-9.4.2", "--json", "-").document
    assert "it can continue after" not in lost["as"]["reason"]
