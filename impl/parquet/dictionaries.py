"""Bounds of SYMBOL columns, whose dictionary is the table's own and may have texts that no row has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def used_bounds(column: pa.ChunkedArray) -> tuple[bytes | None, bytes | None]:
    """Return the smallest and the largest text that rows have, of a column whose pieces share one dictionary."""
    texts = column.chunk(0).dictionary
    assert pa.types.is_string(texts.type) and texts.null_count == 0, "a dictionary holds text"
    keys = pc.unique(pa.chunked_array([piece.indices for piece in column.chunks])).drop_null()
    used = pc.min_max(texts.take(keys).cast(pa.binary()))
    return used["min"].as_py(), used["max"].as_py()
