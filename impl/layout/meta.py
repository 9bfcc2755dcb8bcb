"""The byte layouts of `_meta` that a reader of parquet partitions needs."""

from typing import Annotated

from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import I32, I64, U8, Record, gap, layout_of, meaning

SOURCE = "QuestDB's public sources, checked on tables of 9.3.4 to 2026-07"


@layout_of(title="`_meta` header", size_bytes=128, source=SOURCE)
class MetaHeader(Record):
    """The fixed part; column records follow, then their names as length-prefixed UTF-16."""

    column_count: I32 = meaning("columns, dropped ones included")
    partition_by: I32 = meaning("0 = day, 1 = month, 2 = year, 3 = none, 4 = hour, 5 = week, 6 = a view")
    timestamp_index: I32 = meaning("writer index of the designated timestamp, or -1")
    format_version: I32 = meaning("version of the table format")
    table_id: I32 = meaning("number of the table")
    max_uncommitted_row_count: I32 = meaning("setting")
    o3_max_lag: I64 = meaning("setting, in microseconds")
    metadata_version: I64 = meaning("grows with each change of structure")
    wal_enabled: U8 = meaning("1 = the table has a write-ahead log")
    minor_format: I32 = meaning("checksum (low half) and minor version (high half)")
    ttl: I32 = meaning("time to live, hours if positive, months if negative")
    unused: Annotated[bytes, gap(79)] = meaning("unused here")


@layout_of(title="`_meta` column record", size_bytes=32, source=SOURCE)
class MetaColumn(Record):
    """One column, in writer order."""

    type: I32 = meaning("QuestDB column type, of a dropped column minus that")
    flags: I64 = meaning("column flags")
    index_block_capacity: I32 = meaning("setting of the symbol index")
    symbol_capacity: I32 = meaning("setting of the symbol dictionary")
    unused: Annotated[bytes, gap(4)] = meaning("unused here")
    replacing_index: I32 = meaning("1 + writer index of the column that this one replaced, or 0")
    unused_end: Annotated[bytes, gap(4)] = meaning("unused here")


@layout_of(title="`_meta` name length", size_bytes=4, source=SOURCE)
class NameLength(Record):
    """Before each column name; UTF-16 code units follow."""

    code_unit_count: I32 = meaning("UTF-16 code units of the name")


META_COLUMN_FLAGS = BitTable(
    "`_meta` column flags",
    SOURCE,
    64,
    (
        Bits("INDEXED", 0, 1, "the column has an index"),
        Bits("SYMBOL_CACHE", 2, 1, "symbols are cached"),
        Bits("DEDUP_KEY", 3, 1, "the column is a deduplication key"),
    ),
)
INDEXED, SYMBOL_CACHE, DEDUP_KEY = META_COLUMN_FLAGS.bits

META_MINOR_FORMAT = BitTable(
    "`_meta` minor format",
    SOURCE,
    32,
    (
        Bits(
            "CHECKSUM",
            0,
            16,
            "both halves, exclusively or, of 37 x columns + 13 x metadata version; 64199 in place of 0",
        ),
        Bits("MINOR_VERSION", 16, 16, "1 in 9.4.2 and before, 2 in 9.4.3 and after"),
    ),
)
MINOR_FORMAT_CHECKSUM, MINOR_FORMAT_VERSION = META_MINOR_FORMAT.bits
