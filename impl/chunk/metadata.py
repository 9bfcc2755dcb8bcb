"""A Parquet footer for one or several column chunks, so that pyarrow decodes them without the file (docs/writing.md).

Apart from decimals it has no logical types: values are returned as they are stored.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.parquet.arrow_reader import FileMetaData, metadata_of
from tornproof.impl.parquet.fields import (
    COLUMN_CHUNK,
    COLUMN_META_DATA,
    DECIMAL_TYPE,
    FILE_META_DATA,
    LOGICAL_TYPE,
    ROW_GROUP,
    SCHEMA_ELEMENT,
    ConvertedType,
    PageEncoding,
    Repetition,
)
from tornproof.impl.parquet.records import make
from tornproof.impl.parquet.thrift import STOP, Kind, Struct, encode, put_varint, zigzag
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import DecimalShape

FORMAT_VERSION = 2
COLUMN_NAME = "column"
DECIMAL128_BYTES, DECIMAL128_DIGITS = 16, 38


class Leaf(NamedTuple):
    """What is needed to read a chunk's pages: the leaf's physical type and its levels.

    `dimensions` counts the lists around the leaf; with `lists_optional` the inner ones have a level for null.
    """

    physical_type: int
    fixed_byte_len: int = 0
    is_optional: bool = True
    dimensions: int = 0
    lists_optional: bool = True
    decimal: DecimalShape | None = None


class StoredChunk(NamedTuple):
    """What the footer says of a chunk; `size_bytes` are those of its pages, headers included."""

    leaf: Leaf
    codec: int
    value_count: int
    size_bytes: int


@functools.lru_cache(maxsize=4096)
def chunk_metadata(leaf: Leaf, codec: int, value_count: int, size_bytes: int) -> FileMetaData:
    """Return the metadata of a file that consists of one chunk, whose pages start at its first byte.

    Raises pyarrow's errors for a leaf that Parquet does not allow.
    """
    return _metadata((StoredChunk(leaf, codec, value_count, size_bytes),))


@functools.lru_cache(maxsize=64)
def row_group_metadata(chunks: tuple[StoredChunk, ...]) -> FileMetaData:
    """Return the metadata of a file that consists of these chunks, all with the same number of rows, one after another.

    Raises as `chunk_metadata`.
    """
    return _metadata(chunks)


def _metadata(chunks: tuple[StoredChunk, ...]) -> FileMetaData:
    row_count, size_bytes = chunks[0].value_count, 0
    elements = [encode(make(SCHEMA_ELEMENT, name="root", num_children=len(chunks)))]
    columns = []
    for chunk in chunks:
        elements += _schema(chunk.leaf)[0]
        columns.append(_column_chunk(chunk, size_bytes))
        size_bytes += chunk.size_bytes
    row_group = make(ROW_GROUP, columns=columns, total_byte_size=size_bytes, num_rows=row_count)
    footer = encode(
        make(FILE_META_DATA, version=FORMAT_VERSION, schema=elements, num_rows=row_count, row_groups=(row_group,))
    )
    tail = ParquetTail(footer_length=len(footer), magic=MAGIC).pack()
    return metadata_of(MAGIC + footer + tail)


def _column_chunk(chunk: StoredChunk, offset_bytes: int) -> bytes:
    """Return the encoded record of a chunk whose pages start at `offset_bytes`."""
    out = bytearray(_start_of_column_chunk(chunk.leaf, chunk.codec))
    for step, number in _numbers(chunk, offset_bytes):
        out.append(step << 4 | Kind.I64)
        put_varint(out, zigzag(number), 0)
    # The ends of the inner and of the outer struct.
    out += bytes((STOP, STOP))
    return bytes(out)


def _numbers(chunk: StoredChunk, offset_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of a chunk's record, each after its field's distance from the one before."""
    return (1, chunk.value_count), (1, chunk.size_bytes), (1, chunk.size_bytes), (2, offset_bytes)


@functools.lru_cache(maxsize=4096)
def _start_of_column_chunk(leaf: Leaf, codec: int) -> bytes:
    """Return what precedes the numbers in the record of each chunk of a kind; a row group can have hundreds of them."""
    start = make(
        COLUMN_META_DATA,
        type=leaf.physical_type,
        encodings=(PageEncoding.PLAIN,),
        path_in_schema=_schema(leaf)[1],
        codec=codec,
    )
    return encode(make(COLUMN_CHUNK, file_offset=0, meta_data=start))[:-2]


@functools.lru_cache(maxsize=4096)
def _schema(leaf: Leaf) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Return the encoded elements of the schema, and the leaf's path, named as in `list_type`."""
    elements = []
    path = [COLUMN_NAME]
    for depth in range(leaf.dimensions):
        repetition = Repetition.OPTIONAL if depth == 0 or leaf.lists_optional else Repetition.REQUIRED
        elements += [_list_group(path[-1], repetition), _group("list", Repetition.REPEATED)]
        path += ["list", "element" if depth == leaf.dimensions - 1 else "list"]
    elements.append(_leaf_element(leaf, path[-1]))
    return tuple(map(encode, elements)), tuple(path)


def _group(name: str, repetition: Repetition, **annotation: Any) -> Struct:
    return make(SCHEMA_ELEMENT, repetition_type=repetition, name=name, num_children=1, **annotation)


def _list_group(name: str, repetition: Repetition) -> Struct:
    logical = make(LOGICAL_TYPE, LIST=Struct(()))
    return _group(name, repetition, converted_type=ConvertedType.LIST, logical_type=logical)


def _leaf_element(leaf: Leaf, name: str) -> Struct:
    is_fixed = leaf.physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY
    annotation: dict[str, Any] = {}
    if leaf.decimal is not None:
        scale, precision = leaf.decimal.scale, leaf.decimal.precision
        if leaf.fixed_byte_len > DECIMAL128_BYTES:
            # pyarrow derives the width of decimals from their digits, and rejects wider bytes.
            precision = max(precision, DECIMAL128_DIGITS + 1)
        logical = make(LOGICAL_TYPE, DECIMAL=make(DECIMAL_TYPE, scale=scale, precision=precision))
        annotation = {"scale": scale, "precision": precision, "logical_type": logical}
        annotation["converted_type"] = ConvertedType.DECIMAL
    return make(
        SCHEMA_ELEMENT,
        type=leaf.physical_type,
        type_length=leaf.fixed_byte_len if is_fixed else None,
        repetition_type=Repetition.OPTIONAL if leaf.is_optional else Repetition.REQUIRED,
        name=name,
        **annotation,
    )
