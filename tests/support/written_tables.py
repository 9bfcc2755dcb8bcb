"""Small tables in memory that our own writer makes: timestamp `ts`, a number `v`, a text `n`, and what is asked for."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from real_tables import put, rows_of, snapshot_of, verified

from tornproof.harness.common.new_tables import metadata_with_type
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import with_metadata_version
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.storage.interface import OpenMode, Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy, TableColumn, TableMetadata, encode_metadata_file
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import TableWriter, open_writer

PATH = "/db/t"
DAY_LENGTH = 86_400_000_000
DAY = 19_723 * DAY_LENGTH
"""1 January 2024."""
DIRECTORY = f"{PATH}/2024-01-01.0"
IN_PLACE = WriterOptions(row_group_row_count_max=4, rewrite_unused_ratio=1.0)


def new_table(
    *columns: NewColumn, keys: Sequence[str] = (), partition_by: PartitionBy = PartitionBy.DAY
) -> tuple[MemoryStorage, Table]:
    """Return an empty table and its disk; `keys` are its deduplication keys."""
    storage = MemoryStorage()
    storage.mkdir("/db")
    types = {"ts": TypeTag.TIMESTAMP, "v": TypeTag.LONG, "n": TypeTag.VARCHAR}
    own = [NewColumn(name=name, type=tag, is_dedup_key=name in keys) for name, tag in types.items()]
    return storage, create_table(storage, PATH, [*own, *columns], timestamp="ts", partition_by=partition_by)


def alter(storage: Storage, *columns: TableColumn, path: str = PATH) -> None:
    """Give a table other columns by id, as a server would; a negative type is that of a dropped one."""
    metadata = TableMetadata(columns=columns, partition_by=PartitionBy.DAY, timestamp_id=0)
    with storage.open_for_writing(f"{path}/{META_FILE}", OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(encode_metadata_file(metadata, table_id=1), 0)


def change_type(storage: MemoryStorage, name: str, of: str) -> None:
    """Leave the `_meta` that a later server leaves which changes a column's type, and no partition in Parquet."""
    with storage.open_for_writing(f"{PATH}/{META_FILE}", OpenMode.EXISTING_OR_NEW) as file:
        content = metadata_with_type(storage, PATH, name, of)
        file.truncate(0)
        file.pwrite(content, 0)


def leave_between(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Leave a table as a server does that changed `_meta`, and `_txn` only once somebody pauses; return the pauses."""
    place = open_table(OperatingSystemStorage(), str(path)).transaction().record_offset
    place += TransactionRecord.layout.offset_of("structure_version")
    paused: list[float] = []

    def pause(_: object, duration_seconds: float) -> None:
        paused.append(duration_seconds)
        with (path / TXN_FILE).open("r+b") as opened:
            opened.seek(place)
            opened.write(struct.pack("<q", 7))

    changed = with_metadata_version({META_FILE: (path / META_FILE).read_bytes()}, 7)
    (path / META_FILE).write_bytes(changed[META_FILE])
    monkeypatch.setattr(OperatingSystemStorage, "sleep_seconds", pause)
    return paused


def rows(times: Sequence[int], first: int = 0, **columns: Any) -> pa.Table:
    """Return rows at these times after the start of `DAY`, numbered in `v` from `first` on."""
    numbers = range(first, first + len(times))
    return pa.table({"ts": [DAY + time for time in times], "v": numbers, "n": [f"n{v}" for v in numbers], **columns})


def writer_on(storage: Storage, options: WriterOptions = IN_PLACE) -> TableWriter:
    """Open a writer that grows files in place."""
    return open_writer(storage, PATH, options=options, allow_parquet_last=True)


def write(storage: Storage, *batches: pa.Table, options: WriterOptions = IN_PLACE) -> None:
    """Commit each of the batches with one writer."""
    with writer_on(storage, options) as writer:
        for batch in batches:
            writer.write(batch)
            writer.commit()


def filled(*batches: pa.Table, options: WriterOptions = IN_PLACE) -> MemoryStorage:
    """Return the disk of a new table in which each of the batches was committed."""
    storage, _ = new_table()
    write(storage, *batches, options=options)
    return storage


def table_on(storage: Storage, path: str = PATH) -> pa.Table:
    """Return all rows that a reader finds, after seeing that the table is sound."""
    assert verified(path, storage).all_problems == ()
    return rows_of(snapshot_of(path, storage))


def pairs_on(storage: Storage) -> list[tuple[int, int]]:
    """Return what a reader finds as pairs of time after `DAY` and `v`, in order."""
    found = table_on(storage)
    times = found["ts"].cast(pa.int64()).to_pylist()
    return [(time - DAY, v) for time, v in zip(times, found["v"].to_pylist(), strict=True)]


def with_column_versions(
    storage: MemoryStorage, entries: Sequence[tuple[int, int, int, int]], *, version: int, path: str = PATH
) -> MemoryStorage:
    """Return a table whose `_cv` has these entries in the version that `_txn` names."""
    files = storage.image().files
    transaction = snapshot_of(path, storage).transaction
    area = b"".join(struct.pack("<4q", *entry) for entry in sorted(entries))
    place = (40, len(area)) if version % 2 == 0 else (0, 0, 40, len(area))
    content = struct.pack("<5q", version, *place, *(0,) * (4 - len(place))) + area
    column_version = put(
        transaction.record_offset + TransactionRecord.layout.offset_of("column_version"), struct.pack("<q", version)
    )
    image = storage.image().with_file(f"{path}/{CV_FILE}", content.ljust(4096, b"\0"))
    return MemoryStorage.of(image.with_file(f"{path}/{TXN_FILE}", column_version(files[f"{path}/{TXN_FILE}"])))
