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
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column

SMALL_BYTES = 16 << 10
SMALL_VALUE_COUNT = 4096
SMALL_EXPANDED_BYTES = 64 << 10
TOGETHER_COUNT_MAX = 64
"""More at once save no more time; in memory they are less than 8 MiB."""


class Piece(NamedTuple):
    """A chunk, and all of its bytes in data.parquet."""

    content: bytes
    column: Column
    chunk: Chunk


def decode_together(pieces: Sequence[Piece], *, file: str) -> list[pa.Array | None]:
    """Return what `decode_chunk` returns for each piece, or None for one that it has to decode, or to reject.

    A problem in one of them is a reason to return None for all.
    """
    try:
        checked = [check_pages(*piece, file=file) for piece in pieces]
        row_count = pieces[0].chunk.num_values
        places = [place for place, each in enumerate(checked) if _fits(pieces[place].chunk, each, row_count)]
        found: list[pa.Array | None] = [None] * len(pieces)
        stored = _read([pieces[place] for place in places], [checked[place] for place in places])
        for place, values in zip(places, stored, strict=True):
            _, column, chunk = pieces[place]
            found[place] = checked_values(values, column, chunk, checked[place], file=file)
    except (ProblemError, *PYARROW_ERRORS):
        return [None] * len(pieces)
    return found


def is_small(chunk: Chunk) -> bool:
    """Whether a chunk takes so little time to decode that it is worth being decoded with others."""
    return chunk.total_compressed <= SMALL_BYTES and 0 < chunk.num_values <= SMALL_VALUE_COUNT


def _fits(chunk: Chunk, checked: CheckedPages, row_count: int) -> bool:
    """Whether a chunk can be in a row group of so many rows, and is known to take little memory."""
    is_flat, expanded_bytes = checked.leaf.dimensions == 0, checked.expanded_bytes
    is_known = expanded_bytes is not None and expanded_bytes <= SMALL_EXPANDED_BYTES
    return is_flat and is_known and chunk.num_values == row_count


def _read(pieces: Sequence[Piece], checked: Sequence[CheckedPages]) -> list[pa.Array]:
    """Return the values of chunks as they are stored; raises pyarrow's errors."""
    if not pieces:
        return []
    metadata = row_group_metadata(
        tuple(
            [
                StoredChunk(each.leaf, chunk.codec, chunk.num_values, chunk.total_compressed)
                for each, (_, _, chunk) in zip(checked, pieces, strict=True)
            ]
        )
    )
    content = b"".join([piece.content for piece in pieces])
    table = open_reader(content, metadata).read_row_group(0, use_threads=False)
    return [validated(column) for column in table.itercolumns()]
