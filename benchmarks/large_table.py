"""Reading and verifying large tables, compared with what the machine and pyarrow need for the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Row, compare

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.checksum import crc32
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions

VERIFY_ROW_COUNT = 12_800_000
VERIFY_GROUP_ROW_COUNT = 1_600_000
READ_ROW_COUNT = 8_000_000
GROUP_ROW_COUNT = 1_000_000
READ_ROUNDS = 15
BUFFER_BYTES = 1 << 20
MICROSECONDS_A_ROW = 1_000
TRADE_TYPES = {
    "ts": TypeTag.TIMESTAMP,
    "price": TypeTag.DOUBLE,
    "amount": TypeTag.DOUBLE,
    "order_id": TypeTag.LONG,
    "venue": TypeTag.VARCHAR,
    "is_buy": TypeTag.BOOLEAN,
}
STORAGE = OperatingSystemStorage()
# Pages of a MiB, the default, without a maximum of rows; row groups of 128 MB in the table to verify.
ENCODING = EncodeOptions(page_row_count_max=VERIFY_GROUP_ROW_COUNT)
LARGE = WriterOptions(row_group_row_count_max=VERIFY_GROUP_ROW_COUNT, rewrite_unused_ratio=1.0, encoding=ENCODING)
IN_PLACE = WriterOptions(row_group_row_count_max=GROUP_ROW_COUNT, rewrite_unused_ratio=1.0, encoding=ENCODING)
REWRITE = WriterOptions(row_group_row_count_max=GROUP_ROW_COUNT, rewrite_unused_ratio=0.0, encoding=ENCODING)


def large_rows(folder: Path) -> Iterator[Row]:
    yield from verify_rows(folder)
    yield from read_rows(folder)


def verify_rows(folder: Path) -> Iterator[Row]:
    """Verify random doubles, which no codec compresses."""
    path = folder / "verified"
    names = [f"d{index}" for index in range(9)]
    create(path, {"ts": TypeTag.TIMESTAMP} | dict.fromkeys(names, TypeTag.DOUBLE))
    draw = np.random.default_rng(0)
    for start in range(0, VERIFY_ROW_COUNT, VERIFY_GROUP_ROW_COUNT):
        columns = {name: draw.random(VERIFY_GROUP_ROW_COUNT) for name in names}
        _commit(path, pa.table({"ts": _times(start, VERIFY_GROUP_ROW_COUNT)} | columns), LARGE)
    data = _data_file(path)
    table = open_table(STORAGE, str(path))
    assert verify_table(table).sound

    (partition,) = table.transaction().partitions
    blocks = resolve_partition(table.files_of(partition), partition).metadata.blocks
    chunks = [chunk for block in blocks for chunk in block.chunks]

    def verify() -> None:
        with by_threads() as decoding:
            verify_table(table, decoding=decoding)

    def by_chunks() -> None:
        with STORAGE.open_for_reading(str(data)) as file:
            for chunk in chunks:
                crc32(file.pread(chunk.total_compressed, chunk.byte_range_start))

    def by_small_buffers() -> None:
        with data.open("rb", buffering=0) as file:
            while content := file.read(BUFFER_BYTES):
                crc32(content)

    what = f"verify a table of {data.stat().st_size / 1e9:.1f} GB with page checksums"
    yield compare(what, verify, "reading its chunks and their CRC-32", by_chunks, goal=0.8)
    yield compare(what, verify, "the same by 1 MiB, which stays in the cache", by_small_buffers)
    shutil.rmtree(path)


def read_rows(folder: Path) -> Iterator[Row]:
    """Read trades in two files of the same rows: one grown and merged in place, one rewritten at the end."""
    grown, compacted = folder / "grown", folder / "compacted"
    for path, last in ((grown, IN_PLACE), (compacted, REWRITE)):
        create(path, TRADE_TYPES)
        for start in range(0, READ_ROW_COUNT, GROUP_ROW_COUNT):
            _commit(path, trades(start, GROUP_ROW_COUNT), IN_PLACE)
        _commit(path, trades(READ_ROW_COUNT // 2, 1_000), IN_PLACE)
        _commit(path, trades(READ_ROW_COUNT, 1_000), last)
    file = _data_file(compacted)

    def read(path: Path) -> pa.Table:
        snapshot = open_snapshot(open_table(STORAGE, str(path)))
        with by_threads() as decoding:
            return pa.Table.from_batches(list(snapshot.batches(decoding=decoding)), schema=snapshot.schema)

    assert read(grown).equals(read(compacted))
    assert read(grown).num_rows == pq.read_metadata(file).num_rows
    what = f"read {file.stat().st_size / 1e6:.0f} MB, grown in place"
    yield compare(
        what,
        lambda: read(grown),
        "pyarrow read_table, compacted",
        lambda: pq.read_table(file),
        goal=0.9,
        rounds=READ_ROUNDS,
    )
    yield compare(
        what,
        lambda: read(grown),
        "the same, verifying page checksums",
        lambda: pq.read_table(file, page_checksum_verification=True),
    )


def create(path: Path, types: dict[str, TypeTag]) -> None:
    columns = [NewColumn(name=name, type=tag) for name, tag in types.items()]
    create_table(STORAGE, str(path), columns, timestamp="ts", partition_by=PartitionBy.DAY)


def _commit(path: Path, rows: pa.Table, options: WriterOptions) -> None:
    with open_writer(STORAGE, str(path), options=options, allow_parquet_last=True) as writer:
        writer.write(rows)
        writer.commit()


def _times(start: int, count: int) -> pa.Array:
    return pa.array(np.arange(start, start + count) * MICROSECONDS_A_ROW, pa.timestamp("us"))


def trades(start: int, count: int) -> pa.Table:
    draw = np.random.default_rng(start)
    venues = pa.array([f"venue {index}" for index in range(20)])
    return pa.table(
        {
            "ts": _times(start, count),
            "price": np.round(100 + np.cumsum(draw.normal(0, 0.01, count)), 2),
            "amount": np.round(draw.lognormal(3, 1, count), 3),
            "order_id": np.arange(start, start + count) * 7 + draw.integers(0, 7, count),
            "venue": venues.take(pa.array(draw.integers(0, len(venues), count))),
            "is_buy": draw.random(count) < 0.5,
        }
    )


def _data_file(path: Path) -> Path:
    table = open_table(STORAGE, str(path))
    (partition,) = table.transaction().partitions
    return Path(table.files_of(partition).path, DATA_FILE)
