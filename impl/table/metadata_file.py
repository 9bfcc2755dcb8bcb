"""`_meta`: the columns of a table and how it is partitioned."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Sequence

import msgspec

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import meta as layout
from tornproof.impl.layout.record import Buffer, RecordPosition
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.types.questdb import NANOSECOND, TAG, TypeTag, tag_of

META_FILE = "_meta"
NAME_FILE = "_name"
"""The table's name, as a name in `_meta` is stored."""
META_LIMIT_BYTES = 16 * 1024 * 1024
COLUMN_COUNT_LIMIT = 100_000
HEADER_BYTES = layout.MetaHeader.layout.size_bytes
COLUMN_BYTES = layout.MetaColumn.layout.size_bytes
LENGTH_BYTES = layout.NameLength.layout.size_bytes
CODE_UNIT_BYTES = 2
LAST_OF_ONE_UNIT = "\uffff"
FORMAT_VERSION = 426
MINOR_FORMAT_VERSION = 1
CHECKSUM_OF_COLUMN = 37
CHECKSUM_OF_VERSION = 13
CHECKSUM_IN_PLACE_OF_ZERO = 64_199
VERSIONS_BEFORE_A_RESET = range(1, 4096)
"""So few that sums of up to 332 columns have 16 bits, and one flipped bit is found: 13 divides no 37 x 2^n."""
U32_MAX = (1 << 32) - 1
FILE_STEP_BYTES = 4096
DROPPED = -TypeTag.INT
"""A dropped column has minus its type, whichever that was."""
TAGS = range(1, 128)
"""Tags that types of a release may have; of a type with a flipped sign the tag is 128 or more, or 0."""
SYMBOL_CAPACITY = 256
"""The server's default."""
INDEX_BLOCK_CAPACITY = 256
"""The same, for an index that a SYMBOL column may get later."""
INDEX_BLOCK_CAPACITY_MIN = 2
"""The least that servers take."""
WITHOUT_ROWS = "which has no rows of its own"
OF_VIEW = 6
"""In PARTITION_BY of a view: the intervals are those of other tables."""


class PartitionBy(enum.IntEnum):
    """The interval of one partition, as coded in `_meta`."""

    DAY = 0
    MONTH = 1
    YEAR = 2
    NONE = 3
    HOUR = 4
    WEEK = 5


class NamedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the table; `id` is its writer index, which never changes.

    A change of its type makes it another column. `former_ids` are those of the columns that it replaced, the newest
    first: partitions that were written before, and are in Parquet, still have it under one of them.
    """

    id: int
    name: str
    type: int
    former_ids: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """All ids that partitions have it under."""
        return (self.id, *self.former_ids)

    @property
    def file_id(self) -> int:
        """The id that servers write into new Parquet files, and merge rows by: the first one that it had."""
        return self.ids[-1]


class TableColumn(NamedColumn, frozen=True, kw_only=True):
    """One column of the table that is not dropped."""

    is_dedup_key: bool = False
    is_indexed: bool = False
    symbol_capacity: int = SYMBOL_CAPACITY


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The columns in the table's order, dropped ones left out; `timestamp_id` is -1 without designated timestamp."""

    columns: tuple[TableColumn, ...]
    partition_by: PartitionBy
    timestamp_id: int
    has_wal: bool = False
    version: int = 0

    @property
    def counts_nanoseconds(self) -> bool:
        """Whether partition timestamps count nanoseconds, and not microseconds."""
        return any(column.id == self.timestamp_id and NANOSECOND.get(column.type) for column in self.columns)

    @property
    def columns_by_id(self) -> dict[int, TableColumn]:
        """The columns by all ids that partitions have them under."""
        return {key: column for column in self.columns for key in column.ids}

    @property
    def names_by_id(self) -> dict[int, str]:
        """Their names by the same ids."""
        return {key: column.name for key, column in self.columns_by_id.items()}

    @property
    def keys(self) -> dict[str, int]:
        """The types of the deduplication keys by name, the designated timestamp first; empty without deduplication."""
        first = sorted(self.columns, key=lambda column: column.id != self.timestamp_id)
        return {column.name: column.type for column in first if column.is_dedup_key}


def read_metadata_file(storage: ReadableStorage, path: str) -> TableMetadata:
    """Read and decode `_meta`; raises CorruptError, UnsupportedError and StorageError."""
    return decode_metadata_file(_content(storage, path, META_FILE), file=META_FILE)


def read_name_file(storage: ReadableStorage, path: str) -> str:
    """Read and decode `_name`; raises CorruptError, UnsupportedError and StorageError."""
    name, _ = _decode_name(_content(storage, path, NAME_FILE), 0, "", NAME_FILE)
    return name


def _content(storage: ReadableStorage, path: str, file: str) -> bytes:
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        if size_bytes > META_LIMIT_BYTES:
            raise UnsupportedError(file, "size", None, f"at most {META_LIMIT_BYTES}", size_bytes)
        return handle.pread(size_bytes, 0)


def decode_metadata_file(data: Buffer, *, file: str) -> TableMetadata:
    """Decode `_meta` (docs/format.md); raises CorruptError, UnsupportedError."""
    header = layout.MetaHeader.unpack(data, 0, file=file)
    _check_header(header, len(data), file)
    records = [
        layout.MetaColumn.unpack(data, HEADER_BYTES + index * COLUMN_BYTES, file=file)
        for index in range(header.column_count)
    ]
    names = _decode_names(data, HEADER_BYTES + header.column_count * COLUMN_BYTES, header.column_count, file)
    seen: set[str] = set()
    slots: list[TableColumn | None] = []
    slot_of: dict[int, int] = {}
    for index, (record, name) in enumerate(zip(records, names, strict=True)):
        _check_type(index, record, file)
        _check_index(index, record, file)
        _check_replaced(index, records, file)
        # A column whose type was changed is a new column at the old one's position.
        slot_of[index] = slot_of.get(record.replacing_index - 1, len(slots))
        if slot_of[index] == len(slots):
            slots.append(None)
        if record.type >= 0:
            _check_free(slots[slot_of[index]], index, record, file)
            lowered = in_lower_case(name)
            if lowered in seen:
                raise CorruptError(file, f"name of column {index}", None, "a name of its own", repr(name))
            seen.add(lowered)
            slots[slot_of[index]] = _column(index, name, records)
    _check_timestamp(header, records, file)
    _check_keys([column for column in slots if column is not None], header, file)
    return TableMetadata(
        columns=tuple(column for column in slots if column is not None),
        partition_by=PartitionBy(header.partition_by),
        timestamp_id=header.timestamp_index,
        has_wal=bool(header.wal_enabled),
        version=header.metadata_version,
    )


def encode_metadata_file(metadata: TableMetadata, *, table_id: int) -> bytes:
    """Encode `_meta` of a table without write-ahead log and indexes, as release 9.4.2 does.

    The first ids of columns must ascend in the table's order; columns with those between them were dropped. Settings
    are the server's defaults.
    """
    by_id = {column.id: column for column in metadata.columns}
    first_ids = [column.file_id for column in metadata.columns]
    assert first_ids == sorted(first_ids), metadata
    count = max(by_id) + 1
    replaced = dict(pair for column in metadata.columns for pair in itertools.pairwise(column.ids))
    minor_format = layout.MINOR_FORMAT_VERSION.put(0, MINOR_FORMAT_VERSION)
    header = layout.MetaHeader(
        column_count=count,
        partition_by=metadata.partition_by,
        timestamp_index=metadata.timestamp_id,
        format_version=FORMAT_VERSION,
        table_id=table_id,
        max_uncommitted_row_count=500_000,
        o3_max_lag=600_000_000,
        metadata_version=0,
        wal_enabled=0,
        minor_format=layout.MINOR_FORMAT_CHECKSUM.put(minor_format, _checksum(count, 0)),
        ttl=0,
        unused=bytes(layout.MetaHeader.layout.field("unused").wire.size_bytes),
    )
    columns = [by_id.get(index, TableColumn(id=index, name="dropped", type=DROPPED)) for index in range(count)]
    records = [_record(column, replaced.get(column.id, -1)).pack() for column in columns]
    content = b"".join([header.pack(), *records, *(encode_name(column.name) for column in columns)])
    return content.ljust(-(-len(content) // FILE_STEP_BYTES) * FILE_STEP_BYTES, b"\0")


def in_lower_case(name: str) -> str:
    """Return a name as servers find columns by it: each UTF-16 unit for itself, so that ẞ is ß, and İ is i."""
    return "".join(each.lower()[0] if each <= LAST_OF_ONE_UNIT else each for each in name)


def encode_name(name: str) -> bytes:
    """Return a name as QuestDB stores it: the number of UTF-16 code units, then the units."""
    units = name.encode("utf-16-le")
    return layout.NameLength(code_unit_count=len(units) // CODE_UNIT_BYTES).pack() + units


def _column(index: int, name: str, records: Sequence[layout.MetaColumn]) -> TableColumn:
    record = records[index]
    is_symbol = tag_of(record.type) is TypeTag.SYMBOL
    return TableColumn(
        id=index,
        name=name,
        type=record.type,
        former_ids=tuple(_replaced(index, records)),
        is_dedup_key=bool(layout.DEDUP_KEY.get(record.flags)),
        is_indexed=bool(layout.INDEXED.get(record.flags)),
        symbol_capacity=record.symbol_capacity if is_symbol else SYMBOL_CAPACITY,
    )


def _replaced(index: int, records: Sequence[layout.MetaColumn]) -> Iterator[int]:
    """Yield the columns that one replaced, the newest first; none replaces a later one, so that there are no cycles."""
    while 0 <= (before := records[index].replacing_index - 1) < index:
        yield before
        index = before


def _record(column: TableColumn, replaced: int) -> layout.MetaColumn:
    is_symbol = tag_of(column.type) is TypeTag.SYMBOL
    return layout.MetaColumn(
        type=column.type,
        flags=layout.SYMBOL_CACHE.put(layout.DEDUP_KEY.put(0, int(column.is_dedup_key)), int(is_symbol)),
        index_block_capacity=INDEX_BLOCK_CAPACITY if is_symbol else 0,
        symbol_capacity=column.symbol_capacity,
        unused=bytes(4),
        replacing_index=replaced + 1,
        unused_end=bytes(4),
    )


def _check_header(header: layout.MetaHeader, size_bytes: int, file: str) -> None:
    at = layout.MetaHeader.at(file, 0)
    room = (size_bytes - HEADER_BYTES) // (COLUMN_BYTES + LENGTH_BYTES)
    if not 0 < header.column_count <= room:
        raise at.corrupt("column_count", f"1 to {room}, the columns that fit into the file", header.column_count)
    if header.column_count > COLUMN_COUNT_LIMIT:
        raise at.unsupported("column_count", f"at most {COLUMN_COUNT_LIMIT} columns", header.column_count)
    if header.format_version != FORMAT_VERSION:
        raise at.unsupported("format_version", FORMAT_VERSION, header.format_version)
    _check_minor_format(header, at)
    if header.partition_by == OF_VIEW:
        raise at.unsupported("partition_by", "that of a table", f"{OF_VIEW}, that of a view, {WITHOUT_ROWS}")
    if header.partition_by not in set(PartitionBy):
        raise at.corrupt("partition_by", f"{min(PartitionBy)} to {max(PartitionBy)}", header.partition_by)
    if not -1 <= header.timestamp_index < header.column_count:
        raise at.corrupt("timestamp_index", f"-1 to {header.column_count - 1}", header.timestamp_index)
    if header.timestamp_index < 0 and header.partition_by != PartitionBy.NONE:
        raise at.corrupt("timestamp_index", "a column, as the table has intervals", header.timestamp_index)


def _check_minor_format(header: layout.MetaHeader, at: RecordPosition) -> None:
    """Reject another number of columns than was written: with fewer, the next records would pass for names."""
    count, version = header.column_count, header.metadata_version
    found = layout.MINOR_FORMAT_CHECKSUM.get(header.minor_format)
    # Old releases write no minor version, and no checksum.
    if layout.MINOR_FORMAT_VERSION.get(header.minor_format) and found not in _checksums(count, version):
        expected = f"the checksum {_checksum(count, version)} of {count} columns, METADATA_VERSION {version}"
        raise at.corrupt("minor_format", expected, found)


def _checksums(column_count: int, metadata_version: int) -> Iterator[int]:
    """Yield what servers store as the checksum in MINOR_FORMAT."""
    yield _checksum(column_count, metadata_version)
    if not metadata_version:
        # SET TYPE WAL and REBASE WAL store METADATA_VERSION 0, and leave the checksum of the version before.
        yield from (_checksum(column_count, version) for version in VERSIONS_BEFORE_A_RESET)


def _checksum(column_count: int, metadata_version: int) -> int:
    """Return the checksum in MINOR_FORMAT: a sum of 32 bits, of which both halves are folded into one."""
    version = (metadata_version ^ metadata_version >> 32) & U32_MAX
    number = (CHECKSUM_OF_COLUMN * column_count + CHECKSUM_OF_VERSION * version) & U32_MAX
    return (number ^ number >> 16) & layout.MINOR_FORMAT_CHECKSUM.mask or CHECKSUM_IN_PLACE_OF_ZERO


def _check_type(index: int, record: layout.MetaColumn, file: str) -> None:
    """Reject a type that no release has, such as one whose sign has flipped, which hides or revives a column."""
    if TAG.get(abs(record.type)) not in TAGS:
        expected = f"a type, or minus that of a dropped column, with a tag from {TAGS[0]} to {TAGS[-1]}"
        raise _at(index, file).corrupt("type", expected, record.type)


def _check_index(index: int, record: layout.MetaColumn, file: str) -> None:
    """Reject an index that no server opens the table with, that of a dropped column included."""
    if not layout.INDEXED.get(record.flags):
        return
    if tag_of(abs(record.type)) is not TypeTag.SYMBOL:
        expected = f"no index, which only a column of type {TypeTag.SYMBOL.name} has"
        raise _at(index, file).corrupt("flags", expected, "INDEXED")
    if record.index_block_capacity < INDEX_BLOCK_CAPACITY_MIN:
        expected = f"at least {INDEX_BLOCK_CAPACITY_MIN}, as the column has an index"
        raise _at(index, file).corrupt("index_block_capacity", expected, record.index_block_capacity)


def _check_replaced(index: int, records: Sequence[layout.MetaColumn], file: str) -> None:
    """Reject an index that no server writes: older rows, which have the column under another id, would be null."""
    replacing_index = records[index].replacing_index
    if replacing_index and not (0 < replacing_index <= index and records[replacing_index - 1].type < 0):
        expected = "0, or 1 + the index of a column dropped before it"
        raise _at(index, file).corrupt("replacing_index", expected, replacing_index)


def _check_free(taken: TableColumn | None, index: int, record: layout.MetaColumn, file: str) -> None:
    if taken is not None:
        expected = f"the position of a dropped column, not that of {taken.name!r}"
        raise _at(index, file).corrupt("replacing_index", expected, record.replacing_index)


def _at(index: int, file: str) -> RecordPosition:
    return layout.MetaColumn.at(file, HEADER_BYTES + index * COLUMN_BYTES, f" of column {index}")


def _check_timestamp(header: layout.MetaHeader, records: list[layout.MetaColumn], file: str) -> None:
    if header.timestamp_index >= 0 and tag_of(records[header.timestamp_index].type) is not TypeTag.TIMESTAMP:
        expected = f"a live column of type {TypeTag.TIMESTAMP.name}, or -1"
        raise layout.MetaHeader.at(file, 0).corrupt("timestamp_index", expected, header.timestamp_index)


def _check_keys(columns: list[TableColumn], header: layout.MetaHeader, file: str) -> None:
    """Reject keys without the designated timestamp, which no table has: a commit would replace other rows."""
    keys = [column.id for column in columns if column.is_dedup_key]
    if keys and header.timestamp_index not in keys:
        expected = "no deduplication key, because the designated timestamp is none"
        raise _at(keys[0], file).corrupt("flags", expected, "DEDUP_KEY")


def _decode_names(data: Buffer, position: int, count: int, file: str) -> list[str]:
    names = []
    for index in range(count):
        name, position = _decode_name(data, position, f" of column {index}", file)
        names.append(name)
    return names


def _decode_name(data: Buffer, position: int, of: str, file: str) -> tuple[str, int]:
    """Return a name and the offset behind it; `of` says whose it is where it is rejected."""
    code_unit_count = layout.NameLength.unpack(data, position, file=file).code_unit_count
    start = position + LENGTH_BYTES
    room = (len(data) - start) // CODE_UNIT_BYTES
    if not 0 < code_unit_count <= room:
        raise CorruptError(file, f"CODE_UNIT_COUNT{of}", position, f"1 to {room}", code_unit_count)
    end = start + code_unit_count * CODE_UNIT_BYTES
    try:
        return bytes(data[start:end]).decode("utf-16-le"), end
    except UnicodeDecodeError as error:
        raise CorruptError(file, f"name{of}", start + error.start, "UTF-16", error.reason) from error
