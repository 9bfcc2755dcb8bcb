"""Comparison of a SYMBOL column's index with the rows of its partition: a lookup must find each row, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.impl.errors import FileMissingError, Problem, ProblemError, UnsupportedError
from tornproof.impl.layout import index as layout
from tornproof.impl.read.decoding import Decoding
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.table.column_versions import CV_FILE, ColumnVersions, suffixed
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.metadata_file import META_FILE, TableColumn
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition
from tornproof.impl.table.symbol_index import (
    INDEX_LIMIT_BYTES,
    NULL_KEY,
    WORD_BYTES,
    SymbolIndex,
    key_position,
    read_symbol_index,
)
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.table_files import TableFiles

ROW_LIMIT = INDEX_LIMIT_BYTES // WORD_BYTES
OLDER_ROW = -1
"""The key of a null in a row that is older than its column, which an index may leave out."""

Keys: TypeAlias = npt.NDArray[np.int32]
KeysOf: TypeAlias = Callable[[TableColumn, SymbolTable], Keys | Problem]


class NotComparedError(Exception):
    """The index and the rows were not compared; the message completes the sentence "not compared: "."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What comparing the indexes of one partition found; `notes` say what was not compared."""

    compared: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class Indexes(msgspec.Struct, frozen=True, kw_only=True):
    """The indexed columns of a table, with what their indexes depend on; None where that cannot be read."""

    columns: tuple[TableColumn, ...]
    versions: ColumnVersions | None = None
    symbols: Mapping[str, SymbolTable] | None = None

    @classmethod
    def of(cls, beside: TableFiles) -> Self:
        """Return the indexes of a table."""
        columns = tuple(column for column in beside.columns if column.is_indexed)
        return cls(columns=columns, versions=beside.versions, symbols=beside.symbols)

    def compare(self, files: PartitionFiles, partition: Partition, keys_of: KeysOf) -> Comparison:
        """Compare the indexes of one partition; `keys_of` returns the symbol keys of a column's rows."""
        problems, notes, compared = [], [], 0
        for column in self.columns:
            try:
                problem = self._compare(files, partition, column, keys_of)
            except NotComparedError as error:
                notes.append(f"{files.name}: the index of column {column.name!r} was not compared: {error}")
            else:
                compared += 1
                problems += [] if problem is None else [problem]
        return Comparison(compared=compared, problems=tuple(problems), notes=tuple(notes))

    def _compare(
        self, files: PartitionFiles, partition: Partition, column: TableColumn, keys_of: KeysOf
    ) -> Problem | None:
        if self.versions is None or self.symbols is None:
            raise NotComparedError(f"{CV_FILE} or a dictionary cannot be read")
        if partition.row_count > ROW_LIMIT:
            raise NotComparedError(f"the partition has more than {ROW_LIMIT} rows")
        symbols = self.symbols[column.name]
        keys = keys_of(column, symbols)
        if isinstance(keys, Problem):
            return keys
        own = PartitionIndex(
            files=files, column=column, versions=self.versions, timestamp=partition.timestamp, symbols=symbols
        )
        return own.compare(keys)


class PartitionIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The index of one column in one partition."""

    files: PartitionFiles
    column: TableColumn
    versions: ColumnVersions
    timestamp: int
    symbols: SymbolTable

    def compare(self, keys: Keys) -> Problem | None:
        """Return where the index differs from the rows' keys, each a symbol's key or -1 for null, or None.

        Raises NotComparedError, StorageError.
        """
        top = self.versions.top(self.timestamp, self.column.id, len(keys))
        if top == len(keys):
            return None
        expected = keys + 1
        expected[:top][keys[:top] < 0] = OLDER_ROW
        try:
            return _difference(self._read(), expected, self.symbols)
        except FileMissingError as error:
            return self._missing(keys, error)
        except ProblemError as error:
            return _problem_or_not_compared(error)

    def _read(self) -> SymbolIndex:
        name_txn = self.versions.name_txn(self.timestamp, self.column.id)
        paths = [f"{self.files.path}/{suffixed(f'{self.column.name}.{kind}', name_txn)}" for kind in "kv"]
        return read_symbol_index(self.files.storage, *paths, directory=self.files.name)

    def _missing(self, keys: Keys, error: FileMissingError) -> Problem | None:
        if (keys < 0).all():
            return None
        name = self.column.name
        prefixes = tuple(f"{name}.{kind}" for kind in ("k", "v", "pk", "pv"))
        others = [each for each in self.files.storage.listdir(self.files.path) if each.startswith(prefixes)]
        if len(others) > 1:
            raise NotComparedError(f"its files are {', '.join(others)}") from error
        file = f"{self.files.name}/{error.file.rpartition('/')[2]}"
        return Problem(file, "file", None, f"the index that column {name!r} has by {META_FILE}", "none")


def parquet_keys(
    resolved: ResolvedPartition, decoding: Decoding, column: TableColumn, symbols: SymbolTable
) -> Keys | Problem:
    """Return the symbol keys of all rows, -1 for null, or what is wrong with a symbol.

    Raises NotComparedError for a partition that cannot be read, StorageError.
    """
    # Imported here because it takes longer than verifying a small table, and few tables have an index.
    import pyarrow.compute as pc

    wanted = SnapshotColumn.of_table(column)
    dictionary, parts, row_count = pa.array(symbols.symbols, pa.string()), [], 0
    try:
        for values in _values(resolved, wanted, decoding):
            keys = pc.index_in(values, value_set=dictionary)
            if keys.null_count > values.null_count:
                row = pc.index(pc.and_(keys.is_null(), values.is_valid()), True).as_py()
                expected = f"one of the table's {len(dictionary)} symbols"
                field = f"column {column.name!r}, row {row_count + row}"
                return Problem(resolved.files.data_label, field, None, expected, repr(values[row].as_py()))
            parts.append(keys.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32))
            row_count += len(keys)
    except ProblemError as error:
        raise NotComparedError(f"its rows cannot be read: {error}") from error
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _values(resolved: ResolvedPartition, wanted: SnapshotColumn, decoding: Decoding) -> Iterator[pa.Array]:
    with resolved.files.open_data() as handle:
        for block in resolved.metadata.blocks:
            for (values,) in row_group_columns(resolved, block, handle, [wanted], decoding):
                yield values


def _problem_or_not_compared(error: ProblemError) -> Problem:
    if isinstance(error, UnsupportedError):
        raise NotComparedError(str(error)) from error
    return error.problem


def _difference(index: SymbolIndex, expected: Keys, symbols: SymbolTable) -> Problem | None:
    """Return where the index differs; rows behind the last one are those of a commit that was not completed."""
    found = np.zeros(max(index.key_count, int(expected.max(initial=0)) + 1), np.int64)
    last_key, last_row = -1, -1
    for piece in index.pieces():
        before = np.concatenate(([last_row if piece.keys[0] == last_key else -1], piece.rows[:-1]))
        before[1:][piece.keys[1:] != piece.keys[:-1]] = -1
        for position in np.flatnonzero(piece.rows <= before)[:1]:
            wanted = f"more than {before[position]}, the row before it"
            return _wrong_row(index, piece.keys[position], piece.offsets[position], wanted, piece.rows[position])
        inside = piece.rows < len(expected)
        keys, rows, offsets = piece.keys[inside], piece.rows[inside], piece.offsets[inside]
        is_older = (expected[rows] == OLDER_ROW) & (keys == NULL_KEY)
        for position in np.flatnonzero((expected[rows] != keys) & ~is_older)[:1]:
            wanted = f"a row with {_named(int(keys[position]), symbols)}"
            has = _named(max(NULL_KEY, int(expected[rows[position]])), symbols)
            return _wrong_row(index, keys[position], offsets[position], wanted, f"{rows[position]}, which has {has}")
        found += np.bincount(keys[~is_older], minlength=len(found))
        last_key, last_row = int(piece.keys[-1]), int(piece.rows[-1])
    wanted_counts = np.bincount(expected[expected >= 0], minlength=len(found))
    for key in np.flatnonzero(found != wanted_counts).tolist()[:1]:
        if key >= index.key_count:
            offset_bytes = layout.IndexHeader.layout.offset_of("key_count")
            text = f"more than {key}, because of rows with {_named(key, symbols)}"
            return Problem(index.keys_file, "KEY_COUNT", offset_bytes, text, str(index.key_count))
        text = f"{wanted_counts[key]}, the rows with {_named(key, symbols)}"
        offset_bytes = key_position(key, "value_count")
        return Problem(index.keys_file, f"VALUE_COUNT of key {key}", offset_bytes, text, str(found[key]))
    return None


def _wrong_row(index: SymbolIndex, key: int, offset_bytes: int, expected: str, actual: object) -> Problem:
    return Problem(index.file, f"row of key {key}", int(offset_bytes), expected, str(actual))


def _named(key: int, symbols: SymbolTable) -> str:
    if key == NULL_KEY:
        return "null"
    return f"symbol {symbols.symbols[key - 1]!r}" if key <= len(symbols.symbols) else f"the unknown key {key - 1}"
