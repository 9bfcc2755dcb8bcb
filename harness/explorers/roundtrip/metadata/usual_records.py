"""Records of `_pm` and `_txn` as readers have them, in which a case says only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.txn.transaction import Partition

COLUMN: dict[str, Any] = {"name": "c", "id": 0, "flags": 0, "fixed_byte_len": 0, "max_rep_level": 0, "max_def_level": 0}
CHUNK: dict[str, Any] = {
    **{"codec": 0, "encodings": 1, "byte_range_start": 0, "total_compressed": 0},
    **{"null_count": None, "distinct_count": None},
}
HEADER: dict[str, Any] = {
    **{"feature_flags": 0, "designated_timestamp": -1, "sorting_columns": (), "bloom_columns": ()},
    **{"squash_tracker": None, "size_bytes": 0},
}
PARTITION: dict[str, Any] = {
    **{"timestamp": 0, "name_txn": -1, "token": -1, "flags": 0},
    **{"entry_offset_bytes": 0, "row_count_offset_bytes": 0},
}


def column_of(code: int, physical_type: int, **facts: Any) -> Column:
    """Return a column of a type and a physical type."""
    return Column(type=code, physical_type=physical_type, **{**COLUMN, **facts})


def chunk_of(value_count: int, low: Statistic | None = None, high: Statistic | None = None, **facts: Any) -> Chunk:
    """Return a chunk of so many values, with these bounds."""
    return Chunk(num_values=value_count, minimum=low, maximum=high, **{**CHUNK, **facts})


def header_of(columns: Iterable[Column], **facts: Any) -> FileHeader:
    """Return a header with these columns."""
    return FileHeader(columns=tuple(columns), **{**HEADER, **facts})


def partition_of(row_count: int, **facts: Any) -> Partition:
    """Return a partition of so many rows, which is native unless its flags say something else."""
    return Partition(row_count=row_count, **{**PARTITION, **facts})
