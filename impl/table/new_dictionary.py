"""The files of a SYMBOL column's dictionary without symbols, as a server makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornproof.impl.layout.index import IndexHeader
from tornproof.impl.layout.record import Layout
from tornproof.impl.layout.symbol import SymbolOffsetsHeader
from tornproof.impl.table.metadata_file import FILE_STEP_BYTES
from tornproof.impl.table.symbol_hash import BLOCK_POSITION_COUNT
from tornproof.impl.table.symbol_index import SIGNATURE

FIRST_SEQUENCE = 1


def new_dictionary(symbol_capacity: int) -> Mapping[str, bytes]:
    """Return the files by kind; a server maps the first offset in `.o` even if there is no symbol."""
    offsets = SymbolOffsetsHeader(**_empty(SymbolOffsetsHeader.layout, symbol_capacity=symbol_capacity, is_cached=1))
    index = IndexHeader(
        **_empty(
            IndexHeader.layout,
            signature=SIGNATURE,
            sequence=FIRST_SEQUENCE,
            sequence_check=FIRST_SEQUENCE,
            block_value_count=BLOCK_POSITION_COUNT,
        )
    )
    files = {"o": offsets.pack(), "c": b"", "k": index.pack(), "v": b""}
    return {kind: content and content.ljust(FILE_STEP_BYTES, b"\0") for kind, content in files.items()}


def _empty(layout: Layout, **values: int) -> dict[str, Any]:
    """Return the fields of a record, zero but for those given."""
    zeros = {spec.name: bytes(spec.wire.size_bytes) if spec.wire.name == "bytes" else 0 for spec in layout.fields}
    return {**zeros, **values}
