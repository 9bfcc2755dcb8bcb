"""Files whose columns of numbers are in a new encoding too, or in that alone, and what reading them gives."""

import functools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from footer_forms import FILE, reader_of
from parquet_files import footer_bytes, written

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicate_pages import is_encodable
from tornproof.impl.chunk.duplicate_values import ChunkValues, is_new_alone, read_chunk_values
from tornproof.impl.chunk.duplicates import ChunkForm, duplicates_in, meta_data_of
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.footer import read_file_footer
from tornproof.impl.layout.encodings import DuplicateTail
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import FormChange, change_footer_form
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.parquet.thrift import encode
from tornproof.impl.storage.interface import OpenMode

ROW_COUNT, GROUP_ROW_COUNT = 48, 20


@functools.cache
def numbers_file() -> bytes:
    """Return a small file with each type that has a new encoding, nulls, a text between, pages, indexes, checksums."""
    count = ROW_COUNT
    table = pa.table(
        {
            "name": pa.array([f"name {index % 3}" for index in range(count)]),
            "ts": pa.array(range(0, 2 * count, 2), pa.timestamp("us")),
            "price": pa.array([None if index % 5 == 2 else index / 8 for index in range(count)]),
            "text": pa.array([None if index % 2 else "x" * index for index in range(count)]),
            "size": pa.array([np.nan, -0.0, *(index / 7 for index in range(count - 2))], pa.float32()),
            "some": pa.array([None if index % 4 else index for index in range(count)], pa.int32()),
            "lists": pa.array([[index, 2] for index in range(count)]),
        }
    )
    options = {"write_page_index": True, "write_page_checksum": True, "sorting_columns": None}
    return written(table, row_group_size=GROUP_ROW_COUNT, data_page_size=64, **options)


def changed(
    content: bytes, chunks: ChunkForm | None, form: FooterForm | None = None, file: str = FILE
) -> tuple[bytes, FormChange]:
    """Return a file in another form, and what the change says."""
    storage = MemoryStorage()
    with storage.open_for_writing(file, OpenMode.NEW) as handle:
        handle.pwrite(content, 0)
    done = change_footer_form(storage, file, form, chunks=chunks)
    return storage.image().files[file], done


@functools.cache
def in_chunk_form(chunks: ChunkForm, form: FooterForm = FooterForm.THRIFT) -> bytes:
    """Return the small file in a form."""
    return changed(numbers_file(), chunks, form)[0]


def footer_of_form(content: bytes) -> ParquetFooter:
    """Return the footer of a file in any form."""
    return read_file_footer(reader_of(content), len(content), file=FILE).decoded()


class Bits(NamedTuple):
    """The values of a chunk: which are not null, and the bits of these."""

    validity: list[bool]
    content: bytes


def bits_of(values: ChunkValues) -> Bits:
    """Return the values to the bit."""
    return Bits(values.values.is_valid().to_pylist(), values.values.drop_null().to_numpy().tobytes())


def all_values(content: bytes) -> dict[tuple[int, int], ChunkValues]:
    """Return the values of each chunk of numbers, by row group and column."""
    footer = footer_of_form(content)
    return {
        (index, column): read_chunk_values(reader_of(content), footer, index, column, file=FILE)
        for index in range(len(footer.row_groups))
        for column, leaf in enumerate(footer.leaves)
        if is_encodable(leaf)
    }


def outcome_of(damaged: bytes, right: dict[tuple[int, int], Bits]) -> str:
    """Return what reading all chunks of numbers of a damaged file gives: right or wrong values, or an error."""
    try:
        found = all_values(damaged)
    except (CorruptError, UnsupportedError):
        return "rejected"
    if {key: bits_of(values) for key, values in found.items()} != right:
        return "silent"
    return "fallback" if any(values.doubt for values in found.values()) else "right"


def records_in(content: bytes) -> dict[tuple[int, int], DuplicateTail]:
    """Return the records of all duplicates, by row group and column."""
    found = duplicates_in(footer_of_form(content), file=FILE)
    return {(index, column): each.record for index, column, each in found if each.record is not None}


def duplicate_bits(content: bytes) -> list[int]:
    """Return all bits of new chunks, and of what the footer says of their columns, extensions included."""
    encoded, offset = footer_bytes(content)
    footer, records = footer_of_form(content), records_in(content)
    sizes = {key: (record.chunk_offset, record.chunk_length) for key, record in records.items()}
    for index, group in enumerate(footer.row_groups):
        for column, chunk in enumerate(group.chunks):
            if is_new_alone(chunk):
                sizes[index, column] = chunk.data_page_offset, chunk.total_compressed_size
    spans = [(start, start + size) for start, size in sizes.values()]
    for key in sizes:
        meta = encode(meta_data_of(footer, *key))
        start = offset + encoded.index(meta)
        spans.append((start, start + len(meta)))
    return [bit for start, end in spans for bit in range(8 * start, 8 * end)]
