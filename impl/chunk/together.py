"""Small chunks of one row group, decoded by one call of pyarrow for all columns of a kind.

To open one chunk takes as long as to decode thousands of values, so of a row group with hundreds of columns the chunks
of one type are read as if they were one column. Each is checked exactly as if it were alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tornproof.impl.chunk.chunk import are_vouched, check_pages, check_values, final_values, leaf_of, validated
from tornproof.impl.chunk.expansion import PYARROW_ERRORS, expanded_page_bytes
from tornproof.impl.chunk.metadata import Leaf, StoredChunk, column_metadata
from tornproof.impl.chunk.statistics import are_exact
from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.arrow_reader import open_reader
from tornproof.impl.parquet.single_pages import SinglePages, single_pages
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.types.physical import PhysicalType

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
        for stored_chunks, vouched in _runs(pieces, file):
            arrays = _decode(stored_chunks, [pieces[place] for place in vouched], list(vouched.values()), file)
            for place, array in zip(vouched, arrays, strict=True):
                found[place] = array
    except (ProblemError, *PYARROW_ERRORS):
        return [None] * len(pieces)
    return found


def _runs(pieces: Sequence[Piece], file: str) -> Iterator[tuple[list[StoredChunk], dict[int, bool]]]:
    """Yield the places of pieces that can be one column of a file, and whether checksums vouch for each.

    Before them are the chunks of that column: all chunks that are one ordinary page are its pages, and any other is a
    chunk of its own. Raises as `check_pages`.
    """
    row_count = pieces[0].chunk.num_values
    known = _single_pages(pieces, row_count)
    for (_, leaf, codec), places in _kinds(pieces, row_count).items():
        pages = _of_one_page(known, leaf, places, row_count)
        if pages:
            size_bytes = sum([pieces[place].chunk.total_compressed for place in pages])
            # Such pages have no checksum.
            yield [StoredChunk(leaf, codec, len(pages) * row_count, size_bytes)], dict.fromkeys(pages, False)
        others: dict[int, bool] = {}
        for place in sorted(set(places).difference(pages)):
            checked = check_pages(*pieces[place], file=file)
            if checked.expanded_bytes is not None and checked.expanded_bytes <= SMALL_EXPANDED_BYTES:
                others[place] = are_vouched(checked.pages, pieces[place].column, pieces[place].chunk)
        if others:
            yield (
                [StoredChunk(leaf, codec, row_count, pieces[place].chunk.total_compressed) for place in others],
                others,
            )


def _single_pages(pieces: Sequence[Piece], row_count: int) -> SinglePages | None:
    sizes_bytes = [piece.chunk.total_compressed for piece in pieces]
    contents = [piece.content for piece in pieces]
    if len(pieces) < MANY_COUNT or sizes_bytes != list(map(len, contents)):
        return None
    return single_pages(b"".join(contents), sizes_bytes, [piece.chunk.codec for piece in pieces], row_count)


def _kinds(pieces: Sequence[Piece], row_count: int) -> dict[tuple[int, Leaf, int], list[int]]:
    """Return the places of flat columns with so many rows by type, form and codec."""
    kinds: dict[tuple[int, Leaf, int], list[int]] = defaultdict(list)
    for place, (_, column, chunk) in enumerate(pieces):
        leaf = leaf_of(column)
        # INT96 is looked at once more by those who decode it alone.
        if not isinstance(leaf, Leaf) or leaf.physical_type == PhysicalType.INT96:
            continue
        if leaf.dimensions == 0 and chunk.num_values == row_count:
            kinds[column.type, leaf, chunk.codec].append(place)
    return kinds


def _of_one_page(known: SinglePages | None, leaf: Leaf, places: list[int], row_count: int) -> list[int]:
    """Return the places of chunks that are known to be one ordinary page which takes little memory."""
    if known is None:
        return []
    sizes_bytes = expanded_page_bytes(leaf, row_count, known.uncompressed_bytes[places], known.encodings[places])
    return list(np.array(places)[known.usual[places] & (sizes_bytes <= SMALL_EXPANDED_BYTES)].tolist())


def _decode(
    stored_chunks: Sequence[StoredChunk], pieces: Sequence[Piece], vouched: Sequence[bool], file: str
) -> list[pa.Array | None]:
    """Return the values of pieces that are such chunks; raises as `decode_chunk`, and pyarrow's errors."""
    chunks, column, row_count = [piece.chunk for piece in pieces], pieces[0].column, pieces[0].chunk.num_values
    reader = open_reader(b"".join([piece.content for piece in pieces]), column_metadata(stored_chunks))
    stored = validated(reader.read_column(0))
    starts = range(0, len(pieces) * row_count, row_count)
    if len(stored) != starts.stop:
        return [None] * len(pieces)
    exact = are_exact(stored, column, chunks)
    for start, is_exact, is_vouched, piece in zip(starts, exact, vouched, pieces, strict=True):
        if not is_exact:
            # How many rows are in which page is asked where a chunk is decoded alone.
            values = stored.slice(start, row_count)
            check_values(values, piece.column, piece.chunk, [row_count], is_vouched=is_vouched, file=file)
    final = final_values(stored, column, chunks[0], file)
    # Copied, so that no column keeps all others in memory, and equal columns are the same bytes.
    return [pa.concat_arrays([final.slice(start, row_count)]) for start in starts]
