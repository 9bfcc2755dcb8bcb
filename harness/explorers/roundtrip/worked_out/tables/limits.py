"""What readers do at limits that need many bytes to reach, or are lower here than any file could reach otherwise."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tornproof.harness.common.new_tables import TIME, metadata_with, new_table_of_rows
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.forms import in_form, opened, parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import ENTRY, Entry, of_entries
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.duplicate_values import read_column_values
from tornproof.impl.chunk.duplicates import ChunkForm, duplicate_content
from tornproof.impl.chunk.expansion import bound_bytes
from tornproof.impl.chunk.together import is_small
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.pm.block import Chunk
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.metadata_file import META_FILE, TableColumn
from tornproof.impl.table.partition import read_chunks
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import safe_read
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.types.raw_arrays import lists_of

PATH, TXN = "table", "_txn"
MANY_ELEMENTS = 5_000_000
"""Of one array: more than the lists that may be in all of them."""
COLUMN_COUNT, ROW_COUNT = 6, 5
MEBIBYTE = 1 << 20
CHUNKS = (range(4, 9), range(9, 10), range(12, 20), range(21, 24))
"""The bytes of chunks that are close together."""


def limits() -> Iterator[Question]:
    """Yield reads of as much as may be, and of more, and of what is divided because it is much."""
    for most in range(COLUMN_COUNT - 1, COLUMN_COUNT + 2):
        words = f"what comes of metadata of {COLUMN_COUNT} columns where {most} may be"
        expected = COLUMN_COUNT if most >= COLUMN_COUNT else "UnsupportedError"
        yield ask("limits", words, expected, _columns_within, most)
    for most in range(1, COLUMN_COUNT + 1):
        words = f"whether each of {COLUMN_COUNT} columns is read where {most} are decoded together"
        yield ask("limits", words, True, _are_all_read, most)
    for most, sizes in ((1, [1] * 5), (2, [2, 2, 1]), (3, [3, 2]), (4, [4, 1]), (5, [5]), (6, [5])):
        words = f"the rows of the parts of a row group where a part has at most {most} nulls of a new column"
        yield ask("limits", words, sizes, _sizes_of_parts, most)
    for less, expected in ((0, 1), (1, "UnsupportedError")):
        words = f"what comes of a _txn whose record ends {less} bytes behind what may be read"
        yield ask("limits", words, expected, _partitions_within, less)
    for length_bytes, most in itertools.product((4, 5, 6, 7), (4, 5, 6)):
        words = f"which reads there are of a duplicate of {length_bytes} bytes where {most} may be, before byte 9"
        reads = [(length_bytes, 3)] if length_bytes <= min(most, 6) else []
        yield ask("limits", words, reads, _reads_of_duplicate, length_bytes, most)
    for size_bytes in range(CHUNKS[-1].stop + 2):
        words = f"the chunks that are read together from a file of {size_bytes} bytes, until one is not there"
        yield ask("limits", words, _expected_chunks(size_bytes), _read_together, size_bytes)
    for chunk_bytes, value_count in ((1, 1), (1, 100 * MEBIBYTE), (MEBIBYTE, 2), (2 * MEBIBYTE, 5)):
        words = f"how many bytes a chunk of {value_count} values in {chunk_bytes} bytes may decode to"
        yield ask("limits", words, max(64 * MEBIBYTE, 64 * chunk_bytes), _bound, chunk_bytes, value_count)
    for size_bytes, value_count in itertools.product((1, 16 << 10, (16 << 10) + 1), (0, 1, 4096, 4097)):
        words = f"whether a chunk of {value_count} values in {size_bytes} bytes is decoded with others"
        is_right = size_bytes <= 16 << 10 and 1 <= value_count <= 4096
        yield ask("limits", words, is_right, _is_small, size_bytes, value_count)
    for chunks, less in itertools.product((ChunkForm.OLD, ChunkForm.ALP_ALONE), (0, 1)):
        words = f"the values of {chunks} chunks of which one has {less} bytes more than may be"
        values = "UnsupportedError" if less else list(range(ROW_COUNT))
        yield ask("limits", words, values, _values_within, chunks, less)
    yield Question("limits", f"how many elements an array of {MANY_ELEMENTS} has", _elements, MANY_ELEMENTS)


def _many_columns() -> MemoryStorage:
    storage = MemoryStorage()
    types = {TIME: "TIMESTAMP", **{f"c{number}": "LONG" for number in range(1, COLUMN_COUNT)}}
    new_table_of_rows(storage, PATH, types, range(FIRST_TIME, FIRST_TIME + ROW_COUNT), seed=1)
    return storage


def _columns_within(most: int) -> Any:
    with replaced("tornproof.impl.pm.header:COLUMN_COUNT_LIMIT", most):
        return outcome_of(lambda: _rows(_many_columns()).num_columns)


def _are_all_read(most: int) -> bool:
    storage = _many_columns()
    expected = _rows(storage)
    with replaced("tornproof.impl.read.row_group:TOGETHER_COUNT_MAX", most):
        return bool(_rows(storage).equals(expected))


def _rows(storage: MemoryStorage) -> pa.Table:
    return pa.Table.from_batches(open_snapshot(open_table(storage, PATH)).batches())


def _sizes_of_parts(most: int) -> list[int]:
    image = table_of_rows(PATH, [(FIRST_TIME + number, number) for number in range(ROW_COUNT)])
    content = metadata_with(
        image, PATH, lambda columns: (*columns, TableColumn(id=len(columns), name="new", type=TypeTag.LONG))
    )
    image = image.with_file(f"{PATH}/{META_FILE}", content)
    with replaced("tornproof.impl.read.row_group:CONSTANT_SLICE_BYTES", most * 8):
        return [batch.num_rows for batch in open_snapshot(open_table(image, PATH)).batches()]


def _partitions_within(less: int) -> Any:
    made = of_entries([Entry(timestamp=FIRST_TIME, row_count=1)])
    end = made.entries_offset + ENTRY.size
    image = DiskImage.of_files({f"{PATH}/{TXN}": made.content()})
    with replaced("tornproof.impl.txn.transaction:AREA_LIMIT_BYTES", end - less):
        return outcome_of(lambda: len(safe_read(image, f"{PATH}/{TXN}", file=TXN).partitions))


def _bound(chunk_bytes: int, value_count: int) -> int:
    return bound_bytes(_chunk(chunk_bytes, value_count))


def _is_small(chunk_bytes: int, value_count: int) -> bool:
    return is_small(_chunk(chunk_bytes, value_count))


def _reads_of_duplicate(length_bytes: int, most: int) -> list[tuple[int, int]]:
    reads = list[tuple[int, int]]()

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        reads.append((size_bytes, offset_bytes))
        return bytes(size_bytes)

    record, footer = (
        SimpleNamespace(chunk_offset=3, chunk_length=length_bytes, chunk_crc=0),
        SimpleNamespace(offset_bytes=9),
    )
    with replaced("tornproof.impl.limits:CHUNK_LIMIT_BYTES", most):
        duplicate_content(read, cast(Any, record), cast(Any, footer))
    return reads


def _expected_chunks(size_bytes: int) -> list[Any]:
    there = [bytes(chunk) for chunk in CHUNKS if chunk.stop <= size_bytes]
    return there if len(there) == len(CHUNKS) else [*there, "CorruptError"]


def _read_together(size_bytes: int) -> list[Any]:
    storage, found = MemoryStorage(), list[Any]()
    with storage.open_for_writing("file", OpenMode.NEW) as file:
        file.pwrite(bytes(range(size_bytes)), 0)
    chunks = [_chunk(len(each), 1, each.start) for each in CHUNKS]
    with storage.open_for_reading("file") as handle:
        contents = read_chunks(handle, chunks, file="file")
        while len(found) < len(CHUNKS) and "CorruptError" not in found:
            found.append(outcome_of(lambda: next(contents)))
    return found


def _chunk(size_bytes: int, value_count: int, start: int = 4) -> Chunk:
    return chunk_of(value_count, byte_range_start=start, total_compressed=size_bytes)


def _values_within(chunks: ChunkForm, less: int) -> Any:
    content = in_form(parquet_of(pa.table({"n": range(ROW_COUNT)})), FooterForm.THRIFT, chunks)
    footer, read = opened(content).decoded(), reader_of(content)
    most = max(each.total_compressed_size for group in footer.row_groups for each in group.chunks) - less
    with replaced("tornproof.impl.limits:CHUNK_LIMIT_BYTES", most):
        return outcome_of(lambda: read_column_values(read, footer, "n", file=DATA_FILE).values.to_pylist())


def _elements() -> int:
    content = struct.pack("<I4x", MANY_ELEMENTS) + bytes(8 * MANY_ELEMENTS)
    lists = lists_of(pa.array([content], pa.binary()), 1, file="data.parquet", field="values", offset_bytes=0)
    return int(np.diff(lists.offsets)[0])
