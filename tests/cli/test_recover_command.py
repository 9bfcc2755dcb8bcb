"""`tornproof recover` as its users meet it: exit codes, JSON, who holds the table, and the document about it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import WarmRunner, cold_run, sentence_of
from depth import nightly
from golden_data import CHAIN, CUT_DATA, LEGACY, ORPHANED, CopyOf, content_of

from tornproof.cli.commands.recover import SENTENCES, recover
from tornproof.impl.errors import UsageError
from tornproof.impl.repair.repair import ActionKind
from tornproof.impl.storage.holders import holders_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.pins import take_writer_lock

DOCS = (Path(__file__).parents[2] / "docs" / "recover.md").read_text(encoding="utf-8")
OLD_HEADER = "power-loss/9.4.2/pm-header-old-txn-new/table"
TORN_TXN = "power-loss/9.4.2/txn-version-new-record-area-old/table"
REWRITTEN = "crashes/9.4.2/rewrite-3-00/table"
JUMPING = "after-restart/2026-07/sync-2-02/table"
DAY = "2024-01-01.1"


def test_a_table_that_a_killed_writer_left_is_recovered_from_a_shell(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    before = content_of(table)
    planned = tornproof("recover", table, "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert "2 to do" in planned.out
    assert content_of(table) == before
    run = cold_run("recover", table)
    assert (run.code, run.err) == (0, "")
    assert "2 done" in run.out
    line = rf"{DAY}/_pm +make the committed generation the last one +1748 +1476 +_recovered/{DAY}/_pm"
    assert re.search(line, run.out)
    assert re.search(rf"{DAY}/data.parquet +truncate at the committed end +6667 +5091 ", run.out)
    assert "old bytes are kept in _recovered until `recover --forget`" in run.out


def test_recovered_tables_are_sound_and_a_second_run_says_that_nothing_is_to_be_done(
    tornproof: WarmRunner, copy_of: CopyOf
) -> None:
    for name in (ORPHANED, OLD_HEADER, JUMPING, CHAIN):
        table = copy_of(name)
        read = tornproof("read", table)
        assert tornproof("recover", table).code == 0
        verdict = tornproof("verify", table, "--json", "-")
        problems = [each for partition in verdict.document["partitions"] for each in partition["problems"]]
        # Images of power losses lack their native partition.
        assert [each["field"] for each in problems] == ["directory"] * name.startswith("power-loss/")
        assert [(each["orphans"], each["dead_bytes"]) for each in verdict.document["partitions"]] == [(0, 0)] * len(
            verdict.document["partitions"]
        )
        assert (read.code == 0) == (name != OLD_HEADER)
        assert read.code or tornproof("read", table).out == read.out
        after = content_of(table)
        again = tornproof("recover", table)
        assert (again.code, again.err) == (0, "")
        assert "nothing to do" in again.out
        assert "old bytes" not in again.out
        assert content_of(table) == after


def test_a_table_without_anything_to_do_is_not_touched(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    for name, note in ((CHAIN, ""), (LEGACY, "note: ")):
        table = copy_of(name)
        before = content_of(table)
        run = tornproof("recover", table)
        assert run.code == 0
        assert "nothing to do" in run.out
        assert note in run.out
        assert content_of(table) == before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (CUT_DATA, f"{DAY}/data.parquet: size: expected 6667 bytes or more, the committed token, found 5091 bytes"),
        (TORN_TXN, "_txn: TXN at byte 400: expected "),
    ],
)
def test_what_cannot_be_repaired_is_exit_1_with_one_sentence(
    tornproof: WarmRunner, copy_of: CopyOf, name: str, problem: str
) -> None:
    table = copy_of(name)
    before = content_of(table)
    for flags in ((), ("--dry-run",)):
        run = tornproof("recover", table, *flags)
        assert (run.code, run.err) == (1, "")
        assert run.out.count("cannot be repaired ") == 1
        assert f"cannot be repaired {problem}" in run.out
        assert "nothing to do, 1 problem that cannot be repaired" in run.out
    assert content_of(table) == before


def test_no_table_is_exit_2_with_one_sentence(tornproof: WarmRunner, tmp_path: Path) -> None:
    for flags in ((), ("--dry-run",), ("--forget",)):
        run = tornproof("recover", tmp_path, *flags)
        assert (run.code, run.out) == (2, "")
        assert sentence_of(run) == f"{tmp_path}: not a table: it holds no _txn"


def test_unreferenced_directories_are_named(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(REWRITTEN)
    before = content_of(table)
    run = tornproof("recover", table, "--json", "-")
    assert len(run.document["unreferenced"]) == 1
    assert content_of(table) == before
    assert f"unreferenced: {run.document['unreferenced'][0]} " in tornproof("recover", table).out


def test_old_bytes_are_kept_until_they_are_forgotten(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    before = content_of(table)
    tornproof("recover", table)
    after = content_of(table)
    assert after[f"_recovered/{DAY}/_pm"] == before[f"{DAY}/_pm"]
    cut = after[f"_recovered/{DAY}/data.parquet.from-5091"]
    assert after[f"{DAY}/data.parquet"] + cut == before[f"{DAY}/data.parquet"]
    planned = tornproof("recover", table, "--forget", "--dry-run")
    assert content_of(table) == after
    assert "2 to do" in planned.out
    forgotten = tornproof("recover", table, "--forget", "--json", "-")
    assert [each["action"] for each in forgotten.document["actions"]] == ["forget", "forget"]
    assert not (table / "_recovered").exists()
    assert content_of(table) == {name: each for name, each in after.items() if not name.startswith("_recovered")}
    assert "nothing to do" in tornproof("recover", table, "--forget").out


def test_forgetting_recovers_nothing(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    before = content_of(table)
    assert tornproof("recover", table, "--forget").code == 0
    assert content_of(table) == before


# Who holds the table

HOLD = {
    "open": "file = open(path)",
    "mapped": "import mmap; file = open(path); held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); file.close()",
    "removed": "file = open(path); import os; os.unlink(path)",
}


@contextmanager
def holding(path: Path, how: str = "open") -> Iterator[int]:
    """Another process that holds a file, and its id."""
    script = f"import sys; path = sys.argv[1]; {HOLD[how]}; print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("_txn", "open"),
        nightly("_txn", "mapped"),
        nightly(f"{DAY}/data.parquet", "open"),
        (f"{DAY}/data.parquet", "mapped"),
    ],
)
def test_a_table_in_use_is_rejected_and_the_process_is_named(
    tornproof: WarmRunner, copy_of: CopyOf, how: str, file: str
) -> None:
    table = copy_of(ORPHANED)
    before = content_of(table)
    with holding(table / file, how) as pid:
        command = Path(f"/proc/{pid}/comm").read_text().strip()
        for flags in ((), ("--dry-run",)):
            run = tornproof("recover", table, *flags)
            assert (run.code, run.out) == (2, "")
            assert sentence_of(run) == (
                f"{table}: in use by {command} (process {pid}); stop it first, because recovery needs exclusive access"
            )
        assert content_of(table) == before
        assert tornproof("recover", table, "--forget").code == 0
    assert tornproof("recover", table).code == 0


def test_a_file_that_was_removed_or_lies_behind_a_link_is_in_use_too(copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    (table / "spare").write_bytes(b"x")
    elsewhere = table.parent / "elsewhere"
    (table / DAY).rename(elsewhere)
    (table / DAY).symlink_to(elsewhere)
    link = table.parent / "link"
    link.symlink_to(table)
    for path, how in ((table / "spare", "removed"), (elsewhere / "_pm", "mapped"), (link / "_txn", "open")):
        with holding(path, how) as pid:
            for spelled in (table, link):
                assert [holder.pid for holder in holders_of(str(spelled))] == [pid]
    assert holders_of(str(table)) == ()


def test_neighbours_and_our_own_process_do_not_count(copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    neighbour = table.parent / f"{table.name}2"
    neighbour.write_bytes(b"x")
    with holding(neighbour), (table / "_txn").open():
        assert holders_of(str(table)) == ()


def fake_process(processes: Path, pid: int, maps: str = "", command: str | None = "java\n") -> Path:
    """A process as the kernel shows it."""
    process = processes / str(pid)
    (process / "fd").mkdir(parents=True)
    (process / "maps").write_text(maps)
    if command is not None:
        (process / "comm").write_text(command)
    return process


def test_processes_are_recognised_by_path_and_by_inode(copy_of: CopyOf, tmp_path: Path) -> None:
    table = copy_of(ORPHANED)
    (table / "new\nline").write_bytes(b"x")
    status = (table / "_txn").stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    processes = tmp_path / "processes"
    line = "7f00-7f01 r--s 00000000 {} {}          {}\n"
    fake_process(processes, 10, line.format("00:00", 0, "[heap]") + "7f00-7f01 rw-p 00000000 00:00 0\n")
    fake_process(processes, 9, line.format(device, status.st_ino, "/somewhere/in/a/container/_txn"))
    fake_process(processes, 8, line.format("ff:ff", 1, f"{table}/{DAY}/_pm (deleted)"))
    fake_process(processes, 7, line.format("ff:ff", 1, f"{table}/new\\012line"), command=None)
    fake_process(processes, 6, line.format("ff:ff", status.st_ino, "/elsewhere/_txn"))
    fake_process(processes, 2, line.format("ff:ff", 1, "/elsewhere/line\r1 2 3 x:y 5 6"))
    (fake_process(processes, 5) / "fd" / "3").symlink_to(table / "_txn")
    (fake_process(processes, 4) / "fd" / "3").symlink_to(tmp_path / "gone")
    fake_process(processes, os.getpid(), line.format("ff:ff", 1, f"{table}/_txn"))
    (processes / "3").mkdir()
    (processes / "uptime").write_text("1")
    held = [(holder.pid, holder.command) for holder in holders_of(str(table), processes=processes)]
    assert held == [(5, "java"), (7, "unknown"), (8, "java"), (9, "java")]
    assert holders_of(str(table), processes=tmp_path / "no such folder") == ()


def test_many_holders_are_counted(copy_of: CopyOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = copy_of(ORPHANED)
    for pid in range(1, 8):
        fake_process(tmp_path / "processes", pid, f"7f00-7f01 r--s 00000000 ff:ff 1   {table}/_txn\n")
    holders = holders_of(str(table), processes=tmp_path / "processes")
    monkeypatch.setattr("tornproof.api.holders.holders_of", lambda table: holders)
    with pytest.raises(UsageError, match=r"in use by java \(process 1\), .*java \(process 5\) and 2 more; stop it"):
        recover(str(table))


def test_a_writer_of_our_own_is_a_reason_to_reject(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(ORPHANED)
    with take_writer_lock(OperatingSystemStorage(), str(table)):
        with pytest.raises(UsageError, match="another writer has the table open"):
            recover(str(table))
        run = tornproof("recover", table)
    assert run.code == 2
    assert re.search(r"in use by \S+ \(process \d+\)", sentence_of(run))
    assert tornproof("recover", table).code == 0


def test_a_table_of_another_user_is_rejected(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    table = copy_of(ORPHANED)
    before = content_of(table)
    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(UsageError, match=f"belongs to user {owner}; run this as that user"):
        recover(str(table))
    assert recover(str(table), dry_run=True) == recover(str(table), forget=True) == 0
    assert content_of(table) == before


# The document


def test_the_example_of_the_document_is_what_a_run_says(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    (example,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL))
    table = copy_of(ORPHANED)
    document = tornproof("recover", table, "--json", "-").document
    assert document == {**example, "table": str(table)}
    assert list(document) == ["format", "table", *list(example)[1:]]


def test_the_document_names_every_action_and_every_field(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    described = set(re.findall(r"`([a-z0-9_]+)`", DOCS))
    assert set(ActionKind) == SENTENCES.keys()
    assert {str(kind) for kind in ActionKind} <= described
    document = tornproof("recover", copy_of(CUT_DATA), "--json", "-").document
    assert document.keys() | document["problems"][0].keys() <= described
    for flag in ("--dry-run", "--forget", "--json"):
        assert flag in DOCS
        assert flag in tornproof("recover", "--help").out


def test_a_recovery_does_not_begin_if_its_answer_has_no_place(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path
) -> None:
    table = copy_of(CHAIN)
    (table / "_txn").unlink()
    run = tornproof("recover", table, "--json", tmp_path / "missing/out.json")
    assert run.code == 2 and "missing/out.json: cannot write: " in sentence_of(run)
