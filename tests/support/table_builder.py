"""Whole small tables made from Arrow rows: data.parquet by pyarrow, `_pm`, `_txn` and `_meta` by our own encoders.

For what no bundled table has: pages with checksums, NaN, hostile counts and names.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from msgspec import structs
from parquet_files import chunk_of, column_of, footer_bytes, footer_of, written

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout import meta as meta_layout
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import ParquetTail
from tornproof.impl.layout.record import Record
from tornproof.impl.parquet.footer import ColumnChunk
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.pm.header import FileHeader, encode_header
from tornproof.impl.table.column_versions import NEW_FILE_BYTES
from tornproof.impl.table.metadata_file import FORMAT_VERSION, PartitionBy, encode_name
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN
from tornproof.impl.txn.write import lag_checksum
from tornproof.impl.types.questdb import DESIGNATED, TypeTag

VERSION = 2
BESIDE = frozenset({"_meta", "_cv", "_name"})
DAY = "2024-01-01"
DIRECTORY = f"{DAY}.1"
PM, DATA = f"{DIRECTORY}/_pm", f"{DIRECTORY}/data.parquet"
SECOND = 1_000_000
DAY_MICROSECONDS = (datetime.date.fromisoformat(DAY) - datetime.date(1970, 1, 1)).days * 86_400_000_000
TAIL_BYTES = ParquetTail.layout.size_bytes
RecordType = TypeVar("RecordType", bound=Record)


@dataclass(frozen=True, kw_only=True)
class BuiltTable:
    """The files of a table by their path inside it."""

    files: Mapping[str, bytes] = field(repr=False)

    def with_file(self, name: str, content: bytes) -> BuiltTable:
        """Return the table with one file replaced."""
        return replace(self, files={**self.files, name: content})

    def image(self, path: str = "/table") -> DiskImage:
        """Return an image that holds the table at `path`."""
        image = DiskImage()
        for name, content in self.files.items():
            image = image.with_file(f"{path}/{name}", content)
        return image

    def write_to(self, directory: Path) -> Path:
        """Write the files below `directory` and return it."""
        for name, content in self.files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        return directory


def timestamps(count: int) -> pa.Array:
    """Return that many seconds of the day."""
    return pa.array([DAY_MICROSECONDS + second * SECOND for second in range(count)], pa.timestamp("us"))


def build(
    columns: Mapping[str, tuple[int, pa.Array]],
    *,
    has_meta: bool = True,
    row_group_size: int | None = None,
    is_required: bool = False,
    edit: Callable[[bytes], bytes] = bytes,
    **options: Any,
) -> BuiltTable:
    """Return a table of one partition; a designated timestamp `ts` comes first, then `columns` (QuestDB type, values).

    `options` go to pyarrow's Parquet writer; what it makes is edited before `_pm` is made of it.
    """
    row_count = max(map(len, (array for _, array in columns.values())), default=3)
    fields = [pa.field("ts", pa.timestamp("us"), nullable=False)]
    fields += [pa.field(name, array.type, nullable=not is_required) for name, (_, array) in columns.items()]
    arrays = [timestamps(row_count), *(array for _, array in columns.values())]
    rows = pa.table(arrays, schema=pa.schema(fields))
    data = edit(written(rows, store_schema=False, row_group_size=row_group_size, **options))
    types = {"ts": DESIGNATED.put(TypeTag.TIMESTAMP, 1), **{name: type_ for name, (type_, _) in columns.items()}}
    files = {
        "_txn": txn(rows=row_count, token=len(data)),
        PM: metadata_of(data, list(types.values())),
        DATA: data,
    }
    if has_meta:
        files |= beside({"ts": TypeTag.TIMESTAMP, **{name: types[name] for name in columns}})
    return BuiltTable(files=files)


def with_older_rows(data: bytes, null_count: int) -> bytes:
    """Return a data.parquet of required columns that hold 0 and from 5 to 6, or false and true, with older rows.

    Null count and minimum of the newer rows are put into the Thrift statistics, where pyarrow has 0.
    """
    for low, high in ((b"\5\0\0\0", b"\6\0\0\0"), (b"\1", b"\1")):
        size, zero = bytes([len(low)]), bytes(len(low))
        minimum, maximum, nulls = b"\x18" + size, b"\x28" + size + high, b"\x16"
        data = data.replace(minimum + zero + nulls + b"\0", minimum + low + nulls + bytes([2 * null_count]))
        data = data.replace(maximum + minimum + zero, maximum + minimum + low)
    return data


def with_lists_of_fewer_rows(column_type: int, **options: Any) -> BuiltTable:
    """Return a table of four rows whose column `x` of lists has three rows, of as many values."""
    options |= {"compression": "none", "use_dictionary": False}

    def lists(*rows: list[float]) -> dict[str, tuple[int, pa.Array]]:
        return {"x": (column_type, pa.array(rows, pa.list_(pa.float64())))}

    def chunk_bytes(data: bytes) -> bytes:
        chunk = footer_of(data).row_groups[0].chunks[1]
        return data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size]

    fewer = chunk_bytes(build(lists([1.0], [2.0, 3.0], [4.0]), **options).files[DATA])
    table = build(
        lists([1.0], [2.0], [3.0], [4.0]), edit=lambda data: data.replace(chunk_bytes(data), fewer), **options
    )
    assert chunk_bytes(table.files[DATA]) == fewer
    return table


def metadata_of(data: bytes, types: Sequence[int]) -> bytes:
    """Return the `_pm` of a data.parquet whose leaves have these QuestDB types; the first is the timestamp."""
    offset_bytes = footer_bytes(data)[1]
    footer = footer_of(data)
    columns = tuple(
        column_of(leaf, types[index], id=index, flags=pm_layout.FIELD_REPETITION.put(0, int(leaf.max_def > 0)))
        for index, leaf in enumerate(footer.leaves)
    )
    header = FileHeader(
        feature_flags=pm_layout.SORTING_IS_DTS_ASC.put(0, 1),
        designated_timestamp=0,
        columns=columns,
        sorting_columns=(),
        bloom_columns=(),
        squash_tracker=None,
        size_bytes=0,
    )
    header = structs.replace(header, size_bytes=len(encode_header(header, parquet_meta_file_size=0)))
    row_groups = [
        NewRowGroup(num_rows=group.num_rows, chunks=tuple(map(_chunk, group.chunks))) for group in footer.row_groups
    ]
    facts = FooterFacts(parquet_footer_offset=offset_bytes, parquet_footer_length=len(data) - TAIL_BYTES - offset_bytes)
    return encode_file(header, row_groups, facts)


def _chunk(found: ColumnChunk) -> Chunk:
    mask = encodings_mask(found.encodings)
    assert mask is not None
    return chunk_of(found, encodings=mask)


def txn(
    *,
    rows: int,
    token: int,
    version: int = VERSION,
    entries: Sequence[bytes] | None = None,
    last_time: int | None = None,
) -> bytes:
    """Return a `_txn` of one parquet partition, or of the given encoded entries; the other area is empty.

    Without `last_time` there is a second between two rows.
    """
    flags = txn_layout.PARQUET_FORMAT.put(txn_layout.PARQUET_GENERATED.put(0, 1), 1)
    if entries is None:
        entries = [
            txn_layout.PartitionEntry(
                timestamp=DAY_MICROSECONDS, row_count_and_flags=flags, name_txn=1, token=token
            ).pack()
        ]
    start = txn_layout.BaseHeader.layout.size_bytes
    if last_time is None:
        last_time = min(I64_MAX - 1, DAY_MICROSECONDS + max(0, rows - 1) * SECOND)
    times = {"min_timestamp": DAY_MICROSECONDS, "max_timestamp": last_time}
    if not entries:
        times = {"min_timestamp": I64_MAX, "max_timestamp": I64_MIN}
    record = zeroed(txn_layout.TransactionRecord, txn=version, transient_row_count=rows, **times)
    record = record.changed(lag_checksum=lag_checksum(record))
    size = txn_layout.PartitionTableSize(partitions_size=sum(map(len, entries)))
    area = {"record_offset": start, "symbols_size": 0, "partitions_size": size.partitions_size}
    letter = "ab"[version % 2]
    base = zeroed(txn_layout.BaseHeader, version=version, **{f"{letter}_{name}": value for name, value in area.items()})
    return base.pack() + record.pack() + size.pack() + b"".join(entries)


def beside(types: Mapping[str, int]) -> dict[str, bytes]:
    """Return what a table with these columns has beside `_txn` and its partitions."""
    return {"_meta": meta(types), "_cv": bytes(NEW_FILE_BYTES), "_name": encode_name("table") + b"\0"}


def meta(types: Mapping[str, int]) -> bytes:
    """Return a `_meta` of a table by day with these columns, the designated timestamp first."""
    header = zeroed(meta_layout.MetaHeader, column_count=len(types), format_version=FORMAT_VERSION)
    records = [zeroed(meta_layout.MetaColumn, type=type_).pack() for type_ in types.values()]
    names = [
        meta_layout.NameLength(code_unit_count=len(encoded) // 2).pack() + encoded
        for encoded in (name.encode("utf-16-le") for name in types)
    ]
    return header.pack() + b"".join([*records, *names])


def without_time(table: BuiltTable) -> BuiltTable:
    """Return a table without intervals and designated timestamp; its one partition stays."""
    files = {path.replace(DIRECTORY, "default.1"): content for path, content in table.files.items()}
    header = meta_layout.MetaHeader.unpack(files["_meta"], 0, file="_meta")
    header = header.changed(timestamp_index=-1, partition_by=PartitionBy.NONE)
    return BuiltTable(files={**files, "_meta": header.pack() + files["_meta"][header.layout.size_bytes :]})


def zeroed(record: type[RecordType], **values: int) -> RecordType:
    """Return a record whose other fields are zero."""
    return record.unpack(bytes(record.layout.size_bytes), 0, file="zeros").changed(**values)


SMALL = build({"v": (TypeTag.LONG, pa.array([1, 2, None]))})
"""The smallest table that has a value and a null, for all to whom its rows do not matter."""
