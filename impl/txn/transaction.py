"""`_txn`: the committed version of a table, and its partitions."""

from __future__ import annotations

import itertools
from functools import partial

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import BusyError, CorruptError, UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableFile, ReadableStorage

TXN_FILE = "_txn"
AREA_ALIGNMENT_BYTES = 4
"""Records of 8.2.0 are not padded, and the next ones of later releases begin where they end (docs/format.md)."""
AREA_LIMIT_BYTES = 64 * 1024 * 1024
RECORD_LIMIT_BYTES = 2 * 1024 * 1024
METADATA_VERSION_MASK = (1 << 32) - 1
"""Of STRUCTURE_VERSION, whose low half is METADATA_VERSION in `_meta`."""
I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1
"""Also MAX_TIMESTAMP and MIN_TIMESTAMP of a table without rows."""
SPIN_SECONDS = 1.0
SPIN_PAUSE_SECONDS = 0.001
HEADER_BYTES = layout.BaseHeader.layout.size_bytes
VERSION_BYTES = layout.BaseHeader.layout.field("version").wire.size_bytes
RECORD_BYTES = layout.TransactionRecord.layout.size_bytes
ENTRY_BYTES = layout.PartitionEntry.layout.size_bytes
SYMBOL_BYTES = layout.SymbolCount.layout.size_bytes
SIZE_BYTES = layout.PartitionTableSize.layout.size_bytes


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a committed version; the offsets are positions in `_txn`.

    `row_count` is the authoritative one, which for the last partition is in the record itself; `next_timestamp` is the
    start of the following partition. `is_remote` says that a server has a copy of data.parquet elsewhere.
    """

    timestamp: int
    row_count: int
    name_txn: int
    token: int
    flags: int
    entry_offset_bytes: int
    row_count_offset_bytes: int
    next_timestamp: int | None = None
    is_remote: bool = False

    @property
    def is_parquet(self) -> bool:
        """Whether the rows are in data.parquet."""
        return bool(layout.PARQUET_FORMAT.get(self.flags))

    @property
    def identity(self) -> tuple[int, ...]:
        """What an entry with the same rows in the same files has, wherever it stands."""
        return self.timestamp, self.name_txn, self.token, self.row_count, self.flags

    @property
    def parquet_was_generated(self) -> bool:
        """Whether the entry carries the mark of releases that write `_pm`."""
        return bool(layout.PARQUET_GENERATED.get(self.flags))

    @property
    def flags_offset_bytes(self) -> int:
        """The position of row count and flags in `_txn`."""
        return self.entry_offset_bytes + layout.PartitionEntry.layout.offset_of("row_count_and_flags")

    @property
    def token_offset_bytes(self) -> int:
        """The position of the token in `_txn`."""
        return self.entry_offset_bytes + layout.PartitionEntry.layout.offset_of("token")


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """One committed version of a table; its record is at an offset in `_txn`."""

    version: int
    record: layout.TransactionRecord
    record_offset: int
    symbol_counts: tuple[layout.SymbolCount, ...]
    partitions: tuple[Partition, ...]

    @property
    def metadata_version(self) -> int:
        """METADATA_VERSION of the `_meta` that belongs to it."""
        return self.record.structure_version & METADATA_VERSION_MASK


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """The position of one of the two records; sizes are those in its slot of the base header."""

    name: str
    slot_offset_bytes: int
    record_offset: int
    symbols_size: int
    partitions_size: int

    @property
    def size_bytes(self) -> int:
        """Bytes from the record's start to the end of its partition table."""
        return RECORD_BYTES + self.symbols_size + SIZE_BYTES + self.partitions_size


def area_of(base: layout.BaseHeader, version: int) -> Area:
    """Return the area that `version` selects: A for even ones, B for odd ones (docs/format.md)."""
    name = "ab"[version % 2]
    return Area(
        name=name.upper(),
        slot_offset_bytes=layout.BaseHeader.layout.offset_of(f"{name}_record_offset"),
        record_offset=getattr(base, f"{name}_record_offset"),
        symbols_size=getattr(base, f"{name}_symbols_size"),
        partitions_size=getattr(base, f"{name}_partitions_size"),
    )


def decode_transaction(data: Buffer, *, file: str, version: int | None = None) -> Transaction:
    """Decode the committed record of `_txn`, or the one that `version` selects.

    Only the selected area is checked: the other one may be empty or half written at any time (docs/format.md#_txn).
    Raises CorruptError.
    """
    base = layout.BaseHeader.unpack(data, 0, file=file)
    selected = base.version if version is None else version
    if selected < 0:
        raise CorruptError(file, "VERSION", 0, "0 or more", selected)
    area = area_of(base, selected)
    check_area(area, len(data), file=file)
    if area.size_bytes > RECORD_LIMIT_BYTES:
        expected = f"a record of at most {RECORD_LIMIT_BYTES} bytes"
        actual = f"{area.size_bytes} bytes"
        raise UnsupportedError(file, f"{area.name}_PARTITIONS_SIZE", area.slot_offset_bytes, expected, actual)
    return _decode_area(memoryview(data)[: area.record_offset + area.size_bytes], area, selected, file)


def check_area(area: Area, file_size_bytes: int, *, file: str) -> None:
    """Raise CorruptError unless the slot's position and sizes are possible."""
    at, prefix = partial(layout.BaseHeader.at, file, 0), area.name.lower()
    if area.record_offset < HEADER_BYTES or area.record_offset % AREA_ALIGNMENT_BYTES:
        expected = f"a multiple of {AREA_ALIGNMENT_BYTES} from {HEADER_BYTES} on"
        raise at().corrupt(f"{prefix}_record_offset", expected, area.record_offset)
    if area.symbols_size < 0 or area.symbols_size % SYMBOL_BYTES:
        raise at().corrupt(f"{prefix}_symbols_size", f"a multiple of {SYMBOL_BYTES}", area.symbols_size)
    if area.partitions_size < 0 or area.partitions_size % ENTRY_BYTES:
        raise at().corrupt(f"{prefix}_partitions_size", f"a multiple of {ENTRY_BYTES}", area.partitions_size)
    if area.record_offset + area.size_bytes > file_size_bytes:
        expected = f"a record of {area.size_bytes} bytes inside the file's {file_size_bytes}"
        raise at().corrupt(f"{prefix}_record_offset", expected, area.record_offset)


def safe_read(storage: ReadableStorage, path: str, *, file: str = TXN_FILE) -> Transaction:
    """Read the committed version beside a writer: the version must be the same before and after.

    `file` is its name in errors. Retries for at most a second of the storage's clock, then raises BusyError. Raises
    CorruptError, UnsupportedError for a record that ends beyond 8 MiB, and StorageError (docs/format.md; only `pread`,
    because releases up to 9.4.3 truncate files that have readers).
    """
    deadline = storage.monotonic_seconds() + SPIN_SECONDS
    with storage.open_for_reading(path) as handle:
        while True:
            before = read_version(handle, file)
            fence_after_version(storage)
            content = _read_live_area(handle, before, file)
            fence_before_final_look(storage)
            if is_committed_still(handle, before, file):
                # Decoding comes after the second check, so that a torn record is never reported as damage.
                check_reach(area_of(layout.BaseHeader.unpack(content, 0, file=file), before), len(content), file=file)
                return decode_transaction(content, file=file, version=before)
            if storage.monotonic_seconds() > deadline:
                raise BusyError(f"{file}: the version kept changing for {SPIN_SECONDS:g} s; try again")
            storage.sleep_seconds(SPIN_PAUSE_SECONDS)


def fence_after_version(storage: ReadableStorage) -> None:
    """Order the loads of slot and area behind that of the version, because a commit stores them before it."""
    storage.load_fence()


def fence_before_final_look(storage: ReadableStorage) -> None:
    """Order the final check behind the loads of the record: it then sees the version of any later commit they saw."""
    storage.load_fence()


def is_committed_still(handle: ReadableFile, version: int, file: str) -> bool:
    """Read the version again: if it is unchanged, so is its area."""
    return read_version(handle, file) == version


def read_version(handle: ReadableFile, file: str) -> int:
    """Return the current committed version from an open `_txn`; raises CorruptError if it is too short."""
    field = layout.BaseHeader.layout.field("version")
    raw = handle.pread(field.wire.size_bytes, field.offset_bytes)
    if len(raw) < field.wire.size_bytes:
        raise CorruptError(file, layout.BaseHeader.layout.title, 0, f"{HEADER_BYTES} bytes", f"{len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _read_live_area(handle: ReadableFile, version: int, file: str) -> bytes:
    """Return the base header and the live area at their offsets, up to the limit.

    Between them there are zeros instead of the other area, which a writer may be changing.
    """
    # The version is known; reading it again would make this depend on every store of a version in the simulator.
    start = version.to_bytes(VERSION_BYTES, "little", signed=True)
    head = start + handle.pread(HEADER_BYTES - VERSION_BYTES, VERSION_BYTES)
    if len(head) < HEADER_BYTES:
        return head
    area = area_of(layout.BaseHeader.unpack(head, 0, file=file), version)
    if area.record_offset < HEADER_BYTES or min(area.symbols_size, area.partitions_size) < 0:
        return head
    end_bytes = min(area.record_offset + area.size_bytes, AREA_LIMIT_BYTES)
    if area.record_offset < end_bytes:
        content = handle.pread(end_bytes - area.record_offset, area.record_offset)
        if len(content) == end_bytes - area.record_offset:
            return head.ljust(area.record_offset, b"\0") + content
    # The file ends earlier, which the decoder has to report.
    return head + handle.pread(end_bytes - HEADER_BYTES, HEADER_BYTES)


def check_reach(area: Area, known_bytes: int, *, file: str) -> None:
    """Raise UnsupportedError for a record that exists but is too far from the start to be read."""
    if area.record_offset + area.size_bytes > AREA_LIMIT_BYTES == known_bytes:
        expected = f"a record within the first {AREA_LIMIT_BYTES} bytes"
        actual = f"{area.size_bytes} bytes at {area.record_offset}"
        raise UnsupportedError(file, f"{area.name}_RECORD_OFFSET", area.slot_offset_bytes, expected, actual)


def _decode_area(window: memoryview, area: Area, version: int, file: str) -> Transaction:
    record = layout.TransactionRecord.unpack(window, area.record_offset, file=file)
    _check_record(record, area, version, file)
    position = area.record_offset + RECORD_BYTES
    symbol_counts = tuple(
        layout.SymbolCount.unpack(window, position + index * SYMBOL_BYTES, file=file)
        for index in range(record.symbol_column_count)
    )
    position += area.symbols_size
    stored = layout.PartitionTableSize.unpack(window, position, file=file).partitions_size
    if stored != area.partitions_size:
        raise CorruptError(
            file, "PARTITIONS_SIZE", position, f"{area.partitions_size}, as the base header says", stored
        )
    partitions = _decode_partitions(window, position + SIZE_BYTES, record, area.record_offset, file)
    fixed_row_count = sum(partition.row_count for partition in partitions[:-1])
    if fixed_row_count != record.fixed_row_count:
        expected, actual = f"{fixed_row_count}, the rows of all partitions but the last", record.fixed_row_count
        raise layout.TransactionRecord.at(file, area.record_offset).corrupt("fixed_row_count", expected, actual)
    return Transaction(
        version=version,
        record=record,
        record_offset=area.record_offset,
        symbol_counts=symbol_counts,
        partitions=partitions,
    )


def may_be_left_over(record: layout.TransactionRecord, entry_count: int) -> bool:
    """Whether the only entry may have bytes of an earlier record, because there is no last time (docs/format.md#_txn).

    A number of rows does not say so: a flipped bit would hide them.
    """
    return entry_count == 1 and record.max_timestamp == I64_MIN


def check_directory(partition: Partition, version: int, *, file: str = TXN_FILE) -> None:
    """Raise CorruptError if the partition's directory is named after the committed version, or after a later one."""
    if partition.name_txn >= version:
        # Else the next commit, which names directories after this version, would take a live one for its own.
        at = layout.PartitionEntry.at(file, partition.entry_offset_bytes)
        raise at.corrupt("name_txn", f"less than {version}, the version", partition.name_txn)


def _check_record(record: layout.TransactionRecord, area: Area, version: int, file: str) -> None:
    at = partial(layout.TransactionRecord.at, file, area.record_offset)
    if record.txn != version:
        raise at().corrupt("txn", f"{version}, the version", record.txn)
    if record.transient_row_count < 0:
        raise at().corrupt("transient_row_count", "0 or more", record.transient_row_count)
    if record.symbol_column_count * SYMBOL_BYTES != area.symbols_size:
        expected = f"{area.symbols_size // SYMBOL_BYTES}, by the size"
        raise at().corrupt("symbol_column_count", expected, record.symbol_column_count)


def _decode_partitions(
    window: memoryview, start: int, record: layout.TransactionRecord, record_offset: int, file: str
) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    transient_offset = record_offset + layout.TransactionRecord.layout.offset_of("transient_row_count")
    stored_offset = layout.PartitionEntry.layout.offset_of("row_count_and_flags")
    # Whether one that may be left over is in a table without intervals, only `Table.without_left_over` knows.
    is_in_use = not may_be_left_over(record, (len(window) - start) // ENTRY_BYTES)
    for offset_bytes in range(start, len(window), ENTRY_BYTES):
        entry = layout.PartitionEntry.unpack(window, offset_bytes, file=file)
        is_last = offset_bytes + ENTRY_BYTES == len(window)
        stored = layout.ROW_COUNT.get(entry.row_count_and_flags)
        if partitions and entry.timestamp <= partitions[-1].timestamp:
            expected = f"more than {partitions[-1].timestamp}, the partition before"
            raise CorruptError(file, "TIMESTAMP of a partition", offset_bytes, expected, entry.timestamp)
        # Any other number with one of the highest bits is no size of a file, and damage.
        is_remote = bool(layout.PARQUET_FORMAT.get(entry.row_count_and_flags)) and not (
            entry.token - layout.REMOTE >> layout.SEQ_TXN_BITS
        )
        partitions.append(
            Partition(
                timestamp=entry.timestamp,
                row_count=record.transient_row_count if is_last else stored,
                name_txn=entry.name_txn,
                token=entry.token - layout.REMOTE if is_remote else entry.token,
                is_remote=is_remote,
                flags=entry.row_count_and_flags & ~layout.ROW_COUNT.mask,
                entry_offset_bytes=offset_bytes,
                row_count_offset_bytes=transient_offset if is_last else offset_bytes + stored_offset,
            )
        )
        if is_in_use:
            check_directory(partitions[-1], record.txn, file=file)
    return tuple(
        replace(partition, next_timestamp=following.timestamp)
        for partition, following in itertools.pairwise(partitions)
    ) + tuple(partitions[-1:])
