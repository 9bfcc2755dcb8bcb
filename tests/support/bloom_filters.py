"""Every bloom filter of a table beside the values of its chunk, as Parquet stores them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from real_tables import resolved_partitions

from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.header import Column
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.partition import read_chunk
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.write.stored_arrays import stored_array


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFilter:
    """A bloom column of one row group; `bitset` is None where it has no filter."""

    partition: str
    ordinal: int
    column: Column
    stored: pa.Array
    bitset: bytes | None


def filters_on(path: Path | str, storage: ReadableStorage | None = None) -> Iterator[FoundFilter]:
    """Yield all bloom columns of all row groups, in order."""
    for resolved in resolved_partitions(path, storage):
        metadata, label = resolved.metadata, resolved.files.data_label
        with resolved.files.open_data() as handle:
            for ordinal, block in enumerate(metadata.blocks):
                for index in metadata.header.bloom_columns:
                    column, chunk = metadata.header.columns[index], block.chunks[index]
                    values = decode_chunk(read_chunk(handle, chunk, file=label), column, chunk, file=label)
                    is_decimal = valid_decimal_shape(column.type) is not None
                    yield FoundFilter(
                        partition=resolved.files.name,
                        ordinal=ordinal,
                        column=column,
                        stored=stored_array(values, column).array if is_decimal else values,
                        bitset=bitset_of(
                            resolved.published.content,
                            metadata,
                            ordinal,
                            index,
                            read_data=handle.pread,
                            file=resolved.files.pm_label,
                        ),
                    )
