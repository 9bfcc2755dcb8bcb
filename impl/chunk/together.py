"""Small chunks of one row group, decoded by one call of pyarrow.

To open one chunk takes as long as to decode thousands of values, so of a row group with hundreds of columns the chunks
are placed behind each other, as in a file. Each is checked exactly as if it were alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from tornproof.impl.chunk.chunk import CheckedPages, check_pages, checked_values, validated
from tornproof.impl.chunk.expansion import PYARROW_ERRORS
from tornproof.impl.chunk.metadata import StoredChunk, row_group_metadata
from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.arrow_reader import open_reader
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.parquet.single_pages import single_pages
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column

SMALL_BYTES = 16 << 10
SMALL_VALUE_COUNT = 4096
SMALL_EXPANDED_BYTES = 64 << 10
TOGETHER_COUNT_MAX = 256
"""More at once save no more time; their values take at most 24 MiB."""
MANY_COUNT = 16
"""Of fewer chunks, it takes no longer to fetch them and to read their page headers one by one."""


class Piece(NamedTuple):
    """A chunk, and all of its bytes in data.parquet."""

    content: bytes
    column: Column
    chunk: Chunk


def is_small(chunk: Chunk) -> bool:
    """Whether a chunk takes so little time to decode that it is worth being decoded with others."""
    return chunk.total_compressed <= SMALL_BYTES and 0 < chunk.num_values <= SMALL_VALUE_COUNT


def decode_together(pieces: Sequence[Piece], *, file: str) -> list[pa.Array | None]:
    """Return what `decode_chunk` returns for each piece, or None for one that it has to decode, or to reject.

    A problem in one of them is a reason to return None for all.
    """
    found: list[pa.Array | None] = [None] * len(pieces)
    try:
        row_count = pieces[0].chunk.num_values
        pages = _single_pages(pieces, row_count)
        checked = [check_pages(*piece, file=file, page=page) for piece, page in zip(pieces, pages, strict=True)]
        places = [place for place, each in enumerate(checked) if _fits(pieces[place].chunk, each, row_count)]
        stored = _read([pieces[place] for place in places], [checked[place] for place in places])
        values = [
            checked_values(array, pieces[place].column, pieces[place].chunk, checked[place], file=file)
            for place, array in zip(places, stored, strict=True)
        ]
    except (ProblemError, *PYARROW_ERRORS):
        return found
    for place, array in zip(places, values, strict=True):
        found[place] = array
    return found


def _single_pages(pieces: Sequence[Piece], row_count: int) -> list[PageInfo | None]:
    """Return the page of each chunk that is known to be one ordinary page."""
    if len(pieces) < MANY_COUNT:
        return [None] * len(pieces)
    contents = [piece.content for piece in pieces]
    offsets_bytes = [piece.chunk.byte_range_start for piece in pieces]
    codecs = [piece.chunk.codec for piece in pieces]
    return single_pages(b"".join(contents), list(map(len, contents)), offsets_bytes, codecs, row_count)


def _fits(chunk: Chunk, checked: CheckedPages, row_count: int) -> bool:
    """Whether a chunk can be in a row group of so many rows, and is known to take little memory."""
    is_flat, expanded_bytes = checked.leaf.dimensions == 0, checked.expanded_bytes
    is_known = expanded_bytes is not None and expanded_bytes <= SMALL_EXPANDED_BYTES
    return is_flat and is_known and chunk.num_values == row_count


def _read(pieces: Sequence[Piece], checked: Sequence[CheckedPages]) -> list[pa.Array]:
    """Return the values of chunks as they are stored; raises pyarrow's errors."""
    if not pieces:
        return []
    chunks = [
        StoredChunk(each.leaf, chunk.codec, chunk.num_values, chunk.total_compressed)
        for each, (_, _, chunk) in zip(checked, pieces, strict=True)
    ]
    content = b"".join([piece.content for piece in pieces])
    reader = open_reader(content, row_group_metadata(tuple(chunks)))
    # Faster than reading the row group as a table.
    return [validated(reader.read_column(position)) for position in range(len(pieces))]
