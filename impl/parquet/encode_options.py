"""How the pages of a row group are written, for all columns and for single ones, as arguments of pyarrow's writer."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import force_setattr

from tornproof.impl.arguments import demand_field_types, with_own_numbers
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.fields import Codec, PageEncoding
from tornproof.impl.parquet.footer import SortingColumn
from tornproof.impl.types.physical import PhysicalType

PYARROW_CODECS = {
    Codec.UNCOMPRESSED: "none",
    Codec.SNAPPY: "snappy",
    Codec.GZIP: "gzip",
    Codec.BROTLI: "brotli",
    Codec.ZSTD: "zstd",
    Codec.LZ4_RAW: "lz4",
}
DICTIONARY_LIMIT_BYTES = (1 << 31) - 1


class Encoding(enum.Enum):
    """How the values of a column are written into pages."""

    DICTIONARY = PageEncoding.RLE_DICTIONARY
    PLAIN = PageEncoding.PLAIN
    DELTA_BINARY_PACKED = PageEncoding.DELTA_BINARY_PACKED
    DELTA_LENGTH_BYTE_ARRAY = PageEncoding.DELTA_LENGTH_BYTE_ARRAY
    DELTA_BYTE_ARRAY = PageEncoding.DELTA_BYTE_ARRAY
    BYTE_STREAM_SPLIT = PageEncoding.BYTE_STREAM_SPLIT


_WIDE_TYPES = frozenset(PhysicalType) - {PhysicalType.BOOLEAN}
ENCODABLE: Mapping[Encoding, frozenset[PhysicalType]] = {
    Encoding.DICTIONARY: _WIDE_TYPES,
    Encoding.PLAIN: frozenset(PhysicalType),
    Encoding.DELTA_BINARY_PACKED: frozenset({PhysicalType.INT32, PhysicalType.INT64}),
    Encoding.DELTA_LENGTH_BYTE_ARRAY: frozenset({PhysicalType.BYTE_ARRAY}),
    Encoding.DELTA_BYTE_ARRAY: frozenset({PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY}),
    Encoding.BYTE_STREAM_SPLIT: _WIDE_TYPES - {PhysicalType.BYTE_ARRAY, PhysicalType.INT96},
}
"""The physical types that each encoding supports (Apache Parquet format, "Encodings")."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options, each of the type that it is declared with."""

    def __post_init__(self) -> None:
        """Reject values of other types; numbers of NumPy become Python's, whose products have any size."""
        demand_field_types(self, OptionsRejectedError)
        for name in self.__struct_fields__:
            force_setattr(self, name, with_own_numbers(getattr(self, name)))


class ColumnOptions(Options, frozen=True, kw_only=True):
    """Options of one column; None means the default for all columns.

    `level` is that of `codec` or, if that is None, of the default codec.
    """

    codec: Codec | None = None
    level: int | None = None
    encoding: Encoding | None = None
    statistics: bool | None = None


_AS_OTHERS = ColumnOptions()


class EncodeOptions(Options, frozen=True, kw_only=True):
    """How pages are written; None means the codec's default `level`, and pyarrow's default `page_row_count_max`.

    Columns of Arrow dictionaries are always dictionary-encoded, others if `columns` says so. All names are dotted paths
    of leaves, which for a flat column is its name. Without `statistics` there are no bounds, but null counts, because
    every `_pm` of QuestDB has them (parquet-metadata.md, Stat encoding). `footer_extension` is the form of footers that
    are written; None keeps that of a partition. With `duplicates` numbers are in a new encoding too, beside the others
    (docs/extensions.md); None does what the partition has.
    """

    codec: Codec = Codec.LZ4_RAW
    level: int | None = None
    page_size_bytes: int = 1 << 20
    page_row_count_max: int | None = None
    statistics: bool = True
    page_checksums: bool = True
    page_index: bool = True
    footer_extension: FooterForm | None = None
    duplicates: bool | None = None
    sorting: tuple[SortingColumn, ...] = ()
    columns: Mapping[str, ColumnOptions] = msgspec.field(default_factory=dict)

    def codec_of(self, name: str) -> tuple[Codec, int | None]:
        """Return codec and level of a column."""
        own = self.columns.get(name, _AS_OTHERS)
        if own.codec is not None:
            return own.codec, own.level
        return self.codec, self.level if own.level is None else own.level

    def has_statistics(self, name: str) -> bool:
        """Return whether a column gets a minimum and a maximum."""
        own = self.columns.get(name, _AS_OTHERS).statistics
        return self.statistics if own is None else own

    def of_pyarrow(self, schema: pa.Schema) -> dict[str, Any]:
        """Return the arguments for pyarrow's writer; columns of Arrow dictionaries are always dictionary-encoded."""
        encodings = {name: own.encoding for name, own in self.columns.items() if own.encoding}
        by_dictionary = [name for name, encoding in encodings.items() if encoding is Encoding.DICTIONARY]
        settings: dict[str, Any] = {
            "compression": PYARROW_CODECS[self.codec],
            "compression_level": self.level,
            "use_dictionary": [*(field.name for field in schema if pa.types.is_dictionary(field.type)), *by_dictionary],
            "dictionary_pagesize_limit": DICTIONARY_LIMIT_BYTES,
            "data_page_size": self.page_size_bytes,
            "write_page_index": self.page_index,
            "write_page_checksum": self.page_checksums,
            "store_schema": False,
        }
        if self.columns:
            # If pyarrow is given codecs by column, there is no default for the others.
            codecs = {path: self.codec_of(path) for field in schema for path in _leaves(field.name, field.type)}
            settings["compression"] = {path: PYARROW_CODECS[codec] for path, (codec, _) in codecs.items()}
            levels = {path: level for path, (_, level) in codecs.items() if level is not None}
            settings["compression_level"] = levels or None
        others = {name: each.value.name for name, each in encodings.items() if each is not Encoding.DICTIONARY}
        if others:
            settings["column_encoding"] = others
        if self.page_row_count_max is not None:
            settings["max_rows_per_page"] = self.page_row_count_max
        if self.sorting:
            settings["sorting_columns"] = [
                pq.SortingColumn(each.column_index, each.descending, each.nulls_first) for each in self.sorting
            ]
        return settings


def _leaves(path: str, of: pa.DataType) -> Iterator[str]:
    """Yield the dotted paths of a column's leaves."""
    if pa.types.is_list(of):
        yield from _leaves(f"{path}.list.element", of.value_type)
    else:
        yield path
