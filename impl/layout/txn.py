"""The byte layouts of `_txn`, the file that determines which version of a table is committed."""

from typing import Annotated

from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import I32, I64, U64, Record, gap, layout_of, meaning

SOURCE = "QuestDB's public sources, checked on tables of 9.3.4 to 2026-07"


@layout_of(title="`_txn` base header", size_bytes=64, source=SOURCE)
class BaseHeader(Record):
    """The fixed part at the start: the version, and the position of both areas."""

    version: I64 = meaning("number of the committed version; even selects area A, odd area B")
    a_record_offset: I32 = meaning("area A: offset of the record")
    a_symbols_size: I32 = meaning("area A: bytes of the symbol counts")
    a_partitions_size: I32 = meaning("area A: bytes of the partition table")
    a_padding: Annotated[bytes, gap(12)] = meaning("unused")
    b_record_offset: I32 = meaning("area B: offset of the record")
    b_symbols_size: I32 = meaning("area B: bytes of the symbol counts")
    b_partitions_size: I32 = meaning("area B: bytes of the partition table")
    b_padding: Annotated[bytes, gap(20)] = meaning("unused")


@layout_of(title="`_txn` record", size_bytes=132, source=SOURCE)
class TransactionRecord(Record):
    """The fixed part of one record; symbol counts and the partition table follow."""

    txn: I64 = meaning("number of the version that wrote the record; equals the base header's VERSION")
    transient_row_count: I64 = meaning("rows of the last partition")
    fixed_row_count: I64 = meaning("rows of all others")
    min_timestamp: I64 = meaning("smallest timestamp of the table")
    max_timestamp: I64 = meaning("largest timestamp of the table")
    structure_version: I64 = meaning("metadata version (low half) and column structure version (high half)")
    data_version: I64 = meaning("grows when data is replaced")
    partition_table_version: I64 = meaning("grows when an older partition's entry changes")
    column_version: I64 = meaning("version of `_cv` that belongs to this record")
    truncate_version: I64 = meaning("grows when the table is truncated")
    seq_txn: I64 = meaning("last transaction of the sequencer that is applied")
    lag_checksum: I32 = meaning("checksum of the lag fields, and of nothing else")
    lag_txn_count: I32 = meaning("transactions in the lag; negative = unordered")
    lag_row_count: I32 = meaning("rows in the lag")
    lag_min_timestamp: I64 = meaning("smallest timestamp of the lag; unaligned")
    lag_max_timestamp: I64 = meaning("largest timestamp of the lag; unaligned")
    left_over: Annotated[bytes, gap(12)] = meaning(
        "unused up to 2026-07; later a checksum of the record (8 bytes) and a stamp of its version, zeros = none"
    )
    symbol_column_count: I32 = meaning("symbol counts that follow")


@layout_of(title="Symbol count", size_bytes=8, source=SOURCE)
class SymbolCount(Record):
    """Size of one symbol column's dictionary."""

    count: I32 = meaning("symbols")
    transient_count: I32 = meaning("symbols, uncommitted ones included")


@layout_of(title="Partition table size", size_bytes=4, source=SOURCE)
class PartitionTableSize(Record):
    """Between the symbol counts and the partition table."""

    partitions_size: I32 = meaning("bytes of the partition table that follows")


@layout_of(title="Partition entry", size_bytes=32, source=SOURCE)
class PartitionEntry(Record):
    """One partition; the last one's row count is not authoritative (TRANSIENT_ROW_COUNT is)."""

    timestamp: I64 = meaning("start of the partition; entries ascend")
    row_count_and_flags: U64 = meaning("row count and flags")
    name_txn: I64 = meaning("suffix of the directory's name; -1 = none")
    token: I64 = meaning("field 3: committed size of data.parquet; -1 or 0 for native partitions")


PARTITION_FLAGS = BitTable(
    "Row count and flags",
    SOURCE,
    64,
    (
        Bits("ROW_COUNT", 0, 44, "rows of the partition"),
        Bits("SQUASH_COUNT", 44, 16, "squash counter"),
        Bits("PARQUET_GENERATED", 60, 1, "a data.parquet was generated"),
        Bits("PARQUET_FORMAT", 61, 1, "the partition's rows live in data.parquet"),
        Bits("READ_ONLY", 62, 1, "the partition is read-only"),
    ),
)
SEQ_TXN_BITS, SEQ_TXN_MARK = 56, 0x40
"""In TOKEN of a native partition, a later release stores the SEQ_TXN of its rows, and this in the bits above it."""
REMOTE = -(1 << 63)
"""In TOKEN of a partition in Parquet, a later release adds this if another place has a copy of data.parquet."""
ROW_COUNT, SQUASH_COUNT, PARQUET_GENERATED, PARQUET_FORMAT, READ_ONLY = PARTITION_FLAGS.bits
