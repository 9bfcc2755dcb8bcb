"""What a Parquet footer says, as checked and frozen values made from its lossless tree.

Sources: parquet.thrift of Apache Parquet format; where it leaves room, what QuestDB's converter takes and refuses.
Values keep the names of parquet.thrift; every offset counts from the start of the file, every size is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.parquet.fields import FILE_META_DATA, Codec
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import SchemaLeaf, read_leaves
from tornproof.impl.parquet.thrift import NODE_COUNT_MAX, Known, decode
from tornproof.impl.parquet.tree import BrokenError, Struct

ENCRYPTED_MAGIC = b"PARE"
TAIL_SIZE_BYTES = ParquetTail.layout.size_bytes
PARQUET_SIZE_MIN_BYTES = len(MAGIC) + TAIL_SIZE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of one chunk; None where a value is absent. QuestDB ignores the deprecated and exact ones."""

    min_value: bytes | None
    max_value: bytes | None
    null_count: int | None
    distinct_count: int | None
    is_min_value_exact: bool | None
    is_max_value_exact: bool | None
    deprecated_min: bytes | None
    deprecated_max: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """One column in one row group; optional values are None where absent.

    `dictionary_page_offset` is None too where the footer says 0, which some writers mean as "none".
    `file_path` may be an empty string, which is not absent.
    """

    offset_bytes: int
    path_in_schema: tuple[str, ...]
    physical_type: int
    codec: Codec
    encodings: tuple[int, ...]
    num_values: int
    total_compressed_size: int
    total_uncompressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    statistics: Statistics | None
    bloom_filter_offset: int | None
    bloom_filter_length: int | None
    column_index_offset: int | None
    column_index_length: int | None
    offset_index_offset: int | None
    offset_index_length: int | None
    file_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SortingColumn:
    """One sorting column of a row group; `column_index` is as found and may name no leaf."""

    column_index: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group; it has one chunk for each leaf, in the order of the leaves."""

    offset_bytes: int
    num_rows: int
    total_byte_size: int
    ordinal: int | None
    sorting_columns: tuple[SortingColumn, ...]
    chunks: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """One footer. `tree` is all of it, unknown fields too; `length_bytes` ends behind the tree's stop byte.

    `key_values` keeps order and duplicates; a key without a value has None.
    """

    tree: Struct
    offset_bytes: int
    length_bytes: int
    version: int
    num_rows: int
    created_by: str | None
    key_values: tuple[tuple[str, str | None], ...]
    leaves: tuple[SchemaLeaf, ...]
    row_groups: tuple[RowGroup, ...]

    @property
    def metadata(self) -> dict[str, str | None]:
        """The key-values as a mapping; of equal keys the first counts, as for QuestDB."""
        return dict(reversed(self.key_values))


def read_footer_tail(tail: bytes, *, file: str, token: int) -> tuple[int, int]:
    """Return (offset, length) of the footer, in bytes, from the last 8 bytes before `token`.

    `token` is the size of the file as its reader sees it. Raises CorruptError, or UnsupportedError for encryption.
    """
    if token < PARQUET_SIZE_MIN_BYTES:
        raise CorruptError(
            file=file, field="size", offset_bytes=None, expected=f"at least {PARQUET_SIZE_MIN_BYTES}", actual=token
        )
    at = token - TAIL_SIZE_BYTES
    record = ParquetTail.unpack(tail, 0, file=file)
    if record.magic == ENCRYPTED_MAGIC:
        raise UnsupportedError(file=file, field="magic", offset_bytes=token - 4, expected=MAGIC, actual=record.magic)
    if record.magic != MAGIC:
        raise CorruptError(file=file, field="magic", offset_bytes=token - 4, expected=MAGIC, actual=record.magic)
    length_bytes = record.footer_length
    length_max_bytes = token - PARQUET_SIZE_MIN_BYTES
    if not 1 <= length_bytes <= length_max_bytes:
        raise CorruptError(
            file=file,
            field="footer_length",
            offset_bytes=at,
            expected=f"1 to {length_max_bytes} bytes before it",
            actual=length_bytes,
        )
    return at - length_bytes, length_bytes


def decode_footer(
    footer_bytes: bytes,
    *,
    file: str,
    offset_bytes: int,
    tolerant: bool = False,
    node_count_max: int = NODE_COUNT_MAX,
    known: Known | None = None,
) -> ParquetFooter:
    """Return the footer that stands at `offset_bytes` of `file`; bytes behind its stop byte are ignored.

    `tolerant` takes negative counts and places of auxiliary structures as found, as QuestDB's converter does; `known`
    has met footers of this file alone, and read alike.
    Raises CorruptError or UnsupportedError, naming field path and offset.
    """
    tree, length_bytes = decode(
        footer_bytes,
        file=file,
        offset_bytes=offset_bytes,
        node_count_max=node_count_max,
        path_of=FILE_META_DATA.path_text,
        known=known,
    )
    try:
        return _footer(tree, length_bytes, read(tree, FILE_META_DATA, tolerant=tolerant, known=known))
    except BrokenError as error:
        error.report(file, FILE_META_DATA.path_text)


def start_of(meta: Mapping[str, Any]) -> int:
    """Return where the chunk of a ColumnMetaData starts, by its members' names."""
    return int(meta.get("dictionary_page_offset") or meta["data_page_offset"])


def _footer(tree: Struct, length_bytes: int, values: dict[str, Any]) -> ParquetFooter:
    try:
        leaves = read_leaves(values["schema"])
    except BrokenError as error:
        error.steps.append("schema")
        error.offset_bytes = tree.offset_bytes if error.offset_bytes is None else error.offset_bytes
        raise
    return ParquetFooter(
        tree=tree,
        offset_bytes=tree.offset_bytes,
        length_bytes=length_bytes,
        version=values["version"],
        num_rows=values["num_rows"],
        created_by=values.get("created_by"),
        key_values=tuple((pair["key"], pair.get("value")) for pair in values.get("key_value_metadata", ())),
        leaves=leaves,
        row_groups=tuple(
            _row_group(group, f"[{index}]", len(leaves)) for index, group in enumerate(values["row_groups"])
        ),
    )


def _row_group(values: dict[str, Any], step: str, leaf_count: int) -> RowGroup:
    columns = values["columns"]
    if len(columns) != leaf_count:
        expected = f"{leaf_count} chunks, one for each leaf"
        error = BrokenError(expected, len(columns), values["offset_bytes"], step="columns")
        error.steps += [step, "row_groups"]
        raise error
    return RowGroup(
        offset_bytes=values["offset_bytes"],
        num_rows=values["num_rows"],
        total_byte_size=values["total_byte_size"],
        ordinal=values.get("ordinal"),
        sorting_columns=tuple(
            SortingColumn(
                column_index=entry["column_index"], descending=entry["descending"], nulls_first=entry["nulls_first"]
            )
            for entry in values.get("sorting_columns", ())
        ),
        chunks=tuple(_chunk(column, column["meta_data"]) for column in columns),
    )


def _chunk(column: dict[str, Any], values: dict[str, Any]) -> ColumnChunk:
    return ColumnChunk(
        offset_bytes=column["offset_bytes"],
        path_in_schema=tuple(values["path_in_schema"]),
        physical_type=values["type"],
        codec=Codec(values["codec"]),
        encodings=tuple(values["encodings"]),
        num_values=values["num_values"],
        total_compressed_size=values["total_compressed_size"],
        total_uncompressed_size=values["total_uncompressed_size"],
        data_page_offset=values["data_page_offset"],
        dictionary_page_offset=values.get("dictionary_page_offset") or None,
        statistics=_statistics(values["statistics"]) if "statistics" in values else None,
        bloom_filter_offset=values.get("bloom_filter_offset"),
        bloom_filter_length=values.get("bloom_filter_length"),
        column_index_offset=column.get("column_index_offset"),
        column_index_length=column.get("column_index_length"),
        offset_index_offset=column.get("offset_index_offset"),
        offset_index_length=column.get("offset_index_length"),
        file_path=column.get("file_path"),
    )


def _statistics(values: dict[str, Any]) -> Statistics:
    return Statistics(
        min_value=values.get("min_value"),
        max_value=values.get("max_value"),
        null_count=values.get("null_count"),
        distinct_count=values.get("distinct_count"),
        is_min_value_exact=values.get("is_min_value_exact"),
        is_max_value_exact=values.get("is_max_value_exact"),
        deprecated_min=values.get("min"),
        deprecated_max=values.get("max"),
    )
