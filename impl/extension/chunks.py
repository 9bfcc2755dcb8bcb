"""Column chunks between Thrift and FlatBuffers: what the schema says of one, as values and as arrays of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flatbuffers
import msgspec
import numpy as np

from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.bounds import Bound, PackedBound, PackedBounds, packed_bounds, unpacked_bound
from tornproof.impl.extension.columnar import Array, ColumnarTables, Sparse
from tornproof.impl.extension.skeleton import Path, Stated
from tornproof.impl.parquet.fields import (
    BY_DICTIONARY,
    COLUMN_CHUNK,
    COLUMN_META_DATA,
    PAGE_ENCODING_STATS,
    STATISTICS,
    PageType,
    ids_of,
)
from tornproof.impl.parquet.thrift import Items, Struct, unpadded

I8_MAX, I32_MAX, I64_MAX = (1 << 7) - 1, (1 << 31) - 1, (1 << 63) - 1
CHUNK, META, BOUNDS, PAGES = map(ids_of, (COLUMN_CHUNK, COLUMN_META_DATA, STATISTICS, PAGE_ENCODING_STATS))
OF_META, OF_STATISTICS = CHUNK["meta_data"], META["statistics"]
NUMBERED: frozenset[Path] = frozenset(
    (CHUNK[name],)
    for name in (
        "file_offset",
        "offset_index_offset",
        "offset_index_length",
        "column_index_offset",
        "column_index_length",
    )
)
"""Numbers of a chunk that the schema leaves out, and that are another for every chunk."""
PLAIN_NAMES = ("total_uncompressed_size", "total_compressed_size", "data_page_offset")
SPARSE_NAMES = ("index_page_offset", "dictionary_page_offset", "null_count")


class ChunkFacts(NamedTuple):
    """What the schema says of a chunk; sizes and offsets in bytes, None where absent."""

    codec: int
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    index_page_offset: int | None
    dictionary_page_offset: int | None
    null_count: int | None
    bounds: PackedBounds
    has_statistics: bool
    is_fully_dict_encoded: bool
    bloom_filter_offset: int | None
    bloom_filter_length: int | None

    @property
    def start_bytes(self) -> int:
        """Where the chunk's first page starts in the file."""
        return self.dictionary_page_offset or self.data_page_offset

    def stated(self, physical_type: int, path: tuple[bytes, ...]) -> Stated:
        """Return the chunk's members by paths of field ids, for its column's type and path."""
        known: dict[str, Any] = {
            "type": physical_type,
            "path_in_schema": path,
            "codec": self.codec,
            "num_values": self.num_values,
            **{name: getattr(self, name) for name in PLAIN_NAMES},
            "index_page_offset": self.index_page_offset,
            "dictionary_page_offset": self.dictionary_page_offset,
            "bloom_filter_offset": self.bloom_filter_offset,
            "bloom_filter_length": self.bloom_filter_length,
        }
        stated: dict[Path, Any] = {(OF_META, META[name]): value for name, value in known.items()}
        low, high = self.bound_values(physical_type)
        for name, value in (
            ("null_count", self.null_count),
            ("min_value", low),
            ("max_value", high),
            ("min", low),
            ("max", high),
        ):
            stated[OF_META, OF_STATISTICS, BOUNDS[name]] = value
        return stated

    def bound_values(self, physical_type: int) -> tuple[bytes | None, bytes | None]:
        """Return minimum and maximum as the schema states them."""
        low, high, prefix = self.bounds
        unpacked = [packed and unpacked_bound(physical_type, packed, prefix) for packed in (low, high)]
        first, second = (bound.value if bound else None for bound in unpacked)
        return first, second


def chunk_facts(chunk: Struct, physical_type: int, row_count: int) -> ChunkFacts:
    """Return what the schema can say of a decoded ColumnChunk; what does not fit is left out."""
    meta = _struct_in(chunk, OF_META)
    statistics = _struct_in(meta, OF_STATISTICS)
    numbers = {name: integer_in(meta, META[name], I64_MAX) for name in META}
    low, high = (_bound_in(statistics, name) for name in ("min", "max"))
    num_values = numbers["num_values"]
    bloom_length = integer_in(meta, META["bloom_filter_length"], I32_MAX)
    return ChunkFacts(
        codec=integer_in(meta, META["codec"], I8_MAX) or 0,
        num_values=row_count if num_values is None else num_values,
        **{name: numbers[name] or 0 for name in PLAIN_NAMES},
        index_page_offset=numbers["index_page_offset"],
        dictionary_page_offset=numbers["dictionary_page_offset"],
        null_count=integer_in(statistics, BOUNDS["null_count"], I64_MAX),
        bounds=packed_bounds(physical_type, low, high),
        has_statistics=bool(statistics.fields),
        is_fully_dict_encoded=_is_fully_dict_encoded(meta),
        bloom_filter_offset=numbers["bloom_filter_offset"],
        bloom_filter_length=bloom_length,
    )


def integer_in(struct: Struct, field_id: int, high: int) -> int | None:
    """Return an integer of a struct, None if it is absent or does not fit into so many bits."""
    for field in struct.fields:
        if field.id == field_id:
            value = unpadded(field.value)
            if type(value) is int and ~high <= value <= high:
                return value
    return None


def bytes_in(struct: Struct, field_id: int) -> bytes | None:
    """Return a binary of a struct, or None."""
    found = (unpadded(each.value) for each in struct.fields if each.id == field_id)
    return next((value for value in found if isinstance(value, bytes)), None)


def _struct_in(struct: Struct, field_id: int) -> Struct:
    found = (each.value for each in struct.fields if each.id == field_id and isinstance(each.value, Struct))
    return next(found, Struct(()))


def _bound_in(statistics: Struct, name: str) -> Bound | None:
    value = bytes_in(statistics, BOUNDS[f"{name}_value"])
    is_exact = any(each.id == BOUNDS[f"is_{name}_value_exact"] and each.value is True for each in statistics.fields)
    return None if value is None else Bound(value, is_exact)


def _is_fully_dict_encoded(meta: Struct) -> bool:
    """Return whether the chunk lists its pages, and the values of all data pages are dictionary keys."""
    listed = next((each.value for each in meta.fields if each.id == META["encoding_stats"]), None)
    if not isinstance(listed, Items):
        return False
    found = [each for each in listed.elements if isinstance(each, Struct)]
    types = [integer_in(each, PAGES["page_type"], I32_MAX) for each in found]
    encodings = [
        integer_in(each, PAGES["encoding"], I32_MAX)
        for each, kind in zip(found, types, strict=True)
        if kind in (PageType.DATA_V1, PageType.DATA_V2)
    ]
    return bool(encodings) and all(encoding in BY_DICTIONARY for encoding in encodings)


class ChunkArrays(msgspec.Struct, frozen=True, kw_only=True):
    """Many chunks, those of each row group together, as arrays by the schema's names.

    `low` and `high` have the fields of `PackedBound` in arrays, `prefixes` what bounds begin with, by row.
    """

    row_count: int
    plain: Mapping[str, Array]
    sparse: Mapping[str, Sparse]
    low: tuple[Array, Array, Array, Sparse]
    high: tuple[Array, Array, Array, Sparse]
    prefixes: Mapping[int, bytes]
    has_statistics: Array

    @classmethod
    def of(cls, chunks: Sequence[ChunkFacts], row_counts: Sequence[int]) -> ChunkArrays:
        """Return chunks as arrays; `row_counts` are those of their row groups."""
        num_values = [
            None if each.num_values == row_count else each.num_values
            for each, row_count in zip(chunks, row_counts, strict=True)
        ]
        plain = {name: np.array([getattr(each, name) for each in chunks], np.int64) for name in (*PLAIN_NAMES, "codec")}
        plain["is_fully_dict_encoded"] = np.array([each.is_fully_dict_encoded for each in chunks], bool)
        names = (*SPARSE_NAMES, "bloom_filter_offset", "bloom_filter_length")
        sparse = {name: _sparse([getattr(each, name) for each in chunks]) for name in names}
        return cls(
            row_count=len(chunks),
            plain=plain,
            sparse={**sparse, "num_values": _sparse(num_values)},
            low=_bound_arrays([each.bounds.low for each in chunks]),
            high=_bound_arrays([each.bounds.high for each in chunks]),
            prefixes={row: each.bounds.prefix for row, each in enumerate(chunks) if each.bounds.prefix},
            has_statistics=np.array([each.has_statistics for each in chunks], bool),
        )


def _sparse(values: Sequence[int | None]) -> Sparse:
    is_present = np.array([value is not None for value in values], bool)
    return Sparse(np.array([value or 0 for value in values], np.int64), is_present)


def _bound_arrays(bounds: Sequence[PackedBound | None]) -> tuple[Array, Array, Array, Sparse]:
    lo4, lo8, hi8 = (np.array([each[index] if each else 0 for each in bounds], np.uint64) for index in range(3))
    return lo4, lo8, hi8, _sparse([each and each.length for each in bounds])


def chunk_tables(builder: flatbuffers.Builder, chunks: ChunkArrays) -> Array:
    """Add the tables of all chunks to a buffer; return their positions from its end."""
    tables: Any = ColumnarTables(builder, chunks.row_count)
    statistics = _statistics_tables(builder, tables, chunks)
    bloom_offset, bloom_length = chunks.sparse["bloom_filter_offset"], chunks.sparse["bloom_filter_length"]
    tables.only(bloom_offset.is_present)
    schema.BloomFilterInfoStart(tables)
    schema.BloomFilterInfoAddOffset(tables, bloom_offset)
    schema.BloomFilterInfoAddLength(tables, bloom_length)
    blooms = schema.BloomFilterInfoEnd(tables)
    schema.ColumnMetadataStart(tables)
    for name, values in {**chunks.plain, **chunks.sparse}.items():
        add = getattr(schema, f"ColumnMetadataAdd{name.title().replace('_', '')}", None)
        if add is not None:
            add(tables, values)
    schema.ColumnMetadataAddStatistics(tables, statistics)
    schema.ColumnMetadataAddBloomFilter(tables, blooms)
    metadata = schema.ColumnMetadataEnd(tables)
    schema.ColumnChunkStart(tables)
    schema.ColumnChunkAddMetaData(tables, metadata)
    positions: Array = tables.positions(schema.ColumnChunkEnd(tables))
    return positions


def _statistics_tables(builder: flatbuffers.Builder, tables: Any, chunks: ChunkArrays) -> int:
    prefixes = np.zeros(chunks.row_count, np.int64)
    for row, prefix in chunks.prefixes.items():
        prefixes[row] = builder.CreateByteVector(prefix)
    prefix_handle = tables.handle(prefixes)
    tables.only(chunks.has_statistics)
    schema.StatisticsStart(tables)
    schema.StatisticsAddNullCount(tables, chunks.sparse["null_count"])
    for name, (lo4, lo8, hi8, length) in (("Min", chunks.low), ("Max", chunks.high)):
        for part, values in (("Lo4", lo4), ("Lo8", lo8), ("Hi8", hi8)):
            getattr(schema, f"StatisticsAdd{name}{part}")(tables, Sparse(values, values != 0))
        getattr(schema, f"StatisticsAdd{name}Len")(tables, length)
    schema.StatisticsAddPrefix(tables, prefix_handle)
    return schema.StatisticsEnd(tables)


def facts_of_table(chunk: schema.ColumnChunk, row_count: int) -> ChunkFacts:
    """Return what a chunk's table says."""
    meta = chunk.MetaData()
    statistics = meta.Statistics()
    bloom = meta.BloomFilter()
    num_values = meta.NumValues()
    return ChunkFacts(
        codec=meta.Codec(),
        num_values=row_count if num_values is None else num_values,
        total_uncompressed_size=meta.TotalUncompressedSize(),
        total_compressed_size=meta.TotalCompressedSize(),
        data_page_offset=meta.DataPageOffset(),
        index_page_offset=meta.IndexPageOffset(),
        dictionary_page_offset=meta.DictionaryPageOffset(),
        null_count=statistics.NullCount() if statistics else None,
        bounds=_bounds_of_table(statistics),
        has_statistics=statistics is not None,
        is_fully_dict_encoded=bool(meta.IsFullyDictEncoded()),
        bloom_filter_offset=bloom.Offset() if bloom else None,
        bloom_filter_length=bloom.Length() if bloom else None,
    )


def _bounds_of_table(statistics: schema.Statistics | None) -> PackedBounds:
    if statistics is None:
        return PackedBounds(None, None, b"")
    bounds = []
    for name in ("Min", "Max"):
        length = getattr(statistics, f"{name}Len")()
        lo4, lo8, hi8 = (getattr(statistics, f"{name}{part}")() for part in ("Lo4", "Lo8", "Hi8"))
        bounds.append(None if length is None else PackedBound(lo4, lo8, hi8, length))
    prefix = b"" if statistics.PrefixIsNone() else statistics.PrefixAsNumpy().tobytes()
    return PackedBounds(bounds[0], bounds[1], prefix)
