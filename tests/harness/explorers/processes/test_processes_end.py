"""The table after a run is checked: last version, soundness of the files, directories and pins."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tornproof.harness.common.history import EventKind, HistoryWriter, decode_file
from tornproof.harness.explorers.processes.expected import ExpectedVersion, Operation, new_rows
from tornproof.harness.explorers.processes.explorer import _what_is_left
from tornproof.harness.explorers.processes.run import Outcome
from tornproof.harness.explorers.processes.start import NEW_TARGET_COUNT, Start, _form, prepare_table
from tornproof.impl.layout.txn import PARQUET_FORMAT
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.write.table_writer import open_writer

ROWS = Operation(attempt=0, rows=((0, 5), (1, 3)))


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return prepare_table(None, "/trades", tmp_path)


@pytest.fixture
def expected(start: Start) -> ExpectedVersion:
    """What the table holds after one commit."""
    with open_writer(OperatingSystemStorage(), start.table_path, allow_parquet_last=True) as writer:
        for rows in new_rows(start.expected, ROWS, start.form).values():
            writer.write(rows)
        writer.commit()
    return start.expected.after(ROWS, start.form)


@pytest.mark.parametrize("native", [None, 0, 1])
def test_new_partitions_are_kept_wherever_a_native_one_is(
    native: int | None, start: Start, expected: ExpectedVersion
) -> None:
    table = open_table(OperatingSystemStorage(), start.table_path)
    snapshot = open_snapshot(table)
    partitions = [
        structs.replace(each, flags=PARQUET_FORMAT.put(each.flags, number != native))
        for number, each in enumerate(snapshot.transaction.partitions)
    ]
    transaction = structs.replace(snapshot.transaction, partitions=tuple(partitions))
    new = [
        target
        for target in _form(table, structs.replace(snapshot, transaction=transaction)).targets
        if target.start > partitions[-1].timestamp
    ]
    assert len(partitions) == 2
    assert [target.is_kept for target in new] == [native is not None] * NEW_TARGET_COUNT


@pytest.fixture
def events(tmp_path: Path) -> Iterator[HistoryWriter]:
    with HistoryWriter(tmp_path / "events", "parent") as writer:
        yield writer


def properties(start: Start, outcome: Outcome, events: HistoryWriter) -> list[str]:
    findings, failed = _what_is_left(start, outcome, events)
    assert failed == []
    return [finding.property for finding in findings]


def test_the_version_that_was_written_is_left(
    start: Start, expected: ExpectedVersion, events: HistoryWriter, tmp_path: Path
) -> None:
    assert properties(start, Outcome(expected=expected), events) == []
    recorded, _ = decode_file((tmp_path / "events").read_bytes(), file="events")
    assert [event.kind for event in recorded] == [EventKind.READ_START, EventKind.READ_END]
    assert (recorded[-1].version, recorded[-1].digest) == (1, expected.digest)


@pytest.mark.parametrize("change", [{"version": 2}, {"contents": {}}])
def test_another_version_or_content_is_noticed(
    change: dict[str, object], start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    changed = replace(expected, **change)  # type: ignore[arg-type]
    assert properties(start, Outcome(expected=changed), events) == ["the last version is what was written"]


def test_a_version_that_no_writer_can_have_left_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    assert properties(start, Outcome(expected=None), events) == ["the last version is what was written"]


def test_a_table_that_cannot_be_read_is_noticed(start: Start, expected: ExpectedVersion, events: HistoryWriter) -> None:
    txn = Path(start.table_path) / "_txn"
    txn.write_bytes(txn.read_bytes()[:20])
    assert properties(start, Outcome(expected=expected), events) == ["the last version can be read"]


def test_a_table_that_reads_well_but_is_not_sound_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    (pm, *_) = sorted(Path(start.table_path).glob("*/_pm"))
    (data,) = pm.parent.glob("data.parquet")
    content = bytearray(data.read_bytes())
    # Our reader uses `_pm`, not the Thrift footer.
    content[-8 - int.from_bytes(content[-8:-4], "little")] ^= 0x40
    data.write_bytes(content)
    assert set(properties(start, Outcome(expected=expected), events)) == {"a table on disk is sound"}


def test_a_directory_that_the_last_purge_left_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    (Path(start.table_path) / "2024-01-01T07.0").mkdir()
    assert properties(start, Outcome(expected=expected), events) == ["what nobody reads is purged"]


def test_a_pin_that_outlived_its_reader_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    assert properties(start, Outcome(expected=expected, pins=[1]), events) == ["pins go with their process"]
