"""The symbols that a commit adds to dictionaries: what is written before the version that counts them.

Everything is appended behind what a committed version counts, except the keys of the hash index: its `.k` is replaced
as a whole, by its name, so that it fits `.v` at every moment. What a killed commit has left is overwritten; only its
entries in `.k` are taken out first, because they would lead into the blocks of others (docs/writing.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl import limits
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout import index as layout
from tornproof.impl.layout.txn import SymbolCount
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.metadata_file import TableColumn, encode_name
from tornproof.impl.table.symbol_hash import buckets_of, positions_of
from tornproof.impl.table.symbol_index import (
    KEY_BYTES,
    LINKS_BYTES,
    SIGNATURE,
    WORD_BYTES,
    SymbolIndex,
    Words,
    read_symbol_index,
)
from tornproof.impl.table.symbols import (
    SymbolTable,
    counted_symbol_columns,
    dictionary_paths,
    read_offsets_header,
    read_table_symbols,
)
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Transaction


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one file, behind those that count or in a link that nobody follows yet."""

    path: str
    offset_bytes: int
    content: bytes


class DictionaryWrite(msgspec.Struct, frozen=True, kw_only=True):
    """All bytes that a commit writes into one dictionary: parts of three files, and the whole `.k`."""

    parts: tuple[Part, ...]
    index_path: str
    index: bytes

    @property
    def unnamed_index_path(self) -> str:
        """Where `.k` is written until it replaces the one before; what a killed commit left there is removed."""
        return f"{self.index_path}.new"


class Dictionaries:
    """The dictionaries of a table's symbol columns, with the symbols of the next commit; files are read when needed."""

    def __init__(self, table: Table, transaction: Transaction) -> None:
        """Begin with those of a committed version; raises CorruptError if it counts other symbol columns."""
        self._table, self._transaction = table, transaction
        self._columns = counted_symbol_columns(table, transaction)
        self._committed: dict[str, SymbolTable] | None = None
        self._extended: dict[str, SymbolTable] = {}

    def extend(self, rows: Sequence[pa.Table]) -> None:
        """Add the symbols of staged rows, in the order in which they occur, instead of those of an earlier call.

        Raises RowsRejectedError for more than readers accept, and what reading dictionaries raises.
        """
        self._extended = {}
        for column in self._columns if rows else ():
            before = self._before(column.name)
            staged = pc.unique(pa.chunked_array(chunk for table in rows for chunk in table[column.name].chunks))
            if new := before.new_among(staged.drop_null().to_pylist()):
                after = SymbolTable(before.symbols + new)
                _check_limits(column.name, after)
                self._extended[column.name] = after

    def of(self, name: str) -> SymbolTable:
        """Return the symbols of a column as the next commit leaves them."""
        return self._extended.get(name) or self._before(name)

    def all(self) -> dict[str, SymbolTable]:
        """Return the symbols of all columns as the next commit leaves them."""
        return {column.name: self.of(column.name) for column in self._columns}

    def counts(self) -> tuple[SymbolCount, ...]:
        """Return how many symbols each column has after the next commit."""
        counts = zip(self._columns, self._transaction.symbol_counts, strict=True)
        return tuple(self._count(column.name, counted) for column, counted in counts)

    def writes(self) -> list[DictionaryWrite]:
        """Return what the next commit has to write first; raises CorruptError, UnsupportedError, StorageError."""
        extended = [column for column in self._columns if column.name in self._extended]
        return [write for column in extended for write in self._writes(column)]

    def commit(self, transaction: Transaction) -> None:
        """Go on from what is committed now."""
        self._transaction = transaction
        if self._committed is not None:
            self._committed |= self._extended
        self._extended = {}

    def _before(self, name: str) -> SymbolTable:
        if self._committed is None:
            self._committed = dict(read_table_symbols(self._table, self._transaction))
        return self._committed[name]

    def _count(self, name: str, before: SymbolCount) -> SymbolCount:
        extended = self._extended.get(name)
        if extended is None:
            return before
        return SymbolCount(count=len(extended.symbols), transient_count=len(extended.symbols))

    def _writes(self, column: TableColumn) -> list[DictionaryWrite]:
        before, after = self._before(column.name).symbols, self._extended[column.name].symbols
        paths = dictionary_paths(self._table, self._transaction, column)
        return dictionary_writes(self._table.storage, paths, before, after[len(before) :])


def dictionary_writes(
    storage: ReadableStorage, paths: dict[str, str], before: Sequence[str], new: Sequence[str]
) -> list[DictionaryWrite]:
    """Return the write that adds symbols, and before it, if a killed commit has added some, one that removes these."""
    capacity = read_offsets_header(storage, paths["o"]).symbol_capacity
    found = read_symbol_index(storage, paths["k"], paths["v"], directory="")
    positions = positions_of(0, len(before) + len(new) + 1)
    index = HashIndex(found, end=int(positions[len(before)]))
    cleared = [DictionaryWrite(parts=(), index_path=paths["k"], index=index.encode())] if index.was_longer else []
    for bucket, position in zip(buckets_of(new, capacity).tolist(), positions[len(before) :].tolist(), strict=False):
        index.add(bucket, position)
    encoded = [encode_name(symbol) for symbol in new]
    start = sum(len(encode_name(symbol)) for symbol in before)
    ends = np.array(list(accumulate(map(len, encoded), initial=start)), "<i8")
    extended = DictionaryWrite(
        parts=(
            Part(path=paths["c"], offset_bytes=start, content=b"".join(encoded)),
            Part(path=paths["o"], offset_bytes=int(positions[len(before)]), content=ends.tobytes()),
            *index.parts(paths["v"]),
        ),
        index_path=paths["k"],
        index=index.encode(),
    )
    return [*cleared, extended]


class HashIndex:
    """The hash index of a dictionary, to which positions in `.o` are added as a server does.

    The next block of a chain is stored only in its last one, so that blocks in use change in no other word.
    """

    def __init__(self, found: SymbolIndex, *, end: int) -> None:
        """Begin with the positions before `end`; `was_longer` says that there are others."""
        self._sequence = found.sequence
        self._block_count = found.block_value_count
        self._counts, self._first, self._last = (list(map(int, column)) for column in _chains(found, end))
        self.was_longer = sum(self._counts) < int(found.value_counts.sum())
        self._old_end = self._end = len(found.words) * WORD_BYTES
        self._last_position = end - WORD_BYTES
        self._words: dict[int, int] = {}

    def add(self, bucket: int, position: int) -> None:
        """Add a position, larger than all others, to a bucket."""
        missing = bucket + 1 - len(self._counts)
        for column in (self._counts, self._first, self._last):
            column.extend([0] * missing)
        count, block = self._counts[bucket], self._last[bucket]
        if count % self._block_count == 0:
            before, block, self._end = block, self._end, self._end + self._links_bytes + LINKS_BYTES
            if count:
                self._words[before + self._links_bytes + WORD_BYTES] = block
                self._words[block + self._links_bytes] = before
            else:
                self._first[bucket] = block
            self._last[bucket] = block
        self._words[block + count % self._block_count * WORD_BYTES] = position
        self._counts[bucket] = count + 1
        self._last_position = position

    def parts(self, path: str) -> list[Part]:
        """Return what has changed in `.v`: single words of old blocks, and all new blocks."""
        blocks = np.zeros((self._end - self._old_end) // WORD_BYTES, "<i8")
        parts = []
        for offset_bytes, word in self._words.items():
            if offset_bytes < self._old_end:
                content = word.to_bytes(WORD_BYTES, "little")
                parts.append(Part(path=path, offset_bytes=offset_bytes, content=content))
            else:
                blocks[(offset_bytes - self._old_end) // WORD_BYTES] = word
        return [*parts, Part(path=path, offset_bytes=self._old_end, content=blocks.tobytes())]

    def encode(self) -> bytes:
        """Return `.k` as it is to be written next."""
        self._sequence += 1
        header = layout.IndexHeader(
            signature=SIGNATURE,
            sequence=self._sequence,
            value_mem_size=self._end,
            block_value_count=self._block_count,
            key_count=len(self._counts),
            unused=bytes(layout.IndexHeader.layout.field("unused").wire.size_bytes),
            sequence_check=self._sequence,
            max_value=self._last_position,
            unused_end=bytes(layout.IndexHeader.layout.field("unused_end").wire.size_bytes),
        )
        entries = np.zeros(len(self._counts), layout.IndexKey.layout.dtype)
        entries["value_count"] = entries["count_check"] = self._counts
        entries["first_value_block_offset"], entries["last_value_block_offset"] = self._first, self._last
        assert entries.itemsize == KEY_BYTES
        return header.pack() + entries.tobytes()

    @property
    def _links_bytes(self) -> int:
        """The offset in a block of those of the blocks before and after it."""
        return self._block_count * WORD_BYTES


def _chains(found: SymbolIndex, end: int) -> tuple[Words, Words, Words]:
    """Return for each key the number of its positions before `end`, and the offsets of its first and last block."""
    counts = np.zeros(found.key_count, np.int64)
    for piece in found.pieces():
        counts += np.bincount(piece.keys[piece.rows < end], minlength=found.key_count)
    keys, starts, _ = found.blocks
    used = counts > 0
    first_places = np.searchsorted(keys, np.flatnonzero(used))
    first, last = np.zeros_like(counts), np.zeros_like(counts)
    first[used] = starts[first_places]
    last[used] = starts[first_places + (counts[used] - 1) // found.block_value_count]
    return counts, first, last


def _check_limits(name: str, symbols: SymbolTable) -> None:
    for what, actual, allowed in (
        ("symbols", len(symbols.symbols), limits.SYMBOL_COUNT_LIMIT),
        ("bytes of symbols", symbols.characters_bytes, limits.SYMBOL_CHARACTERS_LIMIT_BYTES),
    ):
        if actual > allowed:
            raise RowsRejectedError.at(name, None, f"at most {allowed:,} {what} in its dictionary", f"{actual:,}")
