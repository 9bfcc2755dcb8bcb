"""The options of a writer: sizes, encoding of pages, bloom filters of new files."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.bloom_filter import SALTS
from tornproof.impl.parquet.encode_options import (
    ENCODABLE,
    PYARROW_CODECS,
    ColumnOptions,
    EncodeOptions,
    Encoding,
    Options,
)
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.table.metadata_file import TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.questdb import TypeTag, tag_of

DEFAULT_OPTIONS = EncodeOptions()
DEFAULT_FALSE_POSITIVE_RATE = 0.01
"""The rate of QuestDB's own filters (measured on real files of release 9.4.2)."""

_ALLOWING = "WriterOptions(allow_unreadable_by_servers=True) has it written all the same"

COUNT_MAX = (1 << 63) - 1
"""The largest number of rows or bytes that an option can ask for."""


class BloomPosition(enum.Enum):
    """Where the bloom filters of a new file are stored."""

    INLINED = "in _pm"
    EXTERNAL = "in data.parquet, where _pm leads"
    BOTH = "in _pm, and in data.parquet for other readers"


class BloomOptions(Options, frozen=True, kw_only=True):
    """The columns of new files that have bloom filters, by name, with their false-positive rates."""

    columns: Mapping[str, float]
    position: BloomPosition = BloomPosition.INLINED


class WriterOptions(Options, frozen=True, kw_only=True):
    """Limits of sizes, and what is written; the default sizes are QuestDB's (docs/format.md).

    A row group exceeds neither of its limits, unless a single row does; its size is that of its rows in Arrow's form. A
    partition is rewritten into a new directory once its unused bytes exceed either limit. Without `blooms` new
    partitions have no filters, and rewritten ones keep theirs. Without `allow_unreadable_by_servers` what no server can
    go on with is rejected (docs/writing.md). Column names are those of the table. Raises OptionsRejectedError for
    options that are invalid for any table.
    """

    row_group_row_count_max: int = 100_000
    row_group_size_bytes_max: int | None = None
    rewrite_unused_ratio: float = 0.5
    rewrite_unused_bytes: int = 1 << 30
    encoding: EncodeOptions = msgspec.field(default_factory=EncodeOptions)
    blooms: BloomOptions | None = None
    allow_unreadable_by_servers: bool = False

    def __post_init__(self) -> None:
        """Reject invalid options."""
        super().__post_init__()
        for problem in _problems(self):
            raise OptionsRejectedError(problem)


def check_options(options: WriterOptions, metadata: TableMetadata) -> None:
    """Raise OptionsRejectedError for options that do not fit the table's columns."""
    columns = {column.name: column for column in metadata.columns}
    for name, own in options.encoding.columns.items():
        column = _column(columns, name)
        if own.encoding is not None:
            _check_encoding(column, own.encoding)
            if not (options.allow_unreadable_by_servers or is_read_by_servers(own.encoding, column.type)):
                raise OptionsRejectedError(f"column {name!r}: no server reads it in {own.encoding.name}; {_ALLOWING}")
        if own.statistics is False and column.id == metadata.timestamp_id:
            raise OptionsRejectedError(f"column {name!r}: the designated timestamp always has statistics")
    for name in options.blooms.columns if options.blooms else ():
        column = _column(columns, name)
        if not has_hashes(column.type):
            raise OptionsRejectedError(f"column {name!r}: there are no bloom filters of booleans and arrays")


def is_read_by_servers(encoding: Encoding, column_type: int) -> bool:
    """Return whether any server reads values of a type in an encoding that is for them (docs/writing.md).

    Source: QuestDB's `parquet_read/decode.rs` of July 2026, whose refusals are also those of release 9.3.4.
    """
    match encoding:
        case Encoding.BYTE_STREAM_SPLIT:
            return False
        case Encoding.DELTA_BYTE_ARRAY:
            return tag_of(column_type) is TypeTag.VARCHAR
        case Encoding.DICTIONARY:
            return tag_of(column_type) is not TypeTag.ARRAY
        case _:
            return True


def has_hashes(column_type: int) -> bool:
    """Return whether a column can have a bloom filter."""
    return tag_of(column_type) not in (None, TypeTag.BOOLEAN, TypeTag.ARRAY)


def encode_options(options: WriterOptions, file_names: Mapping[str, str], timestamp: str) -> EncodeOptions | None:
    """Return how to encode a file's row groups, or None for the encoder's defaults.

    `file_names` maps the columns' names in the table to those in the file; `timestamp` is the table's name for the
    designated timestamp, which always has statistics, because readers search by them.
    """
    asked = replace(options.encoding, footer_extension=None)
    if asked == DEFAULT_OPTIONS:
        return None
    columns = dict(asked.columns)
    if not asked.statistics:
        columns[timestamp] = replace(columns.get(timestamp, ColumnOptions()), statistics=True)
    return replace(asked, columns={file_names[name]: own for name, own in columns.items()})


def _problems(options: WriterOptions) -> Iterator[str]:
    if not 1 <= options.row_group_row_count_max <= COUNT_MAX:
        yield f"a row group has rows, not at most {options.row_group_row_count_max}"
    size_bytes_max = options.row_group_size_bytes_max
    if size_bytes_max is not None and not 1 <= size_bytes_max <= COUNT_MAX:
        yield f"a row group has bytes, not at most {options.row_group_size_bytes_max}"
    if not options.rewrite_unused_ratio >= 0:
        yield f"a ratio of unused bytes is not negative, and not {options.rewrite_unused_ratio}"
    if options.rewrite_unused_bytes < 0:
        yield f"unused bytes are not at most {options.rewrite_unused_bytes}"
    encoding = options.encoding
    for what, size in (("bytes", encoding.page_size_bytes), ("rows", encoding.page_row_count_max)):
        if size is not None and not 1 <= size <= COUNT_MAX:
            yield f"a page has {what}, not at most {size}"
    if encoding.sorting:
        yield "the sorting of row groups is not asked for: all are sorted by the designated timestamp, and say so"
    if encoding.footer_extension is FooterForm.FINAL:
        yield "footers without Thrift are not for tables: no server could read them"
    if not options.allow_unreadable_by_servers:
        yield from _unreadable_by_servers(encoding)
    for name in (None, *encoding.columns):
        whose = "all columns" if name is None else f"column {name!r}"
        codec, level = (encoding.codec, encoding.level) if name is None else encoding.codec_of(name)
        problem = _codec_problem(codec, level)
        if problem:
            yield f"{whose}: {problem}"
    for name, rate in (options.blooms.columns if options.blooms else {}).items():
        # As close to 1 as that, there is no number of bits.
        if not 0 < rate < 1 or rate ** (1 / len(SALTS)) == 1:
            yield f"column {name!r}: a false-positive rate is above 0 and below 1, not {rate}"


def _unreadable_by_servers(encoding: EncodeOptions) -> Iterator[str]:
    """Yield what no server can go on with, because it takes every binary field of a Thrift struct for text."""
    if encoding.footer_extension not in (None, FooterForm.THRIFT):
        yield f"footer_extension {encoding.footer_extension.name}: no server goes on with extended footers; {_ALLOWING}"
    if encoding.duplicates:
        yield f"duplicates: no server goes on with extended metadata of chunks; {_ALLOWING}"


def _codec_problem(codec: Codec, level: int | None) -> str | None:
    if codec not in PYARROW_CODECS:
        return f"{codec.name} is not written; there are {', '.join(known.name for known in PYARROW_CODECS)}"
    if level is None:
        return None
    name = PYARROW_CODECS[codec]
    if codec in (Codec.UNCOMPRESSED, Codec.SNAPPY):
        return f"{codec.name} has no levels"
    low, high = pa.Codec.minimum_compression_level(name), pa.Codec.maximum_compression_level(name)
    return None if low <= level <= high else f"the levels of {codec.name} are {low} to {high}, not {level}"


def _column(columns: Mapping[str, TableColumn], name: str) -> TableColumn:
    if name not in columns:
        raise OptionsRejectedError(f"there is no column {name!r}; the table has {', '.join(columns)}")
    return columns[name]


def _check_encoding(column: TableColumn, encoding: Encoding) -> None:
    form = physical_form(column.type)
    if tag_of(column.type) is TypeTag.SYMBOL and encoding is not Encoding.DICTIONARY:
        raise OptionsRejectedError(f"column {column.name!r}: symbols are encoded by dictionary, not as {encoding.name}")
    if form is None or form[0] not in ENCODABLE[encoding]:
        able = [other.name for other in Encoding if form and form[0] in ENCODABLE[other]]
        stored = form[0].name if form else "of an unknown type"
        raise OptionsRejectedError(
            f"column {column.name!r}: {encoding.name} is not for its values, which are {stored}; "
            f"there are {', '.join(able)}"
        )
