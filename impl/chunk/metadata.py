"""A Parquet footer for one or several column chunks, so that pyarrow decodes them without the file (docs/writing.md).

Apart from decimals it has no logical types: values are returned as they are stored.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
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
NEXT, AFTER_NEXT = bytes((1 << 4 | Kind.I64,)), bytes((2 << 4 | Kind.I64,))
"""What stands before a number of the next field, and of the one after that."""
END = bytes((STOP,))
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


# Few: in a table with many commits nearly all differ, and thousands of small objects between large buffers keep freed
# memory from being used again; to make one takes 16 microseconds.
@functools.lru_cache(maxsize=256)
def chunk_metadata(leaf: Leaf, codec: int, value_count: int, size_bytes: int) -> FileMetaData:
    """Return the metadata of a file that consists of one chunk, whose pages start at its first byte.

    Raises pyarrow's errors for a leaf that Parquet does not allow.
    """
    return column_metadata((StoredChunk(leaf, codec, value_count, size_bytes),))


def column_metadata(chunks: Sequence[StoredChunk]) -> FileMetaData:
    """Return the metadata of a file with one column, whose row groups are these chunks, one after another.

    All have the leaf of the first. Raises as `chunk_metadata`.
    """
    elements = [encode(make(SCHEMA_ELEMENT, name="root", num_children=1)), *_schema(chunks[0].leaf)[0]]
    offsets_bytes = itertools.accumulate([chunk.size_bytes for chunk in chunks], initial=0)
    footer = make(
        FILE_META_DATA,
        version=FORMAT_VERSION,
        schema=elements,
        num_rows=sum([chunk.value_count for chunk in chunks]),
        row_groups=list(map(_row_group, chunks, offsets_bytes)),
    )
    content = encode(footer)
    return metadata_of(MAGIC + content + ParquetTail(footer_length=len(content), magic=MAGIC).pack())


def _row_group(chunk: StoredChunk, offset_bytes: int) -> bytes:
    """Return the encoded record of a row group with one chunk, whose pages start at `offset_bytes`."""
    row_count, size = _number(chunk.value_count), _number(chunk.size_bytes)
    of_chunk = b"".join((NEXT, row_count, NEXT, size, NEXT, size, AFTER_NEXT, _number(offset_bytes)))
    start = _start_of_row_group(chunk.leaf, chunk.codec)
    # The first two ends are those of the chunk's records.
    return b"".join((start, of_chunk, END, END, NEXT, size, NEXT, row_count, END))


@functools.lru_cache(maxsize=4096)
def _number(value: int) -> bytes:
    out = bytearray()
    put_varint(out, zigzag(value), 0)
    return bytes(out)


@functools.lru_cache(maxsize=4096)
def _start_of_row_group(leaf: Leaf, codec: int) -> bytes:
    """Return what precedes the numbers in the record of each chunk of a kind; a row group can have hundreds of them."""
    start = make(
        COLUMN_META_DATA,
        type=leaf.physical_type,
        encodings=(PageEncoding.PLAIN,),
        path_in_schema=_schema(leaf)[1],
        codec=codec,
    )
    record = make(ROW_GROUP, columns=(make(COLUMN_CHUNK, file_offset=0, meta_data=start),))
    return encode(record).removesuffix(3 * END)


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
