"""The rule of a stateful run about partitions that a writer must leave alone, or must not take as they are.

Each is tried on a copy of the table. What is refused must leave nothing behind, and hinder nothing that comes after it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.model_based.commit import fault_of
from tornproof.harness.explorers.model_based.files import Process, ViolationError, entry_of
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.harness.systems.protected import files_but_pins
from tornproof.impl.errors import ProblemError, RowsRejectedError, TornproofError
from tornproof.impl.layout.bits import Bits
from tornproof.impl.layout.parquet import DATA_FILE, ParquetTail
from tornproof.impl.layout.txn import READ_ONLY, SQUASH_COUNT, PartitionEntry
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.impl.types.names import type_code
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import Portion, timestamps_of
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

ROW_GROUP_COUNT_LIMIT = "tornproof.impl.limits:ROW_GROUP_COUNT_LIMIT"
PM_LIMIT_BYTES = "tornproof.impl.limits:PM_LIMIT_BYTES"
SQUASHED = 5
FLAG_WORD_BYTES = 8


def write_unwritable(world: World) -> None:
    """Write to copies with a frozen partition, a damaged one, a foreign one, and one with an orphan that stays."""
    partitions = [each for each in world.transaction.partitions if each.is_parquet]
    _write_to_frozen(world, partitions[0], partitions[-1])
    _write_to_damaged(world, partitions[0])
    _prepare_for_nobody(world, partitions[0].timestamp)
    # No other one may reach the limit that keeps the orphan where it is.
    _write_to_orphaned(world, max(partitions, key=lambda each: world.files.chain(entry_of(each).directory).end_bytes))


def _write_to_frozen(world: World, first: Partition, last: Partition) -> None:
    """Freeze the last partition; rows for it must be refused with all that is staged, and flags of entries stay."""
    storage, table = _copy(world)
    _set_flag(storage, table, first, SQUASH_COUNT, SQUASHED)
    _set_flag(storage, table, last, READ_ONLY, 1)
    flags = _flags(table)
    with open_writer_of_copy(storage, table.path, options=world.options, force=True) as writer:
        stages: dict[str, Callable[[], None]] = {
            "rows for a frozen partition": lambda: writer.write(_row(world, last)),
            "rows for a frozen partition beside a rewrite": lambda: _rewrite_and_write(
                writer, first, _row(world, last)
            ),
            "a rewrite of a frozen partition": lambda: writer.rewrite_partition(last.timestamp),
            "a preparation of a frozen partition": lambda: writer.adopt(_prepared(world, storage, last)),
        }
        for what, stage in stages.items():
            _refused(writer, storage, what, RowsRejectedError, stage)
        if first != last:
            with orderly("a commit beside a frozen partition"):
                writer.write(_row(world, first))
                writer.commit()
    if _flags(table) != flags:
        raise ViolationError(ALLOWED, f"the flags of the entries are {_flags(table)}, and were {flags}")


def _write_to_damaged(world: World, partition: Partition) -> None:
    """Change bytes of data.parquet: without its end it must not grow, and without a page not be written anew."""
    metadata = resolve_partition(world.files.table().files_of(partition), partition).metadata
    # Only the designated timestamp is read for certain: pages of nulls alone are not.
    chunk = metadata.blocks[-1].chunks[metadata.header.designated_timestamp]
    last_byte_of_page = chunk.byte_range_start + chunk.total_compressed - 1
    tail = range(partition.token - ParquetTail.layout.size_bytes, partition.token)
    for at in (*tail, last_byte_of_page):
        storage, table = _copy(world)
        path = f"{table.directory_of(partition)}/{DATA_FILE}"
        with storage.open_for_writing(f"{table.path}/{path}") as file:
            (byte,) = file.pread(1, at)
            file.pwrite(bytes([byte ^ 1]), at)
        with open_writer_of_copy(storage, table.path, options=world.options, force=True) as writer:
            what = f"with another byte {at} of {path}, a"
            if at in tail:
                _refused(writer, storage, f"{what} commit", ProblemError, partial(writer.write, _row(world, partition)))
            stage = partial(writer.rewrite_partition, partition.timestamp)
            _refused(writer, storage, f"{what} rewrite", ProblemError, stage)


def _prepare_for_nobody(world: World, timestamp: int) -> None:
    """Prepare partitions with other types than the table has, and with a row group more than readers take."""
    storage, table = _copy(world)
    names = world.rows.shape.schema.names
    designated = names[world.rows.shape.timestamp]
    columns = [
        NewColumn(name=name, type=type_code("TIMESTAMP" if name == designated else "UUID") or 0) for name in names
    ]
    other = create_table(storage, "/other", columns, timestamp=designated, partition_by=PartitionBy.DAY)
    assert table.metadata is not None and other.metadata is not None, "both were made here"
    with (
        orderly("preparing a partition of another table"),
        PartitionBuild(storage, f"{table.path}/other", other.metadata, WriterOptions(), table_name="other") as build,
    ):
        build.append(build.encoded(rows_for(other, [timestamp], seed=1)))
        prepared = build.finish(timestamp)
    with open_writer_of_copy(storage, table.path, options=world.options, force=True) as writer:
        writer.drop_partition(timestamp)
        _refused(writer, storage, "a partition of another table", ProblemError, lambda: writer.adopt(prepared))
    symbols, path = read_table_symbols(table, table.transaction()), f"{table.path}/prepared"
    with (
        replaced(ROW_GROUP_COUNT_LIMIT, 1),
        PartitionBuild(storage, path, table.metadata, world.options, table_name="table", symbols=symbols) as build,
    ):
        group = build.encoded(rows_for(table, [timestamp], seed=1))
        build.append(group)
        with orderly("a row group too many", RowsRejectedError), suppress(RowsRejectedError):
            build.append(group)
            raise ViolationError(ALLOWED, "a partition was prepared with a row group more than readers take")


def _write_to_orphaned(world: World, partition: Partition) -> None:
    """Leave an orphan that the recovery has no room to put aside; a rewrite must help, as the refusal says."""
    storage, table = _copy(world)
    rows = _row(world, partition)
    process = Process(storage)
    writer = open_writer_of_copy(process, table.path, options=world.options, force=True)
    with suppress(Killed), writer:
        writer.write(rows)
        process.arm(fault_of("sync mapping", 1, kills=True))
        writer.commit()
    process.end()
    # The commit may have been of a new file, which the recovery has to read.
    sizes_bytes = [len(content) for path, content in storage.image().files.items() if path.endswith(f"/{PM_FILE}")]
    with replaced(PM_LIMIT_BYTES, max(sizes_bytes)):
        writer = open_writer_of_copy(storage, table.path, options=world.options, force=True)
    with writer:
        with suppress(RowsRejectedError), orderly("a commit behind an orphan", RowsRejectedError):
            writer.write(rows)
            writer.commit()
        with orderly("a commit after a rewrite of a partition with an orphan"):
            writer.rollback()
            writer.rewrite_partition(partition.timestamp)
            writer.commit()
            writer.write(rows)
            writer.commit()


def _refused(
    writer: TableWriter, storage: MemoryStorage, what: str, error: type[TornproofError], stage: Callable[[], None]
) -> None:
    """Stage something and commit it, one of which must raise an error; no file may be another one then."""
    before = files_but_pins(storage)
    with orderly(what, error):
        try:
            stage()
            writer.commit()
        except error:
            writer.rollback()
        else:
            raise ViolationError(ALLOWED, f"{what} was not refused")
    after = files_but_pins(storage)
    if after != before:
        changed = sorted({path for path, _ in before.items() ^ after.items()})
        raise ViolationError(ALLOWED, f"{what} was refused, and then {changed[0]} was another file")


def _rewrite_and_write(writer: TableWriter, partition: Partition, rows: pa.Table) -> None:
    writer.rewrite_partition(partition.timestamp)
    writer.write(rows)


def _prepared(world: World, storage: MemoryStorage, partition: Partition) -> PreparedPartition:
    table = open_table(storage, world.files.path)
    rows = _row(world, partition)
    times = timestamps_of(rows, rows.schema.names[world.rows.shape.timestamp])
    portion = Portion(timestamp=partition.timestamp, rows=rows, timestamps=times)
    symbols = read_table_symbols(table, table.transaction())
    path = f"{table.path}/prepared"
    return prepare_partition(storage, open_snapshot(table), portion, path, world.options, symbols)


def _copy(world: World) -> tuple[MemoryStorage, Table]:
    storage = MemoryStorage.of(world.files.image())
    return storage, open_table(storage, world.files.path)


def _row(world: World, partition: Partition) -> pa.Table:
    """Return a row at the start of a partition, without new symbols."""
    return rows_for(world.files.table(), [partition.timestamp], seed=1)


def _set_flag(storage: MemoryStorage, table: Table, partition: Partition, flag: Bits, value: int) -> None:
    at = partition.entry_offset_bytes + PartitionEntry.layout.offset_of("row_count_and_flags")
    with storage.open_for_writing(f"{table.path}/{TXN_FILE}") as file:
        word = int.from_bytes(file.pread(FLAG_WORD_BYTES, at), "little")
        file.pwrite(flag.put(word, value).to_bytes(FLAG_WORD_BYTES, "little"), at)


def _flags(table: Table) -> dict[int, tuple[int, int]]:
    """Return how often a partition was squashed, and whether it is frozen, by its start."""
    return {
        each.timestamp: (SQUASH_COUNT.get(each.flags), READ_ONLY.get(each.flags))
        for each in table.transaction().partitions
    }
