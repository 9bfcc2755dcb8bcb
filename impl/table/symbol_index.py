"""The index of a SYMBOL column in one partition: which rows have which symbol, from `<column>.k` and `<column>.v`.

Source: QuestDB's public sources, checked on tables of 9.4.2 and 2026-07 (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import index as layout
from tornproof.impl.storage.interface import ReadableStorage

SIGNATURE = 0xFA
NULL_KEY = 0
INDEX_LIMIT_BYTES = 128 << 20
PIECE_ROWS = 1 << 20
HEADER_BYTES = layout.IndexHeader.layout.size_bytes
KEY_BYTES = layout.IndexKey.layout.size_bytes
WORD_BYTES = 8
LINKS_BYTES = 2 * WORD_BYTES

Words: TypeAlias = npt.NDArray[np.int64]


class IndexedRows(msgspec.Struct, frozen=True):
    """Some rows of the index with the key of each: NULL_KEY, or a symbol's key + 1; `offsets` are positions in `.v`."""

    keys: Words
    rows: Words
    offsets: Words


class SymbolIndex(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded index; `file` is the name of `.v`, `keys_file` that of `.k`.

    `blocks` are the key, offset and row count of each block in use, by key and then in the order of its chain.
    """

    keys_file: str
    file: str
    sequence: int
    block_value_count: int
    value_counts: Words
    blocks: tuple[Words, Words, Words]
    words: Words

    @property
    def key_count(self) -> int:
        """The number of keys."""
        return len(self.value_counts)

    def pieces(self) -> Iterator[IndexedRows]:
        """Yield all rows by key, in the order of the index, so many at a time that memory stays bounded."""
        keys, starts, counts = self.blocks
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            # A block may be larger than a piece, but not than the file.
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + PIECE_ROWS)))
            some = slice(first, last)
            total = int(ends[last - 1]) - before
            skips = np.repeat(starts[some] // WORD_BYTES - (ends[some] - counts[some] - before), counts[some])
            words = skips + np.arange(total, dtype=np.int64)
            yield IndexedRows(np.repeat(keys[some], counts[some]), self.words[words], words * WORD_BYTES)
            first = last


def read_symbol_index(storage: ReadableStorage, keys_path: str, values_path: str, *, directory: str) -> SymbolIndex:
    """Read both files; names in errors begin with `directory`, unless that is the table's own, "".

    Raises CorruptError, UnsupportedError for files above 128 MiB, StorageError, FileMissingError.
    """
    keys_file, file = (f"{directory}/{path.rpartition('/')[2]}".lstrip("/") for path in (keys_path, values_path))
    keys = _read(storage, keys_path, keys_file)
    return decode_symbol_index(keys, _read(storage, values_path, file), keys_file=keys_file, file=file)


def decode_symbol_index(keys: bytes, values: bytes, *, keys_file: str, file: str) -> SymbolIndex:
    """Decode an index: all chains of blocks are followed once; raises CorruptError."""
    header = layout.IndexHeader.unpack(keys, 0, file=keys_file)
    _check_header(header, len(keys), len(values), keys_file, file)
    entries = np.frombuffer(keys, layout.IndexKey.layout.dtype, header.key_count, HEADER_BYTES)
    counts = entries["value_count"].astype(np.int64)
    _check_counts(header, counts, entries["count_check"].astype(np.int64), keys_file)
    words = np.frombuffer(values, "<i8", header.value_mem_size // WORD_BYTES)
    chains = _Chains(header, entries, words, keys_file, file)
    return SymbolIndex(
        keys_file=keys_file,
        file=file,
        sequence=header.sequence,
        block_value_count=header.block_value_count,
        value_counts=counts,
        blocks=chains.blocks(),
        words=words,
    )


def key_position(key: int, field: str) -> int:
    """Return the offset in `.k` of a field of a key's entry."""
    return HEADER_BYTES + key * KEY_BYTES + layout.IndexKey.layout.offset_of(field)


def _read(storage: ReadableStorage, path: str, label: str) -> bytes:
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        if size_bytes > INDEX_LIMIT_BYTES:
            raise UnsupportedError(label, "size", None, f"at most {INDEX_LIMIT_BYTES}", size_bytes)
        return handle.pread(size_bytes, 0)


def _check_header(header: layout.IndexHeader, keys_bytes: int, values_bytes: int, keys_file: str, file: str) -> None:
    at = layout.IndexHeader.at(keys_file, 0)
    if header.signature != SIGNATURE:
        raise at.corrupt("signature", SIGNATURE, header.signature)
    if header.sequence_check != header.sequence:
        raise at.corrupt("sequence_check", f"{header.sequence}, the sequence", header.sequence_check)
    room = (keys_bytes - HEADER_BYTES) // KEY_BYTES
    if not 0 <= header.key_count <= room:
        raise at.corrupt("key_count", f"0 to {room}, the keys that fit into the file", header.key_count)
    if header.block_value_count <= 0:
        raise at.corrupt("block_value_count", "1 or more", header.block_value_count)
    if not 0 <= header.value_mem_size <= values_bytes:
        raise at.corrupt("value_mem_size", f"0 to {values_bytes}, the size of {file}", header.value_mem_size)


def _check_counts(header: layout.IndexHeader, counts: Words, checks: Words, keys_file: str) -> None:
    room = header.value_mem_size // WORD_BYTES
    for key in np.flatnonzero((counts < 0) | (counts > room))[:1]:
        at = layout.IndexKey.at(keys_file, HEADER_BYTES + int(key) * KEY_BYTES, f" of key {key}")
        raise at.corrupt("value_count", f"0 to {room}, the rows that fit into the blocks", int(counts[key]))
    for key in np.flatnonzero(counts != checks)[:1]:
        at = layout.IndexKey.at(keys_file, HEADER_BYTES + int(key) * KEY_BYTES, f" of key {key}")
        raise at.corrupt("count_check", f"{counts[key]}, the number of rows", int(checks[key]))
    block_count = int((-(-counts // header.block_value_count)).sum())
    block_bytes = header.block_value_count * WORD_BYTES + LINKS_BYTES
    if block_count * block_bytes > header.value_mem_size:
        at = layout.IndexHeader.at(keys_file, 0)
        raise at.corrupt("value_mem_size", f"room for {block_count} blocks of {block_bytes}", header.value_mem_size)


class _Chains(msgspec.Struct):
    """Follows the chain of each key; that all blocks fit into the file bounds the work."""

    header: layout.IndexHeader
    entries: np.ndarray
    words: Words
    keys_file: str
    file: str

    def blocks(self) -> tuple[Words, Words, Words]:
        """Return key, offset and row count of every block in use."""
        found: list[tuple[int, int, int]] = []
        for key in np.flatnonzero(self.entries["value_count"]).tolist():
            found += self._chain(key)
        keys, starts, counts = zip(*found, strict=True) if found else ((), (), ())
        return np.array(keys, np.int64), np.array(starts, np.int64), np.array(counts, np.int64)

    def _chain(self, key: int) -> Iterator[tuple[int, int, int]]:
        rows_in_block = self.header.block_value_count
        block_bytes = rows_in_block * WORD_BYTES + LINKS_BYTES
        entry = layout.IndexKey.at(self.keys_file, HEADER_BYTES + key * KEY_BYTES, f" of key {key}")
        remaining = int(self.entries["value_count"][key])
        start, before = int(self.entries["first_value_block_offset"][key]), None
        while remaining:
            if not 0 <= start <= self.header.value_mem_size - block_bytes or start % block_bytes:
                expected = f"a multiple of {block_bytes} before {self.header.value_mem_size}"
                if before is None:
                    raise entry.corrupt("first_value_block_offset", expected, start)
                link_offset = before + block_bytes - WORD_BYTES
                raise CorruptError(self.file, f"next block of key {key}", link_offset, expected, start)
            links = (start + block_bytes - LINKS_BYTES) // WORD_BYTES
            if before is not None and int(self.words[links]) != before:
                expected = f"{before}, the block before it"
                raise CorruptError(
                    self.file, f"previous block of key {key}", links * WORD_BYTES, expected, int(self.words[links])
                )
            count = min(remaining, rows_in_block)
            yield key, start, count
            remaining -= count
            start, before = int(self.words[links + 1]), start
        last = int(self.entries["last_value_block_offset"][key])
        if last != before:
            raise entry.corrupt("last_value_block_offset", f"{before}, the end of the chain", last)
