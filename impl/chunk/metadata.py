"""A Parquet footer for one column chunk alone, so that pyarrow decodes its bytes without the file (docs/writing.md).

It says nothing of a column's meaning, decimals aside: values come back as they are stored.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.parquet.fields import Repetition
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, Value, encode
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import DecimalShape

FORMAT_VERSION = 2
PLAIN_ENCODING = 0
CONVERTED_LIST, CONVERTED_DECIMAL = 3, 5
LOGICAL_LIST, LOGICAL_DECIMAL = 3, 5
COLUMN_NAME = "column"
DECIMAL128_BYTES, DECIMAL128_DIGITS = 16, 38


class Leaf(NamedTuple):
    """What decides how a chunk's pages are read: the leaf's physical type and its levels.

    `dimensions` counts the lists around the leaf; `lists_optional` tells whether the inner ones have a level for null.
    """

    physical_type: int
    fixed_byte_len: int = 0
    is_optional: bool = True
    dimensions: int = 0
    lists_optional: bool = True
    decimal: DecimalShape | None = None


@functools.lru_cache(maxsize=4096)
def chunk_metadata(leaf: Leaf, codec: int, value_count: int, size_bytes: int) -> pq.FileMetaData:
    """Return the metadata of a file whose bytes are one chunk, pages from its first byte on.

    Raises pyarrow's errors for a leaf that Parquet does not allow.
    """
    schema, path = _schema(leaf)
    column = _struct(
        (1, Kind.I32, leaf.physical_type),
        (2, Kind.LIST, Items(Kind.I32, (PLAIN_ENCODING,))),
        (3, Kind.LIST, Items(Kind.BINARY, path)),
        (4, Kind.I32, codec),
        (5, Kind.I64, value_count),
        (6, Kind.I64, size_bytes),
        (7, Kind.I64, size_bytes),
        (9, Kind.I64, 0),
    )
    row_group = _struct(
        (1, Kind.LIST, Items(Kind.STRUCT, (_struct((2, Kind.I64, 0), (3, Kind.STRUCT, column)),))),
        (2, Kind.I64, size_bytes),
        (3, Kind.I64, value_count),
    )
    footer = encode(
        _struct(
            (1, Kind.I32, FORMAT_VERSION),
            (2, Kind.LIST, Items(Kind.STRUCT, schema)),
            (3, Kind.I64, value_count),
            (4, Kind.LIST, Items(Kind.STRUCT, (row_group,))),
        )
    )
    tail = ParquetTail(footer_length=len(footer), magic=MAGIC).pack()
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))


def _schema(leaf: Leaf) -> tuple[tuple[Struct, ...], tuple[bytes, ...]]:
    """Return the schema's elements, the root first, and the leaf's path; Arrow gets the names of `list_type`."""
    elements = [_struct((4, Kind.BINARY, b"root"), (5, Kind.I32, 1))]
    path = [COLUMN_NAME.encode()]
    for depth in range(leaf.dimensions):
        repetition = Repetition.OPTIONAL if depth == 0 or leaf.lists_optional else Repetition.REQUIRED
        elements += [_list_group(path[-1], repetition), _group(b"list", Repetition.REPEATED)]
        path += [b"list", b"element" if depth == leaf.dimensions - 1 else b"list"]
    elements.append(_leaf_element(leaf, path[-1]))
    return tuple(elements), tuple(path)


def _group(name: bytes, repetition: Repetition) -> Struct:
    return _struct((3, Kind.I32, repetition), (4, Kind.BINARY, name), (5, Kind.I32, 1))


def _list_group(name: bytes, repetition: Repetition) -> Struct:
    logical = _struct((LOGICAL_LIST, Kind.STRUCT, _struct()))
    annotation = _struct((6, Kind.I32, CONVERTED_LIST), (10, Kind.STRUCT, logical))
    return Struct((*_group(name, repetition).fields, *annotation.fields))


def _leaf_element(leaf: Leaf, name: bytes) -> Struct:
    fields: list[tuple[int, Kind, Value]] = [(1, Kind.I32, leaf.physical_type)]
    if leaf.physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY:
        fields.append((2, Kind.I32, leaf.fixed_byte_len))
    repetition = Repetition.OPTIONAL if leaf.is_optional else Repetition.REQUIRED
    fields += [(3, Kind.I32, repetition), (4, Kind.BINARY, name)]
    if leaf.decimal is not None:
        scale, precision = leaf.decimal.scale, leaf.decimal.precision
        if leaf.fixed_byte_len > DECIMAL128_BYTES:
            # pyarrow makes the width of its numbers of their digits, and refuses bytes that are wider.
            precision = max(precision, DECIMAL128_DIGITS + 1)
        decimal = _struct((1, Kind.I32, scale), (2, Kind.I32, precision))
        fields += [(6, Kind.I32, CONVERTED_DECIMAL), (7, Kind.I32, scale), (8, Kind.I32, precision)]
        fields.append((10, Kind.STRUCT, _struct((LOGICAL_DECIMAL, Kind.STRUCT, decimal))))
    return _struct(*fields)


def _struct(*fields: tuple[int, Kind, Value]) -> Struct:
    return Struct(tuple(Field(*field) for field in fields))
