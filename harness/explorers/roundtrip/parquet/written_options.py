"""Whether what a writer is asked for is in its files, as pyarrow sees them: codecs, checksums, bounds, limits.

And whether what no file of the table can have is refused.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.footer import SortingColumn
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table
from tornproof.impl.types.names import type_code
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.writer_options import BloomOptions, OptionsRejectedError, WriterOptions

PROPERTY = "files are written as the options of the writer say"
PATH = "options"
COLUMNS = {"ts": "TIMESTAMP", "v": "LONG", "d": "DOUBLE", "name": "VARCHAR", "flag": "BOOLEAN", "raw": "BINARY"}
ROW_COUNT, GROUP_ROWS = 60, 20
CODECS = {
    Codec.UNCOMPRESSED: "UNCOMPRESSED",
    Codec.SNAPPY: "SNAPPY",
    Codec.GZIP: "GZIP",
    Codec.BROTLI: "BROTLI",
    Codec.ZSTD: "ZSTD",
    Codec.LZ4_RAW: "LZ4",
}
BY_TIME = (pq.SortingColumn(0),)
OTHERS = {"v": Encoding.DELTA_BINARY_PACKED, "d": Encoding.BYTE_STREAM_SPLIT, "name": Encoding.DELTA_BYTE_ARRAY}


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a writer, and what they are in words."""

    name: str
    options: WriterOptions


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
        "the highest level of a codec": EncodeOptions(
            codec=Codec.ZSTD, level=pa.Codec.maximum_compression_level("zstd")
        ),
        "the lowest level of one column": EncodeOptions(columns={"d": ColumnOptions(codec=Codec.GZIP, level=1)}),
        "dictionaries": EncodeOptions(columns={name: ColumnOptions(encoding=Encoding.DICTIONARY) for name in OTHERS}),
        "other encodings": EncodeOptions(columns={name: ColumnOptions(encoding=each) for name, each in OTHERS.items()}),
        **{f"the codec {name}": EncodeOptions(codec=codec) for codec, name in CODECS.items()},
    }
    return tuple(
        Asked(name, WriterOptions(row_group_row_count_max=GROUP_ROWS, encoding=each))
        for name, each in encodings.items()
    )


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
            sorting=(SortingColumn(column_index=1, descending=False, nulls_first=False),)
        ),
        "a footer that servers cannot read": EncodeOptions(footer_extension=FooterForm.FINAL),
        "no bounds of the timestamp": EncodeOptions(columns={"ts": ColumnOptions(statistics=False)}),
        "a column that is not there": EncodeOptions(columns={"w": ColumnOptions(statistics=False)}),
        "an encoding of another type": EncodeOptions(columns={"name": ColumnOptions(encoding=OTHERS["v"])}),
    }
    blooms = {"a filter of booleans": {"flag": 0.5}, "a filter of a column that is not there": {"w": 0.5}}
    blooms |= {f"a rate of {rate}": {"v": rate} for rate in (0.0, 1.0)}
    return (
        *(Wrong(name, {"encoding": each}) for name, each in encodings.items()),
        *(Wrong(name, {"blooms": BloomOptions(columns=each)}) for name, each in blooms.items()),
        *(Wrong(f"no {what} in a row group", {f"row_group_{what}_max": 0}) for what in ("row_count", "size_bytes")),
    )


@errors_as_problems
def problem_of(each: Asked | Wrong) -> str | None:
    """Say what is not as it was asked for in a file of some row groups, or not refused; None if all is."""
    if isinstance(each, Wrong):
        return None if _is_refused(each.settings) else "nothing refuses it"
    return next(_differences(_written(each.options), each.options.encoding), None)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of files that were written with other options."""
    for each in asked():
        other = next(found for found in asked() if found.options != each.options)
        if next(_differences(_written(other.options), each.options.encoding), None) is None:
            yield f"{each.name}: a file with other options was not noticed"
    if _is_refused({}):
        yield "what is accepted counts as refused"


def _is_refused(settings: dict[str, Any]) -> bool:
    """Whether the options, or else both the writer and the preparation of a partition, are refused."""
    try:
        options = WriterOptions(**settings)
    except OptionsRejectedError:
        return True
    storage, table = _empty_table()
    assert table.metadata is not None, "the table was made here"
    refused = 0
    for begin in (
        lambda: open_writer_of_copy(storage, PATH, options=options),
        lambda: PartitionBuild(storage, f"{PATH}/prepared", table.metadata, options, table_name=PATH),
    ):
        try:
            with begin():
                pass
        except OptionsRejectedError:
            refused += 1
    return refused == 2


def _empty_table() -> tuple[MemoryStorage, Table]:
    storage = MemoryStorage()
    columns = [NewColumn(name=name, type=type_code(of) or 0) for name, of in COLUMNS.items()]
    return storage, create_table(storage, PATH, columns, timestamp="ts", partition_by=PartitionBy.DAY)


def _written(options: WriterOptions) -> bytes:
    storage, table = _empty_table()
    with open_writer_of_copy(storage, PATH, options=options) as writer:
        writer.write(rows_for(table, [FIRST_TIME + row for row in range(ROW_COUNT)], seed=1))
        writer.commit()
    (partition,) = table.transaction().partitions
    with table.files_of(partition).open_data() as data:
        return data.pread(partition.token, 0)


def _differences(content: bytes, options: EncodeOptions) -> Iterator[str]:
    """Yield what a file of Parquet has otherwise than it should."""
    file = pq.ParquetFile(io.BytesIO(content))
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    if [group.num_rows for group in groups] != [GROUP_ROWS] * (ROW_COUNT // GROUP_ROWS):
        yield f"row groups have {[group.num_rows for group in groups]} rows"
    if any(group.sorting_columns != BY_TIME for group in groups):
        yield "row groups do not say that they are sorted by time"
    for index, name in enumerate(COLUMNS):
        chunk, own = groups[0].column(index), options.columns.get(name, ColumnOptions())
        codec = CODECS[options.codec if own.codec is None else own.codec]
        if chunk.compression != codec:
            yield f"column {name} has the codec {chunk.compression} instead of {codec}"
        has_bounds = name == "ts" or (options.statistics if own.statistics is None else own.statistics)
        if (chunk.statistics is not None and chunk.statistics.has_min_max) != has_bounds:
            yield f"column {name} has bounds: {not has_bounds}"
        if (chunk.has_column_index or chunk.has_offset_index) and not options.page_index:
            yield f"column {name} has a page index"
        if not chunk.has_offset_index and options.page_index:
            yield f"column {name} has no page index"
        if own.encoding is not None and own.encoding.value.name not in chunk.encodings:
            yield f"column {name} has the encodings {chunk.encodings}"
    has_checksums = _damage_is_noticed(content, groups[0].column(1))
    if has_checksums != options.page_checksums:
        yield f"pages have checksums: {has_checksums}"


def _damage_is_noticed(content: bytes, chunk: Any) -> bool:
    """Whether a reader that looks at the checksums of pages rejects a flipped bit at the end of a column chunk."""
    last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
    damaged = content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :]
    try:
        pq.read_table(io.BytesIO(damaged), page_checksum_verification=True)
    except OSError as error:
        return "CRC" in str(error)
    return False
