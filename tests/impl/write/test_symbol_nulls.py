"""The first null of a symbol column, which a server must be told of.

A commit stored it in data.parquet alone. The column's dictionary went on to say that there are no nulls, and on a real
server LATEST ON left the row out, and a later commit into the partition suspended the table.
"""

from pathlib import Path

import pytest
from real_tables import CHAIN, in_memory

from tornproof.harness.common.made_rows import NULL_EVERY, rows_for
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl.layout.symbol import SymbolOffsetsHeader
from tornproof.impl.table.table import open_table
from tornproof.impl.write.table_writer import TableWriter, open_writer

COLUMN = "s"
ROWS = 2 * NULL_EVERY


def says_null(storage: MemoryStorage, path: str) -> bool:
    content = storage.image().files[f"{path}/{COLUMN}.o"]
    return bool(SymbolOffsetsHeader.unpack(content, 0, file=COLUMN).has_null)


def write(writer: TableWriter, *, with_null: bool) -> None:
    start = next(each.timestamp for each in writer.transaction.partitions if each.is_parquet)
    rows = rows_for(writer.table, range(start, start + ROWS), seed=0)
    assert rows[COLUMN].null_count
    writer.write(rows if with_null else rows.filter(rows[COLUMN].is_valid()))


def calls_on_dictionary(storage: FaultyStorage) -> list[CallKind]:
    kinds = (CallKind.PWRITE, CallKind.FDATASYNC)
    return [call.kind for call in storage.calls if call.path.endswith(f"/{COLUMN}.o") and call.kind in kinds]


@pytest.mark.parametrize("with_null", [True, False])
def test_the_dictionary_says_that_there_are_nulls_if_a_commit_brings_the_first(
    questdb_data: Path, with_null: bool
) -> None:
    path, storage = in_memory(questdb_data / CHAIN)
    assert not says_null(storage, path)
    with open_writer(storage, path) as writer:
        write(writer, with_null=with_null)
        writer.commit()
    assert says_null(storage, path) == with_null


def test_it_is_written_once_and_synced_once_by_each_writer(questdb_data: Path) -> None:
    path, memory = in_memory(questdb_data / CHAIN)
    storage = FaultyStorage(memory)
    seen = []
    for _ in range(2):
        with open_writer(storage, path) as writer:
            for _ in range(2):
                storage.arm()
                write(writer, with_null=True)
                writer.commit()
                seen.append(calls_on_dictionary(storage))
    # The note may be that of a killed writer, which had not synced it.
    assert seen == [[CallKind.PWRITE, CallKind.FDATASYNC], [], [CallKind.FDATASYNC], []]


def test_no_version_has_nulls_that_the_dictionary_does_not_tell_of_wherever_the_commit_is_killed(
    questdb_data: Path,
) -> None:
    committed = set()
    for step_count in range(100):
        path, memory = in_memory(questdb_data / CHAIN)
        before = open_table(memory, path).transaction().version
        storage = FaultyStorage(memory)
        writer = open_writer(storage, path)
        write(writer, with_null=True)
        storage.arm(Fault.kill(step_count))
        try:
            writer.commit()
        except Killed:
            is_killed = True
        else:
            is_killed = False
            writer.close()
        is_committed = open_table(memory, path).transaction().version > before
        assert says_null(memory, path) or not is_committed, f"killed after {step_count} steps"
        committed.add(is_committed)
        if not is_killed:
            break
    assert committed == {False, True}
