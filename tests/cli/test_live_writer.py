"""Reading and verifying beside a process that changes the files: one committed version, or one clear sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from command_line import Run, WarmRunner, sentence_of

import tornproof as tornproof_api
from tornproof.api.steady import ATTEMPTS, until_stable, verify_until_stable
from tornproof.cli.commands.read import read
from tornproof.harness.systems.answer import Answer, read_answer
from tornproof.impl.errors import (
    BusyError,
    CorruptError,
    FileVanishedError,
    NotATableError,
    StorageError,
    UnsupportedError,
)
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.interface import Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.write.writer_options import WriterOptions

WRITER = Path(__file__).parents[1] / "support" / "live_writer.py"
# The newer version's `_txn` still holds the older one's record, so going back is one store of the version.
OLDER, NEWER = (f"tables/9.4.2/history/history/{step}" for step in ("01", "02"))
REJECTIONS = (BusyError, CorruptError, NotATableError, StorageError)
RUNS = 4
CALLS = 24
LOOKS = 30
# What the writer does in one round: five lengths and three other contents of three files, five names taken away.
HARMS = 3 * (5 + 3) + 5
# Bytes after the end of a file are nobody's, and no record is in the last bytes of this `_txn`: a half of it will do.
HARMLESS = 3 + 2
NATIVE = "tornproof: left out: 2024-03-02.0 is a native partition (1 row)\n"


class Versions(NamedTuple):
    """A table to change, and the two versions that it may be seen at."""

    table: Path
    older: Path
    newer: Path

    def answers(self) -> list[Answer]:
        return [answer_of(folder) for folder in (self.older, self.newer)]


@pytest.fixture
def versions(questdb_data: Path, tmp_path: Path) -> Versions:
    table = tmp_path / "table"
    shutil.copytree(questdb_data / OLDER, table)
    return Versions(table, questdb_data / OLDER, questdb_data / NEWER)


@contextmanager
def writing(kind: str, versions: Versions, *options: str) -> Iterator[Callable[[], None]]:
    """Let a writer run beside the block; afterwards its last round is complete and the table as it was.

    With the option `step` it stands between two stores, and what the block is given lets it make the next.
    """
    command = [sys.executable, str(WRITER), kind, *map(str, versions), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None

        def step() -> None:
            assert writer.stdin is not None and writer.stdout is not None
            print(file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "stopped\n"

        assert writer.stdout.readline() == "ready\n"
        assert not options or writer.stdout.readline() == "stopped\n"
        try:
            yield step
            assert writer.poll() is None, "the writer ended before the readers did"
        finally:
            writer.stdin.close()
            code = writer.wait()
    assert code == 0


def answer_of(folder: Path, storage: Storage | None = None) -> Answer:
    storage = storage or OperatingSystemStorage()

    def attempt() -> Answer:
        return read_answer(open_snapshot(open_table(storage, str(folder))))

    return until_stable(storage, str(folder), attempt, lambda _: None)


def test_every_read_and_verify_beside_commits_is_one_of_the_two_versions(versions: Versions) -> None:
    answers = versions.answers()
    assert answers[0] != answers[1]

    def look() -> int:
        answer = answer_of(versions.table)
        report = verify_until_stable(OperatingSystemStorage(), str(versions.table), quick=False)
        assert report.sound, report.all_problems
        assert report.version in (answers[0].version, answers[1].version)
        assert report.counts.rows in (answers[0].rows.num_rows, answers[1].rows.num_rows)
        return answers.index(answer)

    with writing("commit", versions):
        for _ in range(LOOKS):
            look()
    assert answer_of(versions.table) == answers[0]
    with writing("commit", versions, "step") as step:
        seen = [look() for _ in range(4) if step() is None]
    assert seen == [0, 0, 1, 0], "the newer version is there from its `_txn` on, until that is taken back"


def test_every_run_of_the_commands_beside_commits_is_one_of_the_two_versions(
    tornproof: WarmRunner, versions: Versions
) -> None:
    texts = {tornproof("read", folder).out for folder in (versions.older, versions.newer)}
    numbers = {answer.version for answer in versions.answers()}
    assert len(texts) == len(numbers) == 2
    with writing("commit", versions):
        for _ in range(RUNS):
            reading, verifying = tornproof("read", versions.table), tornproof("verify", versions.table, "--json", "-")
            assert (reading.code, reading.err, verifying.code, verifying.err) == (0, NATIVE, 0, "")
            assert reading.out in texts
            assert verifying.document["version"] in numbers


def is_a_clear_rejection(run: Run) -> bool:
    """Whether a run without answer ended as documented; `verify` lists problems instead of complaining."""
    if run.code == 1 and not run.err:
        return "problem " in run.out and "damaged: " in run.out
    return run.code in (1, 2, 3) and not run.out and bool(sentence_of(run))


def test_every_run_beside_mischief_is_an_answer_or_a_clear_rejection(tornproof: WarmRunner, versions: Versions) -> None:
    text = tornproof("read", versions.table).out
    with writing("mischief", versions):
        for _ in range(RUNS):
            reading, verifying = tornproof("read", versions.table), tornproof("verify", versions.table)
            assert reading.out == text if reading.code == 0 else is_a_clear_rejection(reading), reading
            assert "sound" in verifying.out if verifying.code == 0 else is_a_clear_rejection(verifying), verifying
    assert tornproof("read", versions.table).out == text


def test_every_call_beside_mischief_is_an_answer_or_a_rejection(versions: Versions) -> None:
    answer = answer_of(versions.table)
    with writing("mischief", versions):
        for _ in range(CALLS):
            with suppress(*REJECTIONS):
                assert answer_of(versions.table) == answer
    assert answer_of(versions.table) == answer


class Stepping(OperatingSystemStorage):
    """A storage whose reader, when it pauses before it looks again, finds the harm undone."""

    def __init__(self, undo: Callable[[], None]) -> None:
        super().__init__()
        self.undo = undo

    def sleep_seconds(self, duration_seconds: float) -> None:
        self.undo()


def test_a_harm_that_is_undone_before_the_second_look_is_no_damage(versions: Versions) -> None:
    """A reader that looks once would call most of the same tables damaged."""
    answer = answer_of(versions.table)
    rejected = 0
    with writing("mischief", versions, "step") as step:
        for _ in range(HARMS):
            step()
            try:
                assert read_answer(open_snapshot(open_table(OperatingSystemStorage(), str(versions.table)))) == answer
            except REJECTIONS:
                rejected += 1
                assert answer_of(versions.table, Stepping(step)) == answer
            else:
                step()
    assert rejected == HARMS - HARMLESS


class Numbered(OperatingSystemStorage):
    """A storage that counts naps instead of taking them."""

    def __init__(self) -> None:
        super().__init__()
        self.naps = 0

    def sleep_seconds(self, duration_seconds: float) -> None:
        self.naps += 1


def test_what_is_wrong_must_be_seen_twice() -> None:
    storage = Numbered()
    complaints = iter(["a", "b", "b"])
    assert until_stable(storage, "t", lambda: next(complaints), lambda result: result) == "b"
    assert storage.naps == 2


def test_an_error_that_goes_away_is_forgotten() -> None:
    storage = Numbered()
    error = CorruptError(file="f", field="x", offset_bytes=0, expected=1, actual=2)
    outcomes: Iterator[str | Exception] = iter([error, "fine"])

    def attempt() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert until_stable(storage, "t", attempt, lambda _: None) == "fine"
    assert storage.naps == 1


@pytest.mark.parametrize(
    "error",
    [
        CorruptError(file="f", field="x", offset_bytes=0, expected=1, actual=2),
        UnsupportedError(file="f", field="x", offset_bytes=0, expected=1, actual=2),
        StorageError(file="f", operation="open", reason="it is not there"),
        NotATableError("t: not a table"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_stays_is_raised_the_second_time(error: Exception) -> None:
    storage = Numbered()

    def attempt() -> str:
        raise error

    with pytest.raises(type(error), match=str(error)):
        until_stable(storage, "t", attempt, lambda _: None)
    assert storage.naps == 1


def test_complaints_that_keep_changing_are_busy_and_never_damage() -> None:
    storage = Numbered()
    numbers = iter(range(100))
    with pytest.raises(BusyError, match="kept changing while they were read"):
        until_stable(storage, "t", lambda: next(numbers), lambda number: f"problem {number}")
    assert storage.naps == ATTEMPTS


PURGER = """
import itertools, select, sys, tornproof
with tornproof.open(sys.argv[1]).writer(allow_parquet_last=True) as writer:
    print("ready", flush=True)
    for number in itertools.count(1):
        writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
        writer.purge()
        if select.select([sys.stdin], [], [], 0)[0]:
            break
"""
ROW_COUNT = 20_000


@contextmanager
def purging(table: str) -> Iterator[None]:
    """Let a writer rewrite and purge beside the block as often as it can."""
    command = [sys.executable, "-c", PURGER, table]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        try:
            yield
            assert writer.poll() is None, "the writer ended before the readers did"
        finally:
            writer.stdin.close()
            code = writer.wait()
    assert code == 0


@pytest.fixture
def own_table(tmp_path: Path) -> str:
    """A table of small row groups, so that a read takes many calls."""
    made = tornproof_api.create(tmp_path / "t", {"ts": "TIMESTAMP", "v": "LONG"}, timestamp="ts", partition_by="DAY")
    with made.writer(WriterOptions(row_group_row_count_max=100), allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": range(ROW_COUNT), "v": range(ROW_COUNT)}))
        writer.commit()
    return made.path


@pytest.mark.nightly
def test_our_own_reads_beside_our_own_purging_writer_all_succeed(tornproof: WarmRunner, own_table: str) -> None:
    """They did not pin, met removed files in most attempts, and gave up after twelve."""
    versions: Counter[int] = Counter()
    with purging(own_table):
        while versions.total() < 5 or len(versions) == 1:
            run = tornproof("read", own_table, "--out", f"{own_table}.parquet", "--json", "-")
            assert (run.code, run.err, run.document["rows"]) == (0, "", ROW_COUNT)
            versions[run.document["version"]] += 1
            assert verify_until_stable(OperatingSystemStorage(), own_table, quick=True).sound


def test_a_read_that_cannot_be_pinned_says_that_it_begins_again(
    own_table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed: list[str] = []

    def removing(table: Table) -> Snapshot:
        snapshot = open_snapshot(table)
        if not removed:
            with tornproof_api.open(own_table).writer(allow_parquet_last=True) as writer:
                writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
                writer.commit()
                removed.extend(writer.purge())
        return snapshot

    monkeypatch.setattr("tornproof.cli.commands.read.open_snapshot", removing)
    (Path(own_table) / "_pins").unlink()
    read(own_table, out=f"{own_table}.parquet", json_target="-")
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["rows"], document["version"], removed) == (ROW_COUNT, 2, ["1970-01-01.0"])
    expected = f"{own_table}: reading again, because 1970-01-01.0/_pm was removed meanwhile: the table cannot be pinned"
    assert expected in " ".join(printed.err.split())


def test_a_file_that_vanished_is_no_damage_and_one_that_is_missing_is(own_table: str) -> None:
    storage = OperatingSystemStorage()
    before = open_snapshot(open_table(storage, own_table))
    with tornproof_api.open(own_table).writer(allow_parquet_last=True) as writer:
        writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
        writer.purge()
    with pytest.raises(FileVanishedError, match=r"0/_pm: cannot read: it was removed, because a later version has"):
        list(before.batches())
    now = open_snapshot(open_table(storage, own_table))
    for name in ("data.parquet", "_pm"):
        (Path(own_table) / "1970-01-01.1" / name).unlink()
        with pytest.raises(CorruptError, match="expected a file, because _txn names it, found none"):
            list(now.batches())
