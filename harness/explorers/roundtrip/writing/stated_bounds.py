"""The bounds that a file must state of a column's values, by the orders in docs/types.md."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet as pq

from tornproof.harness.explorers.roundtrip.forms import FILE, opened
from tornproof.harness.explorers.roundtrip.writing.offered_values import BOUND_BYTES, Key, plain
from tornproof.impl.parquet.thrift import Items, decode, value_of

MIN_VALUES, MAX_VALUES = 2, 3
"""Fields of Parquet's ColumnIndex."""
COLUMN = 1
"""Behind the time."""


def wrong_bounds(file: pq.ParquetFile, name: str, keys: Sequence[Key | None]) -> Iterator[str]:
    """Yield which row groups state other bounds than those of their values, or none although they are short."""
    first = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        statistics, values = group.column(COLUMN).statistics, keys[first : first + group.num_rows]
        first += group.num_rows
        wanted = _bounds(name, [key for key in values if key is not None and not _is_nan(key)])
        is_stated = statistics is not None and statistics.has_min_max
        if is_stated:
            found = [_raw(name, each) for each in (statistics.min_raw, statistics.max_raw)]
            if wanted is None or found != wanted:
                yield f"of row group {number} the bounds are {found}, and should be {wanted}"
        elif wanted is not None and all(0 < len(each) <= BOUND_BYTES for each in wanted):
            yield f"of row group {number} no bounds are stated, which are {wanted}"


def wrong_page_bounds(content: bytes, name: str, keys: Sequence[Key | None]) -> Iterator[str]:
    """Yield which row groups of one page have an index by which that has other bounds than those of their values."""
    first, footer = 0, opened(content).decoded()
    for number, group in enumerate(footer.row_groups):
        values = keys[first : first + group.num_rows]
        first += group.num_rows
        start = group.chunks[COLUMN].column_index_offset
        wanted = _bounds(name, [key for key in values if key is not None and not _is_nan(key)])
        if start and wanted is not None:
            index, _ = decode(content, file=FILE, start=start)
            lists = (value_of(index, field) for field in (MIN_VALUES, MAX_VALUES))
            found = [bound for each in lists if isinstance(each, Items) for bound in each.elements]
            if found != wanted:
                yield f"by the index of row group {number} the bounds of its page are {found}, and should be {wanted}"


def _bounds(name: str, keys: Sequence[Key]) -> list[bytes] | None:
    """Return the least and the greatest value as they are stored; texts and bytes are compared as bytes."""
    if not keys or "[]" in name:
        return None
    if isinstance(keys[0], (str, bytes)):
        stored = sorted(plain(name, key) for key in keys)
        return [stored[0], stored[-1]]
    low, high = min(keys), max(keys)
    if isinstance(low, float):
        # A zero stands for both.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    return [plain(name, low), plain(name, high)]


def _raw(name: str, bound: Any) -> bytes:
    """Return the bytes of a bound that pyarrow shows as a number; those without sign it shows as ones with it."""
    if isinstance(bound, bytes):
        return bound
    if name in ("CHAR", "IPV4"):
        return struct.pack("<I", bound % (1 << 32))
    return plain(name, bound)


def _is_nan(key: Key) -> bool:
    return isinstance(key, float) and math.isnan(key)
