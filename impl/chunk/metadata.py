"""A Parquet footer for a single column chunk, so that pyarrow decodes its bytes without the file (docs/writing.md).

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
from tornproof.impl.parquet.thrift import Struct, encode
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


@functools.lru_cache(maxsize=4096)
def chunk_metadata(leaf: Leaf, codec: int, value_count: int, size_bytes: int) -> FileMetaData:
    """Return the metadata of a file that consists of one chunk, whose pages start at its first byte.

    Raises pyarrow's errors for a leaf that Parquet does not allow.
    """
    schema, path = _schema(leaf)
    meta = make(
        COLUMN_META_DATA,
        type=leaf.physical_type,
        encodings=(PageEncoding.PLAIN,),
        path_in_schema=path,
        codec=codec,
        num_values=value_count,
        total_uncompressed_size=size_bytes,
        total_compressed_size=size_bytes,
        data_page_offset=0,
    )
    row_group = make(
        ROW_GROUP,
        columns=(make(COLUMN_CHUNK, file_offset=0, meta_data=meta),),
        total_byte_size=size_bytes,
        num_rows=value_count,
    )
    footer = encode(
        make(FILE_META_DATA, version=FORMAT_VERSION, schema=schema, num_rows=value_count, row_groups=(row_group,))
    )
    tail = ParquetTail(footer_length=len(footer), magic=MAGIC).pack()
    return metadata_of(MAGIC + footer + tail)


@functools.lru_cache(maxsize=4096)
def _schema(leaf: Leaf) -> tuple[tuple[Struct, ...], tuple[str, ...]]:
    """Return the schema's elements, the root first, and the leaf's path, named as in `list_type`."""
    elements = [make(SCHEMA_ELEMENT, name="root", num_children=1)]
    path = [COLUMN_NAME]
    for depth in range(leaf.dimensions):
        repetition = Repetition.OPTIONAL if depth == 0 or leaf.lists_optional else Repetition.REQUIRED
        elements += [_list_group(path[-1], repetition), _group("list", Repetition.REPEATED)]
        path += ["list", "element" if depth == leaf.dimensions - 1 else "list"]
    elements.append(_leaf_element(leaf, path[-1]))
    return tuple(elements), tuple(path)


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
