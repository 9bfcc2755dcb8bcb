"""What is checked of a partition in QuestDB's native format: sizes of column files, offsets, symbol keys, row times.

Other values are not looked at. A column's rows are in `<column>.d`; rows of different lengths have their positions in
it in `<column>.i`. Rows that are older than the column are in neither (`_cv`). Source: QuestDB's public sources,
checked on tables of 9.3.4 to 2026-07.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tornproof.impl.errors import FileMissingError, Problem, StorageError, counted
from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.column_versions import CV_FILE, ColumnVersions, suffixed
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.partition import COLUMN_FILE_SUFFIX, PartitionFiles
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.verify.indexes import Keys, NotComparedError
from tornproof.impl.verify.transaction_record import PartitionTimes

OFFSET_MASK = (1 << 48) - 1
VARCHAR_INLINED, VARCHAR_NULL, VARCHAR_SIZE_SHIFT_BITS = 1, 4, 4
NULL_SYMBOL = -(1 << 31)
PIECE_BYTES = 4 << 20
CONTENT_LIMIT_BYTES = 64 << 30
WIDTHS_BYTES: Mapping[TypeTag | None, int] = {
    TypeTag.BOOLEAN: 1,
    TypeTag.BYTE: 1,
    TypeTag.SHORT: 2,
    TypeTag.CHAR: 2,
    TypeTag.INT: 4,
    TypeTag.LONG: 8,
    TypeTag.DATE: 8,
    TypeTag.TIMESTAMP: 8,
    TypeTag.FLOAT: 4,
    TypeTag.DOUBLE: 8,
    TypeTag.SYMBOL: 4,
    TypeTag.LONG256: 32,
    TypeTag.GEOBYTE: 1,
    TypeTag.GEOSHORT: 2,
    TypeTag.GEOINT: 4,
    TypeTag.GEOLONG: 8,
    TypeTag.UUID: 16,
    TypeTag.LONG128: 16,
    TypeTag.IPV4: 4,
    TypeTag.DECIMAL8: 1,
    TypeTag.DECIMAL16: 2,
    TypeTag.DECIMAL32: 4,
    TypeTag.DECIMAL64: 8,
    TypeTag.DECIMAL128: 16,
    TypeTag.DECIMAL256: 32,
}
"""Bytes of a row in `<column>.d`; rows of the other types have different lengths."""


Words: TypeAlias = npt.NDArray[np.int64]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The times that a partition's rows may have in the designated timestamp: from `start` on, before `end` if any."""

    timestamp_id: int
    start: int
    end: int | None


class NotLookedAtError(Exception):
    """A column was not looked at; the message completes the sentence "not looked at: "."""


def check_native_columns(
    files: PartitionFiles,
    partition: Partition,
    columns: Iterable[TableColumn],
    versions: ColumnVersions,
    symbols: Mapping[str, SymbolTable] | None,
    *,
    quick: bool,
    interval: Interval | None = None,
) -> Iterator[Problem | str]:
    """Yield what is wrong with a native partition, and as text what was not looked at; `quick` checks only sizes.

    `symbols` is None if a dictionary cannot be read, `interval` if the table has no designated timestamp. Raises
    StorageError.
    """
    try:
        names = frozenset(files.storage.listdir(files.path))
    except StorageError as error:
        if files.storage.kind(files.path) is EntryKind.DIRECTORY:
            raise
        rows = counted(partition.row_count, "row")
        expected = f"a directory, because {TXN_FILE} names it with {rows}"
        yield Problem(
            files.name, "directory", None, expected, "none" if isinstance(error, FileMissingError) else "a file"
        )
        return
    for column in columns:
        top = versions.top(partition.timestamp, column.id, partition.row_count)
        if top == partition.row_count:
            continue
        stored = NativeColumn(
            files=files,
            names=names,
            column=column,
            name_txn=versions.name_txn(partition.timestamp, column.id),
            top=top,
            row_count=partition.row_count - top,
            interval=interval if interval is not None and column.id == interval.timestamp_id else None,
        )
        try:
            yield from stored.check(symbols, quick=quick)
        except NotLookedAtError as error:
            yield f"{files.name}: column {column.name!r} was not looked at: {error}"


def native_keys(
    files: PartitionFiles, partition: Partition, versions: ColumnVersions, column: TableColumn, _: SymbolTable
) -> Keys | Problem:
    """Return the symbol keys of all rows of a native partition that was found sound, -1 for null."""
    top = versions.top(partition.timestamp, column.id, partition.row_count)
    if top == partition.row_count:
        return np.full(top, -1, np.int32)
    name = suffixed(f"{column.name}{COLUMN_FILE_SUFFIX}", versions.name_txn(partition.timestamp, column.id))
    size_bytes = (partition.row_count - top) * WIDTHS_BYTES[TypeTag.SYMBOL]
    try:
        with files.storage.open_for_reading(f"{files.path}/{name}") as handle:
            content = handle.pread(size_bytes, 0)
    except StorageError as error:
        raise NotComparedError(str(error)) from error
    if len(content) < size_bytes:
        raise NotComparedError(f"{name} was cut while it was read")
    keys = np.frombuffer(content, "<i4")
    return np.concatenate([np.full(top, -1, np.int32), np.maximum(keys, -1)])


def native_times(
    files: PartitionFiles, partition: Partition, versions: ColumnVersions, timestamp: TableColumn
) -> PartitionTimes | None:
    """Return the times of a native partition that was found sound, None where not all of its rows have one."""
    if not partition.row_count or versions.top(partition.timestamp, timestamp.id, partition.row_count):
        return None
    name = suffixed(f"{timestamp.name}{COLUMN_FILE_SUFFIX}", versions.name_txn(partition.timestamp, timestamp.id))
    width = WIDTHS_BYTES[TypeTag.TIMESTAMP]
    try:
        with files.storage.open_for_reading(f"{files.path}/{name}") as handle:
            ends = [handle.pread(width, row * width) for row in (0, partition.row_count - 1)]
    except FileMissingError:
        return None
    if any(len(each) < width for each in ends):
        return None
    first, last = (int.from_bytes(each, "little", signed=True) for each in ends)
    return PartitionTimes(name=files.name, first=first, last=last)


class NativeColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column in a native partition with the files `names`; the first `top` rows are older and not stored."""

    files: PartitionFiles
    names: frozenset[str]
    column: TableColumn
    name_txn: int
    top: int
    row_count: int
    interval: Interval | None = None

    def check(self, symbols: Mapping[str, SymbolTable] | None, *, quick: bool) -> Iterator[Problem]:
        """Yield what is wrong with its files; raises NotLookedAtError, StorageError."""
        tag = tag_of(self.column.type)
        if "/" in self.column.name or (tag not in WIDTHS_BYTES and tag not in POSITIONS):
            raise NotLookedAtError("the files of such a column are not known")
        if tag in WIDTHS_BYTES:
            rows = self._sized("d", self.row_count * WIDTHS_BYTES[tag])
            if isinstance(rows, Problem):
                yield rows
            elif tag is TypeTag.SYMBOL and symbols is not None and not quick:
                yield from self._check_keys(len(symbols[self.column.name].symbols))
            elif tag is TypeTag.TIMESTAMP and self.interval is not None and not quick:
                yield from self._check_times(self.interval)
            return
        positions = POSITIONS[tag]
        found = [self._sized("d", 0), self._sized("i", positions.size_bytes(self.row_count))]
        problems = [each for each in found if isinstance(each, Problem)]
        yield from problems
        if not problems and not quick:
            assert isinstance(found[0], int)
            yield from self._check_positions(positions, found[0])

    def _sized(self, kind: str, least_bytes: int) -> int | Problem:
        """Return the size of a file, or what is wrong with it."""
        name = self._name(kind)
        if name not in self.names:
            # Files of other versions are what an UPDATE leaves until it is purged, with the values before: no server
            # reads them.
            others = sorted(each for each in self.names if each.startswith(f"{self.column.name}.{kind}"))
            expected = f"the file that column {self.column.name!r} has by {CV_FILE}"
            return Problem(self._label(kind), "file", None, expected, ", ".join(others) or "none")
        try:
            with self.files.storage.open_for_reading(f"{self.files.path}/{name}") as handle:
                size_bytes = handle.size_bytes()
        except StorageError as error:
            if self.files.storage.kind(f"{self.files.path}/{name}") is EntryKind.FILE:
                raise
            return Problem(self._label(kind), "file", None, "a regular file", error.reason)
        if size_bytes < least_bytes:
            expected = f"{least_bytes} bytes or more, for {counted(self.row_count, 'row')}"
            return Problem(self._label(kind), "size", None, expected, f"{size_bytes} bytes")
        return size_bytes

    def _check_keys(self, symbol_count: int) -> Iterator[Problem]:
        for start, piece in self._pieces("d", self.row_count * WIDTHS_BYTES[TypeTag.SYMBOL]):
            keys = np.frombuffer(piece, "<i4")
            for index in np.flatnonzero((keys != NULL_SYMBOL) & ((keys < 0) | (keys >= symbol_count)))[:1].tolist():
                offset_bytes = start + index * keys.itemsize
                row = self.top + offset_bytes // keys.itemsize
                expected = f"null or a key below {symbol_count}, the table's symbols"
                yield Problem(self._label("d"), f"key of row {row}", offset_bytes, expected, str(keys[index]))
                return

    def _check_times(self, interval: Interval) -> Iterator[Problem]:
        """Yield the first time that is before the row above it, or outside of the partition's interval."""
        before, until = interval.start, "" if interval.end is None else f", before {interval.end}"
        for start, piece in self._pieces("d", self.row_count * WIDTHS_BYTES[TypeTag.TIMESTAMP]):
            times = np.frombuffer(piece, "<i8")
            least = np.concatenate(([before], times[:-1]))
            is_wrong = times < least if interval.end is None else (times < least) | (times >= interval.end)
            for index in np.flatnonzero(is_wrong)[:1].tolist():
                offset_bytes = start + index * times.itemsize
                field = f"time of row {self.top + offset_bytes // times.itemsize}"
                expected = f"{least[index]} or later{until}"
                yield Problem(self._label("d"), field, offset_bytes, expected, str(times[index]))
                return
            before = int(times[-1])

    def _check_positions(self, positions: Positions, data_bytes: int) -> Iterator[Problem]:
        before = 0
        for start, piece in self._pieces("i", positions.size_bytes(self.row_count)):
            starts, ends = positions.decode(piece, before)
            for index in np.flatnonzero((ends < starts) | (ends > data_bytes))[:1].tolist():
                offset_bytes = start + index * positions.width_bytes
                row = self.top + offset_bytes // positions.width_bytes
                expected = f"{starts[index]} to {data_bytes}, the size of {self._label('d')}"
                yield Problem(self._label("i"), f"position of row {row}", offset_bytes, expected, str(ends[index]))
                return
            before = int(ends[-1])

    def _pieces(self, kind: str, size_bytes: int) -> Iterator[tuple[int, bytes]]:
        if size_bytes > CONTENT_LIMIT_BYTES:
            raise NotLookedAtError(f"{self._name(kind)} has more than {CONTENT_LIMIT_BYTES} bytes")
        with self.files.storage.open_for_reading(f"{self.files.path}/{self._name(kind)}") as handle:
            for start in range(0, size_bytes, PIECE_BYTES):
                length_bytes = min(PIECE_BYTES, size_bytes - start)
                piece = handle.pread(length_bytes, start)
                if len(piece) < length_bytes:
                    raise NotLookedAtError(f"{self._name(kind)} was cut while it was read")
                yield start, piece

    def _name(self, kind: str) -> str:
        return suffixed(f"{self.column.name}.{kind}", self.name_txn)

    def _label(self, kind: str) -> str:
        return f"{self.files.name}/{self._name(kind)}"


class Positions(msgspec.Struct, frozen=True, kw_only=True):
    """How `<column>.i` says where rows are in `<column>.d`; `decode` returns starts and ends, given the end before."""

    width_bytes: int
    has_end: bool
    decode: Callable[[bytes, int], tuple[Words, Words]]

    def size_bytes(self, row_count: int) -> int:
        """Return the bytes for so many rows."""
        return (row_count + self.has_end) * self.width_bytes


def _offsets(piece: bytes, before: int) -> tuple[Words, Words]:
    """STRING and BINARY: where each row begins, and where the last one ends."""
    ends = np.frombuffer(piece, "<i8")
    return np.concatenate(([before], ends[:-1])), ends


def _varchar_positions(piece: bytes, _: int) -> tuple[Words, Words]:
    """Flags and size, then a prefix, then the start in 48 bits; short texts and nulls are not in `.d`."""
    words = np.frombuffer(piece, "<u4").reshape(-1, 4).astype(np.int64)
    is_stored = words[:, 0] & (VARCHAR_INLINED | VARCHAR_NULL) == 0
    starts = np.where(is_stored, words[:, 3] << 16 | words[:, 2] >> 16, 0)
    return starts, starts + np.where(is_stored, words[:, 0] >> VARCHAR_SIZE_SHIFT_BITS, 0)


def _array_positions(piece: bytes, _: int) -> tuple[Words, Words]:
    """The start in 48 bits, and the size; a null has none."""
    words = np.frombuffer(piece, "<i8").reshape(-1, 2)
    sizes = words[:, 1].astype(np.int32).astype(np.int64)
    starts = np.where(sizes, words[:, 0] & OFFSET_MASK, 0)
    return starts, starts + sizes


_LISTED = Positions(width_bytes=8, has_end=True, decode=_offsets)
POSITIONS: Mapping[TypeTag | None, Positions] = {
    TypeTag.STRING: _LISTED,
    TypeTag.BINARY: _LISTED,
    TypeTag.VARCHAR: Positions(width_bytes=16, has_end=False, decode=_varchar_positions),
    TypeTag.ARRAY: Positions(width_bytes=16, has_end=False, decode=_array_positions),
}
"""How the types whose rows have different lengths say where these are."""
