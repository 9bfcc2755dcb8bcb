"""Encoding and decoding of row groups, remembered by content: pure functions, and dear beside a step of a file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.common.patch import replaced
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup
from tornproof.impl.write.partition_change import RowGroupEncoder

Key = TypeVar("Key")
Found = TypeVar("Found")
# A decoded array can hold on to hundreds of kilobytes of pyarrow's buffers.
ENTRY_COUNT_MAX = 1_000
DECODERS = ("tornproof.impl.read.row_group:decode_chunk", "tornproof.impl.parquet.footer:decode")
"""Of column chunks, and of what a commit takes over from the Thrift footer before it."""


def remembered_encoder(encode: RowGroupEncoder | None = None) -> RowGroupEncoder:
    """Return an encoder of row groups with a memory of its own: that one, or our own as it is now."""
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
    """Let decoders remember what they made of the same arguments while the block runs."""
    with ExitStack() as stack:
        for position in DECODERS:
            module, _, name = position.partition(":")
            stack.enter_context(replaced(position, _remembered(getattr(importlib.import_module(module), name))))
        yield


def _remembered(decode: Callable[..., Found]) -> Callable[..., Found]:
    known: dict[Any, Found] = {}

    def remembered(*arguments: Any, **named: Any) -> Found:
        key = arguments, tuple(named.items())
        return look_up(known, key, lambda: decode(*arguments, **named))

    return remembered


def look_up(known: dict[Key, Found], key: Key, make: Callable[[], Found]) -> Found:
    """Return what is known under a key, else what `make` returns, which is known from then on."""
    if key not in known:
        if len(known) >= ENTRY_COUNT_MAX:
            known.clear()
        known[key] = make()
    return known[key]
