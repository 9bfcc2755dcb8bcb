"""The rows of a row group that a predicate is true of: its columns are decoded first, others only if a row matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from tornproof.impl.query.predicate import Predicate, columns_of, matching
from tornproof.impl.table.columns import SnapshotColumn

Arrays: TypeAlias = list[pa.Array]
ReadColumns: TypeAlias = Callable[[Sequence[SnapshotColumn]], Iterator[Arrays]]
"""Decodes columns of the row group: their arrays with all rows, in one part or in several."""


def selected_rows(read: ReadColumns, columns: Sequence[SnapshotColumn], predicate: Predicate) -> Iterator[Arrays]:
    """Yield arrays in the order of `columns` with the rows that the predicate is true of, and no empty ones.

    Several parts are as large as they are allowed to be, so they are not kept for a second use but decoded again.
    """
    asked = columns_of(predicate)
    kept: Arrays = []
    masks = []
    for arrays in read(asked):
        masks.append(matching(predicate, _by_id(asked, arrays)))
        kept = arrays if len(masks) == 1 else []
    mask = pa.chunked_array(masks, pa.bool_()).combine_chunks()
    if not mask.true_count:
        return
    known = _by_id(asked, kept)
    rest = list({column.id: column for column in columns if column.id not in known}.values())
    start = 0
    for arrays in read(rest) if rest else [[]]:
        count = len(arrays[0]) if arrays else len(mask)
        here = mask.slice(start, count)
        part = {key: array.slice(start, count) for key, array in known.items()} | _by_id(rest, arrays)
        if here.true_count:
            yield [_chosen(part[column.id], here) for column in columns]
        start += count


def _by_id(columns: Sequence[SnapshotColumn], arrays: Arrays) -> dict[int, pa.Array]:
    """Return the arrays by the ids of their columns, or nothing where there are none."""
    return {column.id: array for column, array in zip(columns, arrays, strict=bool(arrays))}


def _chosen(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    return array if mask.true_count == len(mask) else array.filter(mask)
