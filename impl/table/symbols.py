"""A symbol column's dictionary in key order, from the table's `<column>.o` and `<column>.c`.

The number of symbols is in `_txn`: bytes behind them are unused, or from a commit that was not completed.
Source: docs/format.md, checked on tables of 9.3.4 to 2026-07.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, RowsRejectedError, UnsupportedError
from tornproof.impl.layout import symbol as layout
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.impl.table.column_versions import (
    CV_FILE,
    NO_NAME_TXN,
    read_column_versions,
    suffixed,
)
from tornproof.impl.table.metadata_file import META_FILE, TableColumn, encode_name
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.types.questdb import TypeTag, tag_of

DICTIONARY_FILES = "ockv"
"""Offsets and characters by key, and the index that finds a key by the hash of its characters."""
HEADER_BYTES = layout.SymbolOffsetsHeader.layout.size_bytes
OFFSET_BYTES = layout.SymbolOffset.layout.size_bytes
LENGTH_BYTES = layout.SymbolLength.layout.size_bytes
CODE_UNIT_BYTES = 2
HAS_NULL = b"\x01"


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """The symbols of one column; a symbol's key is its index."""

    symbols: tuple[str, ...]
    _keys: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", {symbol: key for key, symbol in enumerate(self.symbols)})
        assert len(self._keys) == len(self.symbols), "a symbol occurs twice"

    def key_of(self, symbol: str, *, column: str = "symbol", row: int | None = None) -> int:
        """Return the symbol's key; raises RowsRejectedError for a new one, naming the given column and row."""
        key = self._keys.get(symbol)
        if key is None:
            expected = f"one of the {len(self.symbols)} symbols in the table's dictionary"
            raise RowsRejectedError.at(column, row, expected, f"the new symbol {symbol!r}")
        return key

    def new_among(self, symbols: Iterable[str]) -> tuple[str, ...]:
        """Return those that this dictionary does not have, in the order given."""
        return tuple(symbol for symbol in symbols if symbol not in self._keys)

    @property
    def characters_bytes(self) -> int:
        """The size of the symbols in `.c`."""
        return sum(len(encode_name(symbol)) for symbol in self.symbols)


def symbol_columns(table: Table) -> list[TableColumn]:
    """Return the symbol columns in writer order, without dropped ones."""
    columns = () if table.metadata is None else table.metadata.columns
    return sorted((column for column in columns if tag_of(column.type) is TypeTag.SYMBOL), key=lambda column: column.id)


def dictionary_paths(table: Table, transaction: Transaction, column: TableColumn) -> dict[str, str]:
    """Return the paths of a dictionary's files by kind; raises CorruptError, StorageError."""
    versions = read_column_versions(table.storage, f"{table.path}/{CV_FILE}", version=transaction.record.column_version)
    name_txn = versions.dictionary_name_txn(column.id)
    return {kind: f"{table.path}/{suffixed(f'{column.name}.{kind}', name_txn)}" for kind in DICTIONARY_FILES}


def read_offsets_header(storage: ReadableStorage, path: str) -> layout.SymbolOffsetsHeader:
    """Read the settings in a dictionary's `.o`; raises CorruptError, StorageError."""
    file = path.rpartition("/")[2]
    header = layout.SymbolOffsetsHeader.unpack(_read(storage, path, HEADER_BYTES), 0, file=file)
    if header.symbol_capacity <= 0:
        position = layout.SymbolOffsetsHeader.at(file, 0)
        raise position.corrupt("symbol_capacity", "more than 0", header.symbol_capacity)
    return header


def mark_null(storage: Storage, table: Table, transaction: Transaction, column: TableColumn) -> None:
    """Note durably in a column's dictionary that rows hold nulls; raises CorruptError, StorageError.

    A server's queries rely on the note: `LATEST ON` leaves rows without a symbol out if it is missing.
    """
    path = dictionary_paths(table, transaction, column)["o"]
    has_null = read_offsets_header(storage, path).has_null
    with storage.open_for_writing(path) as file:
        if not has_null:
            file.pwrite(HAS_NULL, layout.SymbolOffsetsHeader.layout.offset_of("has_null"))
        # A note that is there already may be that of a killed writer, which had not synced it.
        file.fdatasync()


def counted_symbol_columns(table: Table, transaction: Transaction) -> list[TableColumn]:
    """Return the symbol columns in writer order; raises CorruptError unless the version has a count for each."""
    symbols = symbol_columns(table)
    if len(symbols) != len(transaction.symbol_counts):
        expected = f"{len(symbols)}, the symbol columns in {META_FILE}"
        raise CorruptError(TXN_FILE, "SYMBOL_COLUMN_COUNT", None, expected, len(transaction.symbol_counts))
    return symbols


def read_table_symbols(table: Table, transaction: Transaction) -> Mapping[str, SymbolTable]:
    """Return the dictionaries of the symbol columns by column name, without dropped columns.

    `transaction` is the committed version, with a count for each of them, in writer order. Raises CorruptError,
    UnsupportedError, StorageError.
    """
    symbols = counted_symbol_columns(table, transaction)
    if not symbols:
        return {}
    path, version = f"{table.path}/{CV_FILE}", transaction.record.column_version
    versions = read_column_versions(table.storage, path, version=version)
    return {
        column.name: read_symbols(
            table.storage,
            table.path,
            column.name,
            count=counted.count,
            name_txn=versions.dictionary_name_txn(column.id),
        )
        for column, counted in zip(symbols, transaction.symbol_counts, strict=True)
    }


def read_symbols(
    storage: ReadableStorage, table_path: str, column_name: str, *, count: int, name_txn: int = NO_NAME_TXN
) -> SymbolTable:
    """Read the first `count` symbols of a column, whose files end in `.name_txn` unless that is -1.

    Raises CorruptError, UnsupportedError for more than 2^20 symbols or 64 MiB of them, StorageError.
    """
    if "/" in column_name:
        raise CorruptError(META_FILE, "name of a column", None, "no '/'", repr(column_name))
    offsets_name, characters_name = (suffixed(f"{column_name}.{kind}", name_txn) for kind in "oc")
    field = f"COUNT of symbols of column {column_name!r}"
    if count < 0:
        raise CorruptError(TXN_FILE, field, None, "0 or more", count)
    if count == 0:
        return SymbolTable(())
    offsets_path, characters_path = f"{table_path}/{offsets_name}", f"{table_path}/{characters_name}"
    if count > limits.SYMBOL_COUNT_LIMIT:
        _demand_room(storage, offsets_path, _offsets_bytes(count), count)
        raise UnsupportedError(TXN_FILE, field, None, f"at most {limits.SYMBOL_COUNT_LIMIT}", count)
    offsets = decode_offsets(_read(storage, offsets_path, _offsets_bytes(count)), count, file=offsets_name)
    if offsets[-1] > limits.SYMBOL_CHARACTERS_LIMIT_BYTES:
        _demand_room(storage, characters_path, offsets[-1], count)
        expected, position = f"at most {limits.SYMBOL_CHARACTERS_LIMIT_BYTES}", _offsets_bytes(count) - OFFSET_BYTES
        raise UnsupportedError(offsets_name, f"offset {count}", position, expected, offsets[-1])
    return SymbolTable(decode_symbols(_read(storage, characters_path, offsets[-1]), offsets, file=characters_name))


def decode_offsets(data: bytes, count: int, *, file: str) -> list[int]:
    """Return where each of the first `count` symbols begins in `.c`, and where the last one ends, in bytes.

    Raises CorruptError.
    """
    end_bytes = _offsets_bytes(count)
    if len(data) < end_bytes:
        raise _too_short(file, end_bytes, count, len(data))
    offsets: list[int] = np.frombuffer(data, "<i8", count + 1, HEADER_BYTES).tolist()
    if offsets[0]:
        raise CorruptError(file, "offset 0", HEADER_BYTES, 0, offsets[0])
    for key, (start, end) in enumerate(itertools.pairwise(offsets), 1):
        # An empty symbol consists of its length.
        if end < start + LENGTH_BYTES:
            expected = f"{start + LENGTH_BYTES} or more"
            raise CorruptError(file, f"offset {key}", HEADER_BYTES + key * OFFSET_BYTES, expected, end)
    return offsets


def decode_symbols(data: bytes, offsets: list[int], *, file: str) -> tuple[str, ...]:
    """Return the symbols between the offsets; raises CorruptError for other lengths, bad UTF-16 and repetitions."""
    symbols: dict[str, None] = {}
    for key, (start, end) in enumerate(itertools.pairwise(offsets)):
        length = layout.SymbolLength.unpack(data, start, file=file).code_unit_count
        fitting = (end - start - LENGTH_BYTES) / CODE_UNIT_BYTES
        if length != fitting or end > len(data):
            room = f"{fitting:g}, as the offsets in `.o` say, within {len(data)} bytes"
            raise CorruptError(file, f"length of symbol {key}", start, room, length)
        try:
            symbol = data[start + LENGTH_BYTES : end].decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise CorruptError(
                file, f"symbol {key}", start + LENGTH_BYTES + error.start, "UTF-16", error.reason
            ) from error
        if symbol in symbols:
            raise CorruptError(file, f"symbol {key}", start, "a new symbol", repr(symbol))
        symbols[symbol] = None
    return tuple(symbols)


def _offsets_bytes(count: int) -> int:
    return HEADER_BYTES + (count + 1) * OFFSET_BYTES


def _demand_room(storage: ReadableStorage, path: str, size_bytes: int, count: int) -> None:
    """Raise CorruptError for a shorter file: then a number beyond a limit is a damaged one, and not a large one."""
    with storage.open_for_reading(path) as file:
        found_bytes = file.size_bytes()
    if found_bytes < size_bytes:
        raise _too_short(path.rpartition("/")[2], size_bytes, count, found_bytes)


def _too_short(file: str, size_bytes: int, count: int, found_bytes: int) -> CorruptError:
    return CorruptError(file, "size", None, f"{size_bytes} bytes for {count} symbols", found_bytes)


def _read(storage: ReadableStorage, path: str, size_bytes: int) -> bytes:
    with storage.open_for_reading(path) as file:
        return file.pread(size_bytes, 0)
