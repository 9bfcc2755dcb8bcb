"""Encoding and decoding of row groups, cached by content: pure functions that take far longer than a step on a file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.common.patch import wrapped
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup
from tornproof.impl.chunk.together import Piece
from tornproof.impl.write.partition_change import RowGroupEncoder

Key = TypeVar("Key")
Found = TypeVar("Found")
ENTRY_COUNT_MAX = 1_000
DECODERS = {
    "tornproof.impl.table.partition:decode_metadata": 64,
    "tornproof.impl.read.row_group:decode_chunk": 32_000,
    "tornproof.impl.parquet.footer:decode": ENTRY_COUNT_MAX,
}
"""The decoders of `_pm`, of column chunks, and of the previous Thrift footer, from which a commit takes parts.

Each with the number of entries; that of a `_pm` of hundreds of columns takes megabytes. A cache that is emptied before
every chunk of a few versions has come by is of no use, so there is room for those of hundreds of columns.
"""
TOGETHER = "tornproof.impl.read.row_group:decode_together"
CHUNK_COUNT_MAX = DECODERS["tornproof.impl.read.row_group:decode_chunk"]
_ABSENT = object()
HELD_BYTES_MAX = 1 << 26
"""What the entries of one decoder hold of encoded bytes and of Arrow's memory, which is more than an array's bytes."""


def remembered_encoder(encode: RowGroupEncoder | None = None) -> RowGroupEncoder:
    """Return an encoder of row groups with its own cache: `encode`, or the implementation's as it is now."""
    encode = encode or importlib.import_module("tornproof.impl.chunk.row_group_encoder").encode_row_group
    known: dict[Any, EncodedRowGroup] = {}

    def remembered(stored: pa.Table, *, bounds: Any, **settings: Any) -> EncodedRowGroup:
        if settings:
            return encode(stored, bounds=bounds, **settings)
        key = (arrow_bytes(stored), tuple(sorted(bounds.items())))
        found: EncodedRowGroup = look_up(known, key, lambda: encode(stored, bounds=bounds))
        return found

    return remembered


@contextmanager
def remembered_decoding() -> Iterator[None]:
    """Let decoders cache their results while the block runs."""
    with ExitStack() as stack:
        for location, count_max in DECODERS.items():
            stack.enter_context(wrapped(location, partial(_remembered, count_max=count_max)))
        stack.enter_context(wrapped(TOGETHER, _remembered_each))
        yield


class _Known:
    """What a decoder has returned, by its arguments; all of it is forgotten where it becomes too much."""

    def __init__(self, count_max: int) -> None:
        self.found: dict[Any, Any] = {}
        self._count_max = count_max
        self._held_bytes = 0

    def add(self, keys: Sequence[Any], decode: Callable[[], Sequence[Any]], content_bytes: int) -> Sequence[Any]:
        """Decode what was not known, and return it: another thread may forget it at once."""
        before = pa.total_allocated_bytes()
        found = decode()
        new_bytes = max(0, pa.total_allocated_bytes() - before) + content_bytes
        if len(self.found) + len(keys) > self._count_max or self._held_bytes + new_bytes > HELD_BYTES_MAX:
            self.found.clear()
            self._held_bytes = 0
        self._held_bytes += new_bytes
        self.found.update(zip(keys, found, strict=True))
        return found


def _remembered(decode: Callable[..., Found], *, count_max: int) -> Callable[..., Found]:
    known = _Known(count_max)

    def remembered(*arguments: Any, **named: Any) -> Found:
        key = arguments, tuple(named.items())
        found: Found | None = known.found.get(key)
        if found is None:
            (found,) = known.add([key], lambda: [decode(*arguments, **named)], sum(map(_content_bytes, arguments)))
        return found

    return remembered


def _remembered_each(decode: Callable[..., list[pa.Array | None]]) -> Callable[..., list[pa.Array | None]]:
    """Cache chunks one by one that are decoded together: of a row group only some differ from one state to another.

    Those that are new are decoded together, as without a cache.
    """
    known = _Known(CHUNK_COUNT_MAX)

    def remembered(pieces: Sequence[Piece], *, file: str) -> list[pa.Array | None]:
        arrays = {piece: known.found.get((piece, file), _ABSENT) for piece in pieces}
        new = [piece for piece, found in arrays.items() if found is _ABSENT]
        if new:
            keys = [(piece, file) for piece in new]
            found = known.add(keys, lambda: decode(new, file=file), sum(len(piece.content) for piece in new))
            arrays |= zip(new, found, strict=True)
        return [arrays[piece] for piece in pieces]

    return remembered


def _content_bytes(argument: object) -> int:
    return len(argument) if isinstance(argument, bytes) else 0


def look_up(known: dict[Key, Found], key: Key, make: Callable[[], Found]) -> Found:
    """Return the cached value of a key, else the result of `make`, which is cached."""
    if key not in known:
        if len(known) >= ENTRY_COUNT_MAX:
            known.clear()
        known[key] = make()
    return known[key]
