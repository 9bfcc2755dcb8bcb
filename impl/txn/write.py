"""The next version of `_txn`, and the stores that publish it, which the caller performs between its barriers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.txn.transaction import (
    ENTRY_BYTES,
    HEADER_BYTES,
    I64_MAX,
    I64_MIN,
    RECORD_BYTES,
    RECORD_LIMIT_BYTES,
    SIZE_BYTES,
    SYMBOL_BYTES,
    TXN_FILE,
    Area,
    Partition,
    Transaction,
    area_of,
    check_area,
)

FILE_STEP_BYTES = 4096
NO_LAG = {"lag_row_count": 0, "lag_min_timestamp": I64_MAX, "lag_max_timestamp": I64_MIN}
"""What a record says of an empty lag, which has LAG_TXN_COUNT 0, too, unless a server has stored a sign there."""
_BASE = layout.BaseHeader.layout
_RECORD = layout.TransactionRecord.layout
_WORD_BYTES, _SLOT_WORD_BYTES = 8, 4
_NOTHING_LEFT_OVER = bytes(_RECORD.field("left_over").wire.size_bytes)


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's state in one version; `flags` are those of the entry's row count word, without the count."""

    timestamp: int
    row_count: int
    flags: int
    name_txn: int
    token: int
    is_remote: bool = False

    @classmethod
    def of(cls, partition: Partition) -> Self:
        """Return a partition's state in a committed version."""
        return cls(
            timestamp=partition.timestamp,
            row_count=partition.row_count,
            flags=partition.flags,
            name_txn=partition.name_txn,
            token=partition.token,
            is_remote=partition.is_remote,
        )

    def entry(self) -> layout.PartitionEntry:
        """Return the entry with the actual row count; raises UnsupportedError if that has too many bits."""
        if self.row_count > layout.ROW_COUNT.mask:
            expected = f"at most {layout.ROW_COUNT.mask}"
            raise UnsupportedError(TXN_FILE, "ROW_COUNT of a partition", None, expected, self.row_count)
        return layout.PartitionEntry(
            timestamp=self.timestamp,
            row_count_and_flags=layout.ROW_COUNT.put(self.flags, self.row_count),
            name_txn=self.name_txn,
            token=self.token + layout.REMOTE if self.is_remote else self.token,
        )


class NextVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one version: its area in `_txn`, independent of the position."""

    record: layout.TransactionRecord
    symbol_counts: tuple[layout.SymbolCount, ...]
    entries: tuple[layout.PartitionEntry, ...]

    @property
    def symbols_size(self) -> int:
        """Bytes of the symbol counts."""
        return len(self.symbol_counts) * SYMBOL_BYTES

    @property
    def partitions_size(self) -> int:
        """Bytes of the partition table."""
        return len(self.entries) * ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        """Bytes from the record's start to the end of the partition table."""
        return RECORD_BYTES + self.symbols_size + SIZE_BYTES + self.partitions_size

    def encode(self) -> bytes:
        """Return the area's bytes: record, symbol counts, size and partition table (docs/format.md)."""
        size = layout.PartitionTableSize(partitions_size=self.partitions_size)
        return b"".join(part.pack() for part in (self.record, *self.symbol_counts, size, *self.entries))


class WordStore(msgspec.Struct, frozen=True, kw_only=True):
    """One aligned little-endian store of 4 or 8 bytes; `value` is unsigned."""

    offset_bytes: int
    size_bytes: int
    value: int


class StorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a version of `_txn` or `_cv` is stored: first the file is extended to `file_size_bytes`, then written.

    `record_stores` do not change the committed version; only `version_store` commits.
    """

    file_size_bytes: int
    record_stores: tuple[WordStore, ...]
    version_store: WordStore


def lag_checksum(record: layout.TransactionRecord) -> int:
    """Return the checksum of the lag fields, a signed 32-bit number (docs/format.md)."""
    hashed = record.lag_min_timestamp
    for name in ("lag_max_timestamp", "txn", "seq_txn", "lag_row_count", "lag_txn_count"):
        hashed = (hashed * 31 + getattr(record, name)) % (1 << 64)
    return signed(hashed ^ hashed >> 32, 32)


def first_version(symbol_column_count: int) -> NextVersion:
    """Return version 0 of a table without rows."""
    fields: dict[str, Any] = dict.fromkeys(_RECORD.names, 0)
    fields |= {"min_timestamp": I64_MAX, "max_timestamp": I64_MIN, "symbol_column_count": symbol_column_count}
    fields |= {**NO_LAG, "left_over": _NOTHING_LEFT_OVER}
    record = layout.TransactionRecord(**fields)
    no_symbols = layout.SymbolCount(count=0, transient_count=0)
    return NextVersion(
        record=record.changed(lag_checksum=lag_checksum(record)),
        symbol_counts=(no_symbols,) * symbol_column_count,
        entries=(),
    )


def next_version(
    current: Transaction,
    *,
    partitions: Sequence[PartitionState],
    min_timestamp: int,
    max_timestamp: int,
    symbol_counts: tuple[layout.SymbolCount, ...] | None = None,
    seq_txn: int | None = None,
    partition_table_version: int | None = None,
    column_version: int | None = None,
) -> NextVersion:
    """Return the version after `current` with these ascending partitions; None keeps the value of `current`.

    Its lag is empty: such rows are behind the last partition's in native files, where a later partition would hide
    them, and SEQ_TXN does not count them, so that a server applies them again from its log.
    `partition_table_version` is that of an announced version; by default the number grows if readers need it.
    Raises UnsupportedError if a number has no successor or the version would be larger than readers accept.
    """
    assert all(earlier.timestamp < later.timestamp for earlier, later in itertools.pairwise(partitions))
    if current.version == I64_MAX:
        raise UnsupportedError(TXN_FILE, "VERSION", None, f"less than {I64_MAX}", current.version)
    before = tuple(PartitionState.of(partition) for partition in current.partitions)
    # Long-lived readers reload older entries only if this number has grown (docs/format.md).
    table_has_changed = _without_last_row_count(before) != _without_last_row_count(partitions)
    if partition_table_version is None:
        partition_table_version = signed(current.record.partition_table_version + table_has_changed, 64)
    symbols = current.symbol_counts if symbol_counts is None else symbol_counts
    record = current.record.changed(
        txn=current.version + 1,
        transient_row_count=partitions[-1].row_count if partitions else 0,
        fixed_row_count=sum(partition.row_count for partition in partitions[:-1]),
        min_timestamp=min_timestamp,
        max_timestamp=max_timestamp,
        partition_table_version=partition_table_version,
        column_version=current.record.column_version if column_version is None else column_version,
        seq_txn=current.record.seq_txn if seq_txn is None else seq_txn,
        lag_txn_count=0,
        **NO_LAG,
        left_over=_NOTHING_LEFT_OVER,
        symbol_column_count=len(symbols),
    )
    following = NextVersion(
        record=record.changed(lag_checksum=lag_checksum(record)),
        symbol_counts=symbols,
        entries=tuple(partition.entry() for partition in partitions),
    )
    if following.size_bytes > RECORD_LIMIT_BYTES:
        expected, actual = f"at most {RECORD_LIMIT_BYTES} bytes", f"{following.size_bytes} bytes"
        raise UnsupportedError(TXN_FILE, "record", None, expected, actual)
    return following


def plan_store(current_file: Buffer, following: NextVersion, *, area_is_durable: bool = False) -> StorePlan:
    """Plan how to store `following` into a `_txn` with the version before it (docs/format.md).

    With `area_is_durable` the caller guarantees that everything in the free area has been synced; an area that is
    reused at the same position then gets only the words that change. Raises CorruptError if the file has another
    version or an impossible live area.
    """
    base = layout.BaseHeader.unpack(current_file, 0, file=TXN_FILE)
    version = following.record.txn
    if base.version != version - 1:
        raise CorruptError(TXN_FILE, "VERSION", 0, version - 1, base.version)
    live, free = area_of(base, base.version), area_of(base, version)
    check_area(live, len(current_file), file=TXN_FILE)
    area = replace(
        free,
        record_offset=offset_beside(live.record_offset, live.size_bytes, following.size_bytes, HEADER_BYTES),
        symbols_size=following.symbols_size,
        partitions_size=following.partitions_size,
    )
    content = following.encode()
    stores = (*_gap_stores(area, content, current_file), *_area_stores(area, content), *_slot_stores(area))
    if area_is_durable and area == free and _word_at(current_file, area.record_offset, 8) == version - 2:
        stores = tuple(_changing(current_file, stores))
    return StorePlan(
        file_size_bytes=max(len(current_file), whole_steps(area.record_offset + area.size_bytes)),
        record_stores=stores,
        version_store=WordStore(offset_bytes=_BASE.offset_of("version"), size_bytes=8, value=version),
    )


def encode_new_file(first: NextVersion) -> bytes:
    """Return the `_txn` of a new table, with only version 0 (docs/format.md)."""
    assert first.record.txn == 0
    base = layout.BaseHeader(
        version=0,
        a_record_offset=HEADER_BYTES,
        a_symbols_size=first.symbols_size,
        a_partitions_size=first.partitions_size,
        a_padding=bytes(_BASE.field("a_padding").wire.size_bytes),
        b_record_offset=0,
        b_symbols_size=0,
        b_partitions_size=0,
        b_padding=bytes(_BASE.field("b_padding").wire.size_bytes),
    )
    content = base.pack() + first.encode()
    return content.ljust(whole_steps(len(content)), b"\0")


def words_of(content: Buffer, offset_bytes: int, size_bytes: int) -> Iterator[WordStore]:
    """Yield the stores of `size_bytes` each that write `content` at an aligned offset."""
    assert size_bytes in (4, 8) and offset_bytes % size_bytes == len(content) % size_bytes == 0
    for start in range(0, len(content), size_bytes):
        value = int.from_bytes(content[start : start + size_bytes], "little")
        yield WordStore(offset_bytes=offset_bytes + start, size_bytes=size_bytes, value=value)


def offset_beside(live_offset: int, live_bytes: int, size_bytes: int, header_bytes: int) -> int:
    """Return the offset of a free area: behind the header if it fits before the live one, else right behind that.

    It begins at a whole word, also where the live one, of a server, does not end at one.
    """
    behind = -(-(live_offset + live_bytes) // _WORD_BYTES) * _WORD_BYTES
    return header_bytes if header_bytes + size_bytes <= live_offset else behind


def whole_steps(size_bytes: int) -> int:
    """Return the size of a file with two areas that holds so many bytes."""
    return -(-size_bytes // FILE_STEP_BYTES) * FILE_STEP_BYTES


def _gap_stores(area: Area, content: bytes, current_file: Buffer) -> Iterator[WordStore]:
    """Return the stores of the gap, where a killed server may have left a checksum and a stamp of the same version."""
    start, end = _RECORD.offset_of("left_over"), _RECORD.offset_of("symbol_column_count")
    return _changing(current_file, words_of(content[start:end], area.record_offset + start, 4))


def _changing(current_file: Buffer, stores: Iterable[WordStore]) -> Iterator[WordStore]:
    """Yield the stores that change a word of the file."""
    for store in stores:
        if _word_at(current_file, store.offset_bytes, store.size_bytes) != store.value:
            yield store


def _area_stores(area: Area, content: bytes) -> Iterator[WordStore]:
    """Yield the stores of an area, without the gap, in words that its alignment allows.

    TXN comes last: a version that reaches the disk too early is rejected as long as TXN has another number. This only
    narrows the window, because blocks reach the disk in any order; the barrier closes it.
    """
    body, lag, gap, symbols = (
        _RECORD.offset_of(name) for name in ("transient_row_count", "lag_checksum", "left_over", "symbol_column_count")
    )
    table = area.size_bytes - area.partitions_size
    for start, end, size_bytes in (
        (body, lag, 8),
        (lag, gap, 4),
        (symbols, table, 4),
        (table, area.size_bytes, 8),
        (0, body, 8),
    ):
        yield from words_of(content[start:end], area.record_offset + start, size_bytes)


def _slot_stores(area: Area) -> Iterator[WordStore]:
    values = (area.record_offset, area.symbols_size, area.partitions_size)
    content = b"".join(value.to_bytes(_SLOT_WORD_BYTES, "little") for value in values)
    return words_of(content, area.slot_offset_bytes, _SLOT_WORD_BYTES)


def _word_at(content: Buffer, offset_bytes: int, size_bytes: int) -> int:
    """Return a word of the file, extended with zeros if necessary."""
    return int.from_bytes(content[offset_bytes : offset_bytes + size_bytes], "little")


def _without_last_row_count(partitions: Sequence[PartitionState]) -> tuple[PartitionState, ...]:
    """Return the partitions without the last row count, which is in the record and reloaded by every reader."""
    return (*partitions[:-1], *(replace(partition, row_count=0) for partition in partitions[-1:]))


def signed(value: int, size_bits: int) -> int:
    """Wrap a number as Java's integers do."""
    half = 1 << size_bits - 1
    return (value + half) % (2 * half) - half
