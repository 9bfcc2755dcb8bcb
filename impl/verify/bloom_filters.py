"""Whether bloom filters hold the values of their chunks: one that misses a value makes readers skip its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import Problem
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.bloom import can_be_hashed, hashes_of, probe
from tornproof.impl.pm.bloom_place import ReadData, bitset_of, reference_of
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.write.stored_arrays import stored_array


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFilter:
    """The filter of a chunk; `offset_bytes` is where it lies in `file`, the name of `_pm`, None for data.parquet."""

    column: Column
    ordinal: int
    bitset: bytes
    file: str
    offset_bytes: int | None

    def problem(self, values: pa.Array) -> Problem | None:
        """Return what is wrong for a chunk of these values, of the column's `arrow_type`."""
        stored = _stored(values, self.column)
        missing = 0 if stored is None else missing_values(stored, self.bitset)
        if not missing:
            return None
        return Problem(
            file=self.file,
            field=f"bloom filter of column {self.column.name!r} of row group {self.ordinal}",
            offset_bytes=self.offset_bytes,
            expected="all values of the chunk in it",
            actual=f"{missing} of {len(values) - values.null_count} that are not",
        )


def missing_values(stored: pa.Array, bitset: bytes | memoryview) -> int:
    """Return how many values of an array as Parquet stores it, nulls left out, are not in the filter."""
    return int(np.count_nonzero(~probe(bitset, hashes_of(stored))))


def chunk_filter(
    content: Buffer, metadata: Metadata, ordinal: int, column_index: int, *, read_data: ReadData, file: str
) -> ChunkFilter | None:
    """Return the filter of a column in a row group, None without one; the arguments are those of `bitset_of`.

    Raises CorruptError as that does.
    """
    bitset = bitset_of(content, metadata, ordinal, column_index, read_data=read_data, file=file)
    if bitset is None:
        return None
    reference = reference_of(metadata, ordinal, column_index)
    assert reference is not None, "bitset_of went by it"
    return ChunkFilter(
        column=metadata.header.columns[column_index],
        ordinal=ordinal,
        bitset=bitset,
        file=file,
        offset_bytes=reference.offset_bytes if reference.length_bytes is None else None,
    )


def _stored(values: pa.Array, column: Column) -> pa.Array | None:
    """Return decoded values as they are stored, None for columns that are not stored as QuestDB does."""
    if physical_form(column.type) != (column.physical_type, column.fixed_byte_len) or column.max_rep_level:
        return None
    stored = values if valid_decimal_shape(column.type) is None else stored_array(values, column).array
    return stored if can_be_hashed(stored.type) else None
