"""Whether what a writer is asked for is in its files, as pyarrow sees them: codecs, checksums, bounds, limits."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.names import type_code
from tornproof.impl.write.partition_change import WriterOptions

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
OTHERS = {"v": Encoding.DELTA_BINARY_PACKED, "d": Encoding.BYTE_STREAM_SPLIT, "name": Encoding.DELTA_BYTE_ARRAY}


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a writer, and what they are in words."""

    name: str
    options: WriterOptions


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
        "dictionaries": EncodeOptions(columns={name: ColumnOptions(encoding=Encoding.DICTIONARY) for name in OTHERS}),
        "other encodings": EncodeOptions(columns={name: ColumnOptions(encoding=each) for name, each in OTHERS.items()}),
        **{f"the codec {name}": EncodeOptions(codec=codec) for codec, name in CODECS.items()},
    }
    return tuple(
        Asked(name, WriterOptions(row_group_row_count_max=GROUP_ROWS, encoding=each))
        for name, each in encodings.items()
    )


@errors_as_problems
def problem_of(each: Asked) -> str | None:
    """Say what is not as it was asked for in a file of some row groups; None if all is."""
    return next(_differences(_written(each.options), each.options.encoding), None)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of files that were written with other options."""
    for each in asked():
        other = next(found for found in asked() if found.options != each.options)
        if next(_differences(_written(other.options), each.options.encoding), None) is None:
            yield f"{each.name}: a file with other options was not noticed"


def _written(options: WriterOptions) -> bytes:
    storage = MemoryStorage()
    columns = [NewColumn(name=name, type=type_code(of) or 0) for name, of in COLUMNS.items()]
    table = create_table(storage, PATH, columns, timestamp="ts", partition_by=PartitionBy.DAY)
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
