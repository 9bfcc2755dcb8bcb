"""Whether what a writer is asked for is in its files: codecs, levels, encodings, pages, checksums, bounds, limits.

Column chunks must be those that pyarrow writes of the same values with the settings of one column alone, which docs/
writing.md says. And whether what no file of the table can have is refused.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.new_tables import TIME, new_table
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import errors_as_problems, needed, the_only
from tornproof.harness.explorers.roundtrip.forms import parquet_of
from tornproof.harness.explorers.roundtrip.parquet.array_bytes import stored_of
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.footer import SortingColumn
from tornproof.impl.parquet.thrift import struct_list
from tornproof.impl.table.table import Table
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions

PROPERTY = "files are written as the options of the writer say"
PATH = "options"
COLUMNS = {
    **{"v": "LONG", TIME: "TIMESTAMP", "d": "DOUBLE", "name": "VARCHAR", "flag": "BOOLEAN", "raw": "BINARY"},
    **{"key": "SYMBOL", "u": "UUID", "list": "DOUBLE[]", "n": "INT", "f": "FLOAT"},
}
GROUPS_COMPARED_MAX = 3
HIGHEST = "the highest level of a codec"
NEVER_NULL = frozenset({"TIMESTAMP", "BOOLEAN"})
ROW_COUNT, GROUP_ROWS = 60, 20
CODECS = {
    Codec.UNCOMPRESSED: "UNCOMPRESSED",
    Codec.SNAPPY: "SNAPPY",
    Codec.GZIP: "GZIP",
    Codec.BROTLI: "BROTLI",
    Codec.ZSTD: "ZSTD",
    Codec.LZ4_RAW: "LZ4",
}
PYARROW_NAMES = {Codec.UNCOMPRESSED: "NONE"}
"""Those that pyarrow does not take by the name by which it shows them."""
LEVELS = {Codec.GZIP: (6, 1), Codec.BROTLI: (0, 11), Codec.ZSTD: (19, 10), Codec.LZ4_RAW: (9, 12)}
"""Of each codec that has any, two that are not its default, and that make other bytes of the texts here."""
MANY_ROWS, LONG_TEXT = 1_200, "x" * 2_200
"""pyarrow looks at the bytes of a page or a dictionary after each 1,024 rows; by default both have a mebibyte."""
SORTING_COLUMNS = 4
"""The field of a row group in parquet.thrift."""
ENCODABLE = {
    Encoding.DICTIONARY: "ts v d name raw key u list n f",
    Encoding.PLAIN: "ts v d name flag raw u list n f",
    Encoding.DELTA_BINARY_PACKED: "ts v n",
    Encoding.DELTA_LENGTH_BYTE_ARRAY: "name raw list",
    Encoding.DELTA_BYTE_ARRAY: "name raw u list",
    Encoding.BYTE_STREAM_SPLIT: "ts v d u n f",
}
"""The columns that can be in each encoding; symbols are always in a dictionary."""
UNREADABLE = {
    Encoding.DICTIONARY: "list",
    Encoding.DELTA_BYTE_ARRAY: "raw u list",
    Encoding.BYTE_STREAM_SPLIT: ENCODABLE[Encoding.BYTE_STREAM_SPLIT],
}
"""Those of them that no server reads then."""
AS_DEFAULT = frozenset(
    {
        *("the default", "the codec LZ4", "all that can be in PLAIN"),
        *(f"at most {limit} bytes in a row group" for limit in ("20 rows and 1000000000", "100 rows and 2400")),
    }
)
"""What is asked for in words that leaves the file as it is by default."""
OTHERS = {"v": Encoding.DELTA_BINARY_PACKED, "d": Encoding.BYTE_STREAM_SPLIT, "name": Encoding.DELTA_BYTE_ARRAY}


@dataclass(frozen=True, slots=True)
class Asked:
    """Settings of a writer, what they are in words, the columns of its table, and whether it has many long texts."""

    name: str
    settings: dict[str, Any]
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)
    is_large: bool = False

    @property
    def options(self) -> WriterOptions:
        """The options; raises OptionsRejectedError if they are refused."""
        return WriterOptions(**self.settings)


@dataclass(frozen=True, slots=True)
class Wrong:
    """Settings of a writer that must be refused, and what they are in words."""

    name: str
    settings: dict[str, Any]


@functools.cache
def asked() -> tuple[Asked, ...]:
    """Return options of which each differs from the default in one."""
    encodings = {
        "the default": EncodeOptions(),
        "no checksums of pages": EncodeOptions(page_checksums=False),
        "no bounds": EncodeOptions(statistics=False),
        "no page index": EncodeOptions(page_index=False),
        "no bounds of one column": EncodeOptions(columns={"v": ColumnOptions(statistics=False)}),
        "bounds of one column": EncodeOptions(statistics=False, columns={"v": ColumnOptions(statistics=True)}),
        "another codec of one column": EncodeOptions(columns={"d": ColumnOptions(codec=Codec.GZIP)}),
        HIGHEST: EncodeOptions(codec=Codec.ZSTD, level=pa.Codec.maximum_compression_level("zstd")),
        "the lowest level of one column": EncodeOptions(columns={"d": ColumnOptions(codec=Codec.GZIP, level=1)}),
        "dictionaries": EncodeOptions(columns={name: ColumnOptions(encoding=Encoding.DICTIONARY) for name in OTHERS}),
        "other encodings": EncodeOptions(columns={name: ColumnOptions(encoding=each) for name, each in OTHERS.items()}),
        "pages of few rows": EncodeOptions(page_row_count_max=7),
        "pages of few rows without checksums": EncodeOptions(page_row_count_max=3, page_checksums=False),
        "no bounds, and another codec of the timestamp": EncodeOptions(
            statistics=False, columns={TIME: ColumnOptions(codec=Codec.GZIP, level=1, encoding=OTHERS["v"])}
        ),
        **{f"the codec {name}": EncodeOptions(codec=codec) for codec, name in CODECS.items()},
    }
    encodings |= {
        f"all that can be in {encoding.name}": EncodeOptions(
            columns={name: ColumnOptions(encoding=encoding) for name in names.split()}
        )
        for encoding, names in ENCODABLE.items()
    }
    common = {"row_group_row_count_max": GROUP_ROWS, "allow_unreadable_by_servers": True}
    asked = (Asked(name, {**common, "encoding": each}) for name, each in encodings.items())
    return (*asked, *_mixed_codecs(), *_sizes(), *_large())


def _mixed_codecs() -> Iterator[Asked]:
    """Yield each codec as the default, with columns that have it, it at another level, and each other codec."""
    own = [ColumnOptions(codec=codec, level=level) for codec in CODECS for level in (None, *LEVELS.get(codec, ())[1:])]
    for codec in CODECS:
        level, *others = LEVELS.get(codec, (None,))
        every = [ColumnOptions(), *(ColumnOptions(level=other) for other in others), *own]
        columns = {f"text {number}": each for number, each in enumerate(every)}
        yield Asked(
            f"the codec {codec.name} at level {level}, and others of single columns",
            {
                "row_group_row_count_max": GROUP_ROWS,
                "encoding": EncodeOptions(codec=codec, level=level, columns=columns),
            },
            {TIME: "TIMESTAMP", **dict.fromkeys(columns, "VARCHAR")},
        )


def _sizes() -> Iterator[Asked]:
    """Yield limits of row groups."""
    for row_count, size_bytes in ((GROUP_ROWS, 10**9), (100, 2_400), (100, 1_200), (100, 1)):
        settings = {"row_group_row_count_max": row_count, "row_group_size_bytes_max": size_bytes}
        yield Asked(f"at most {row_count} rows and {size_bytes} bytes in a row group", settings)


def _large() -> Iterator[Asked]:
    """Yield many texts, the long ones first, which are not compressed, as they repeat much."""
    by_dictionary = {"name": ColumnOptions(encoding=Encoding.DICTIONARY)}
    plain = EncodeOptions(codec=Codec.UNCOMPRESSED)
    for name, encoding, settings in (
        ("long texts", plain, {}),
        ("long texts in pages of few bytes", replace(plain, page_size_bytes=4096), {}),
        ("long texts in a dictionary", replace(plain, columns=by_dictionary), {}),
        ("long texts in row groups of few bytes", plain, {"row_group_size_bytes_max": 300_000}),
    ):
        yield Asked(name, {"encoding": encoding, **settings}, {TIME: "TIMESTAMP", "name": "VARCHAR"}, is_large=True)


@functools.cache
def wrong() -> tuple[Wrong, ...]:
    """Return settings of which each breaks one rule."""
    highest = pa.Codec.maximum_compression_level("zstd")
    encodings = {
        "a level below those of its codec": EncodeOptions(codec=Codec.GZIP, level=0),
        "a level above those of its codec": EncodeOptions(codec=Codec.ZSTD, level=highest + 1),
        "a level of a codec without any": EncodeOptions(codec=Codec.SNAPPY, level=1),
        "a wrong level of one column": EncodeOptions(columns={"d": ColumnOptions(codec=Codec.ZSTD, level=highest + 1)}),
        "a codec that is not written": EncodeOptions(codec=Codec.LZO),
        "pages of no bytes": EncodeOptions(page_size_bytes=0),
        "pages of no rows": EncodeOptions(page_row_count_max=0),
        "another order of rows": EncodeOptions(
            sorting=(SortingColumn(column_index=0, descending=False, nulls_first=False),)
        ),
        "a footer that servers cannot read": EncodeOptions(footer_extension=FooterForm.FINAL),
        "a footer that servers cannot go on with": EncodeOptions(footer_extension=FooterForm.MIGRATION),
        "a footer beside which servers cannot go on": EncodeOptions(footer_extension=FooterForm.PRIVATE),
        "every number twice": EncodeOptions(duplicates=True),
        "no bounds of the timestamp": EncodeOptions(columns={TIME: ColumnOptions(statistics=False)}),
        "a column that is not there": EncodeOptions(columns={"w": ColumnOptions(statistics=False)}),
        "a level of the default codec that is not of its own": EncodeOptions(
            codec=Codec.ZSTD, level=highest, columns={"d": ColumnOptions(codec=Codec.GZIP, level=highest)}
        ),
        **{
            f"column {name} in {encoding.name}": EncodeOptions(columns={name: ColumnOptions(encoding=encoding)})
            for encoding, names in ENCODABLE.items()
            for name in COLUMNS
            if name not in names.split()
        },
        **{
            f"column {name} in {encoding.name}, which no server reads": EncodeOptions(
                columns={name: ColumnOptions(encoding=encoding)}
            )
            for encoding, names in UNREADABLE.items()
            for name in names.split()
        },
    }
    blooms = {"a filter of booleans": {"flag": 0.5}, "a filter of arrays": {"list": 0.5}}
    blooms |= {"a filter of a column that is not there": {"w": 0.5}}
    blooms |= {f"a rate of {rate}": {"v": rate} for rate in (0.0, 1.0, -0.5, 2.0, math.nan, math.inf)}
    return (
        *(Wrong(name, {"encoding": each}) for name, each in encodings.items()),
        *(Wrong(name, {"blooms": BloomOptions(columns=each)}) for name, each in blooms.items()),
        *(Wrong(f"no {what} in a row group", {f"row_group_{what}_max": 0}) for what in ("row_count", "size_bytes")),
    )


def problem_of(each: Asked | Wrong) -> str | None:
    """Say what is not as it was asked for in a file of some row groups, or not refused; None if all is."""
    if isinstance(each, Wrong):
        return None if _is_refused(each.settings) else "nothing refuses it"
    return _problem_of_other(each, each)


@errors_as_problems
def _problem_of_other(written: Asked, asked: Asked) -> str | None:
    return next(_differences(*_written(written), asked.options), None)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of files that were written with other options."""
    for each in asked()[::4]:
        others = [one for one in asked() if one.settings != each.settings and _rows_of(one) == _rows_of(each)]
        # Some files are as they should be with other limits of row groups.
        if all(_problem_of_other(other, each) is None for other in others):
            yield f"{each.name}: a file with other options was not noticed"
    by_name = {each.name: each for each in asked()}
    yield from _as_default(by_name["the default"])
    if _problem_of_other(by_name[HIGHEST], by_name["the codec ZSTD"]) is None:
        yield "a file at another level was not noticed"
    for written, wanted, words in (
        (
            "at most 100 rows and 2400 bytes in a row group",
            "at most 100 rows and 1200 bytes in a row group",
            "group has 2",
        ),
        (
            "at most 100 rows and 1200 bytes in a row group",
            "at most 100 rows and 2400 bytes in a row group",
            "has only",
        ),
        ("the codec GZIP", "the default", "has the codec GZIP instead of LZ4"),
        ("no bounds", "the default", "has bounds: False"),
        ("the default", "no page index", "has a page index"),
        ("no page index", "the default", "has no page index"),
        ("the default", "other encodings", "has the encodings"),
        ("no checksums of pages", "the default", "pages have checksums: False"),
    ):
        if words not in (_difference_with(words, by_name[written], by_name[wanted]) or ""):
            yield f"{wanted}: {written} was not noticed"
    words, one = f"row groups have {ROW_COUNT} rows", by_name["the default"]
    if words not in (_difference_with(words, one, one, times=2) or ""):
        yield "rows that are missing were not noticed"
    controls: Controls = (
        ("one place takes all", "tornproof.impl.write.partition_change:check_options", lambda *_: None, "nothing"),
    )
    yield from not_noticed(controls, problem_of, wrong())
    unsorted: Controls = (
        (
            "rows are not said to be sorted",
            "tornproof.impl.chunk.row_group_encoder:_sorting_field",
            lambda _: struct_list(SORTING_COLUMNS, ()),
            "sorted by time",
        ),
    )
    yield from not_noticed(unsorted, problem_of, [by_name["the default"]])
    if _is_refused({}):
        yield "what is accepted counts as refused"


def _as_default(default: Asked) -> Iterator[str]:
    """Yield options of the same rows that a file with none of them has as well, and should not."""
    others = (each for each in asked() if _rows_of(each) == _rows_of(default) and each.name not in AS_DEFAULT)
    for each in others:
        if _problem_of_other(default, each) is None:
            yield f"{each.name}: a file without these options was not noticed"


@errors_as_problems
def _difference_with(words: str, written: Asked, asked: Asked, *, times: int = 1) -> str | None:
    """Return what is said in these words of a file that should have the rows so many times."""
    content, rows = _written(written)
    found = _differences(content, pa.concat_tables([rows] * times), asked.options)
    return next((each for each in found if words in each), None)


def _is_refused(settings: dict[str, Any]) -> bool:
    """Whether the options, or else both the writer and the preparation of a partition, are refused."""
    try:
        options = WriterOptions(**settings)
    except OptionsRejectedError:
        return True
    storage, table = _empty_table()
    metadata = needed(table.metadata, "the new table has no metadata")
    refused = 0
    for begin in (
        lambda: open_writer_of_copy(storage, PATH, options=options),
        lambda: PartitionBuild(storage, f"{PATH}/prepared", metadata, options, table_name=PATH),
    ):
        try:
            with begin():
                pass
        except OptionsRejectedError:
            refused += 1
    return refused == 2


def _empty_table(columns: Mapping[str, str] = COLUMNS) -> tuple[MemoryStorage, Table]:
    storage = MemoryStorage()
    return storage, new_table(storage, PATH, columns)


def _rows_of(each: Asked) -> tuple[Any, ...]:
    return each.columns, each.is_large


def _written(each: Asked) -> tuple[bytes, pa.Table]:
    """Return the file that a writer makes, and the rows that it was given."""
    storage, table = _empty_table(each.columns)
    count = MANY_ROWS if each.is_large else ROW_COUNT
    rows = rows_for(table, [FIRST_TIME + row for row in range(count)], seed=1)
    if each.is_large:
        texts = [f"{row}{LONG_TEXT[row:]}" for row in range(count)]
        rows = rows.set_column(1, "name", pa.array(texts))
    with open_writer_of_copy(storage, PATH, options=each.options) as writer:
        writer.write(rows)
        writer.commit()
    partition = the_only(table.transaction().partitions)
    with table.files_of(partition).open_data() as data:
        return data.pread(partition.token, 0), rows


def _differences(content: bytes, rows: pa.Table, options: WriterOptions) -> Iterator[str]:
    """Yield what a file of Parquet has otherwise than it should."""
    file = pq.ParquetFile(io.BytesIO(content))
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    yield from _wrong_sizes([group.num_rows for group in groups], rows, options)
    by_time = (pq.SortingColumn(rows.column_names.index(TIME)),)
    if any(group.sorting_columns != by_time for group in groups):
        yield "row groups do not say that they are sorted by time"
    encoding = options.encoding
    for index, name in enumerate(rows.column_names):
        yield from _wrong_facts(name, groups[0].column(index), encoding)
        first, whole = 0, _in_stored_form(rows[name], is_key=COLUMNS.get(name) == "SYMBOL")
        for number, group in enumerate(groups[:GROUPS_COMPARED_MAX]):
            values = whole[first : first + group.num_rows]
            if _chunk(content, group.column(index)) != _as_pyarrow_writes(name, values, encoding):
                yield f"column {name} of row group {number} is not what pyarrow writes with these settings"
            first += group.num_rows
    has_checksums = _damage_is_noticed(content, groups[0].column(1))
    if has_checksums != encoding.page_checksums:
        yield f"pages have checksums: {has_checksums}"


def _wrong_sizes(row_counts: list[int], rows: pa.Table, options: WriterOptions) -> Iterator[str]:
    """Yield how many rows are in row groups that are too large, or without need less than half full."""
    most, size_bytes_max = options.row_group_row_count_max, options.row_group_size_bytes_max or 10**9
    first = 0
    for count in row_counts:
        # Taken out of the others, whose bits would count, too.
        size_bytes = rows.take(pa.array(range(first, first + count))).nbytes
        is_last = first + count == len(rows)
        if count > most or (size_bytes > size_bytes_max and count > 1):
            yield f"a row group has {count} rows of {size_bytes} bytes"
        if not is_last and count < most and size_bytes < size_bytes_max // 2:
            yield f"a row group has only {count} rows of {size_bytes} bytes"
        first += count
    if first != len(rows):
        yield f"row groups have {first} rows"


def _wrong_facts(name: str, chunk: Any, options: EncodeOptions) -> Iterator[str]:
    """Yield what is said otherwise of a column chunk than it should."""
    own = options.columns.get(name, ColumnOptions())
    codec = CODECS[options.codec if own.codec is None else own.codec]
    if chunk.compression != codec:
        yield f"column {name} has the codec {chunk.compression} instead of {codec}"
    has_bounds = name == TIME or (options.statistics if own.statistics is None else own.statistics)
    has_bounds = has_bounds and name != "list"
    if (chunk.statistics is not None and chunk.statistics.has_min_max) != has_bounds:
        yield f"column {name} has bounds: {not has_bounds}"
    if (chunk.has_column_index or chunk.has_offset_index) and not options.page_index:
        yield f"column {name} has a page index"
    if not chunk.has_offset_index and options.page_index:
        yield f"column {name} has no page index"
    if own.encoding is not None and own.encoding.value.name not in chunk.encodings:
        yield f"column {name} has the encodings {chunk.encodings}"


def _in_stored_form(column: pa.ChunkedArray, *, is_key: bool) -> pa.Array:
    """Return values as data.parquet has them; a new dictionary has symbols in the order of the rows."""
    values = column.combine_chunks()
    if is_key:
        return values.dictionary_encode()
    if pa.types.is_list(values.type):
        lists = values.to_pylist()
        return pa.array([None if each is None else stored_of((len(each),), each) for each in lists], pa.binary())
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    return values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _with_used_symbols(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return symbols with a dictionary that ends with the largest key in use."""
    count = 1 + max((key for key in values.indices.to_pylist() if key is not None), default=-1)
    return pa.DictionaryArray.from_arrays(values.indices, values.dictionary[:count])


def _chunk(content: bytes, chunk: Any) -> bytes:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    return content[start : start + chunk.total_compressed_size]


def _as_pyarrow_writes(name: str, values: pa.Array, options: EncodeOptions) -> bytes:
    """Return the chunk of a column that pyarrow writes alone, with the settings that are documented."""
    own = options.columns.get(name, ColumnOptions())
    codec, level = (options.codec, options.level) if own.codec is None else (own.codec, own.level)
    level = own.level if own.level is not None else level
    settings: dict[str, Any] = {"compression": PYARROW_NAMES.get(codec, CODECS[codec]), "compression_level": level}
    if own.encoding not in (None, Encoding.DICTIONARY):
        settings["column_encoding"] = own.encoding.value.name
    is_key = isinstance(values, pa.DictionaryArray)
    if is_key:
        values = _with_used_symbols(values)
    if options.page_row_count_max is not None:
        settings["max_rows_per_page"] = options.page_row_count_max
    is_required = COLUMNS.get(name) in NEVER_NULL
    table = pa.Table.from_arrays([values], schema=pa.schema([pa.field(name, values.type, nullable=not is_required)]))
    content = parquet_of(
        table,
        use_dictionary=is_key or own.encoding is Encoding.DICTIONARY,
        data_page_size=options.page_size_bytes,
        dictionary_pagesize_limit=1 << 30,
        write_page_index=options.page_index,
        write_page_checksum=options.page_checksums,
        **settings,
    )
    return _chunk(content, pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0))


def _damage_is_noticed(content: bytes, chunk: Any) -> bool:
    """Whether a reader that looks at the checksums of pages rejects a flipped bit at the end of a column chunk."""
    last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
    damaged = content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :]
    try:
        pq.read_table(io.BytesIO(damaged), page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        return "CRC" in str(error)
    return False
