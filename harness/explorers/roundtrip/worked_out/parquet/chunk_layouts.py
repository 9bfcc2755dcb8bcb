"""Where the bytes of a file go when its chunks get others beside them, worked out byte by byte."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.chunk_layout import ChunkLayout, Move, Moves, Span, pieces_of

COUNT, END_BYTES, MAGIC_BYTES = 200, 64, 4


class Placed(NamedTuple):
    """A chunk, and where an index of it is, 0 if there is none."""

    start: int
    size_bytes: int
    index_offset: int


def chunk_layouts() -> Iterator[Question]:
    """Yield bytes that were moved, and chunks in a file, by lot; a chunk reaches to where something else starts."""
    random = np.random.default_rng(0)
    for number in range(COUNT):
        at = np.sort(random.choice(END_BYTES, 8, replace=False)).tolist()
        moves = [Move(Span(*each), int(random.integers(1000))) for each in zip(at[::2], at[1::2], strict=True)]
        start, end = sorted(random.integers(END_BYTES + 1, size=2).tolist())
        places = {byte: move.start + byte - move.span.start for move in moves for byte in range(*move.span)}
        expected = [places[byte] for byte in range(start, end) if byte in places]
        words = f"where the bytes from {start} to {end} are after the moves of set {number}"
        yield ask("chunk layouts", words, expected, _moved, moves, Span(start, end))
    for number in range(COUNT):
        counts = random.integers(1, 3, size=int(random.integers(1, 3)))
        groups = [[_placed(random) for _ in range(count)] for count in counts]
        yield ask("chunk layouts", f"the chunks of file {number}", _expected(groups), _laid_out, groups)


def _placed(random: np.random.Generator) -> Placed:
    start, size_bytes, index_offset = random.integers((MAGIC_BYTES, 0, -END_BYTES), (END_BYTES // 2, 12, END_BYTES))
    return Placed(int(start), int(size_bytes), max(int(index_offset), 0))


def _moved(moves: Sequence[Move], span: Span) -> list[int]:
    pieces = Moves(moves[::-1]).pieces(span)
    return [start + number for size_bytes, start in pieces for number in range(size_bytes)]


def _laid_out(groups: Sequence[Sequence[Placed]]) -> Any:
    """Return the bytes of each chunk, and what comes of a layout with them."""
    footer: Any = SimpleNamespace(
        offset_bytes=END_BYTES,
        row_groups=[
            SimpleNamespace(
                chunks=[
                    SimpleNamespace(
                        dictionary_page_offset=None,
                        data_page_offset=each.start,
                        total_compressed_size=each.size_bytes,
                        offset_index_offset=each.index_offset,
                        column_index_offset=None,
                        bloom_filter_offset=None,
                    )
                    for each in group
                ]
            )
            for group in groups
        ],
    )
    pieces = [[tuple(span) for span in group] for group in pieces_of(footer)]
    return pieces, outcome_of(lambda: ChunkLayout(footer, file=DATA_FILE).order)


def _expected(groups: Sequence[Sequence[Placed]]) -> Any:
    starts = {each.start for group in groups for each in group}
    known = starts | {each.index_offset for group in groups for each in group if each.index_offset} | {END_BYTES}
    pieces = []
    for group in groups:
        first = min((each.start for each in group if each.size_bytes), default=MAGIC_BYTES)
        ends = [min(place for place in known if place >= each.start + each.size_bytes) for each in group]
        pieces.append(
            [(each.start, end) if each.size_bytes else (first, first) for each, end in zip(group, ends, strict=True)]
        )
    order = sorted(range(len(groups)), key=lambda number: min(pieces[number]))
    spans = [span for number in order for span in sorted(pieces[number])]
    is_mixed = any(one[1] > other[0] for one, other in itertools.pairwise([(0, 0), *spans, (END_BYTES, END_BYTES)]))
    return pieces, UnsupportedError.__name__ if is_mixed else order
