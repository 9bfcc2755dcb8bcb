"""Where the bytes of a Parquet file go when its column chunks get duplicates in another encoding, and the way back.

In each row group the new chunks come first, then what has no duplicate, then the old chunks. Everything else keeps its
order. The former footer stays in front of the new one, so that the file as it was can be put together again.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter


class Span(NamedTuple):
    """Bytes of the file as it was."""

    start: int
    end: int


class Move(NamedTuple):
    """Bytes of the file as it was, and where they start now."""

    span: Span
    start: int


class New(NamedTuple):
    """A new chunk: its row group and its column."""

    row_group: int
    column: int


def span_of(chunk: ColumnChunk) -> Span:
    """Return where a chunk is."""
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return Span(start, start + chunk.total_compressed_size)


def pieces_of(footer: ParquetFooter) -> list[list[Span]]:
    """Return for each row group the bytes of its chunks, up to where something else is known to start.

    Some writers leave a copy of the metadata behind a chunk, and very old ones count too few bytes of it.
    """
    chunks = [chunk for group in footer.row_groups for chunk in group.chunks]
    others = (
        (chunk.offset_index_offset, chunk.column_index_offset, chunk.bloom_filter_offset, span_of(chunk).start)
        for chunk in chunks
    )
    known = sorted({footer.offset_bytes, *(offset for each in others for offset in each if offset)})

    def piece(chunk: ColumnChunk) -> Span:
        start, end = span_of(chunk)
        index = bisect.bisect_left(known, end)
        return Span(start, known[index] if index < len(known) else end)

    def pieces(chunks: Sequence[ColumnChunk]) -> list[Span]:
        found = [piece(chunk) if chunk.total_compressed_size else None for chunk in chunks]
        # A chunk without pages may have the offset 0, and is nowhere; so it counts as at the start of its row group.
        start = min((each.start for each in found if each), default=len(MAGIC))
        return [each or Span(start, start) for each in found]

    return [pieces(group.chunks) for group in footer.row_groups]


class ChunkLayout:
    """Places the bytes of a file in order; `dropped` are those that are left out."""

    def __init__(self, footer: ParquetFooter, *, file: str, dropped: Collection[Span] = ()) -> None:
        """Begin at the start of the file; raises UnsupportedError for row groups that are mixed with each other."""
        self._dropped = sorted(dropped)
        self._end = footer.offset_bytes
        self._pieces = pieces_of(footer)
        self.moves: list[Move] = []
        self.new_starts: dict[New, int] = {}
        self.position = self._reached = 0
        self.order = sorted(
            (index for index, each in enumerate(self._pieces) if each), key=lambda index: min(self._pieces[index])
        )
        in_order = [piece for index in self.order for piece in sorted(self._pieces[index])]
        for before, after in itertools.pairwise([Span(0, 0), *in_order, Span(self._end, self._end)]):
            if before.end > after.start:
                expected = "row groups and chunks that follow each other"
                raise UnsupportedError(file, "row_groups", after.start, expected, f"one that ends at {before.end}")

    def _start_of(self, index: int) -> int:
        return min(self._pieces[index]).start

    def before(self, index: int) -> Iterator[Span]:
        """Place what precedes a row group; yield it. Row groups come in `order`."""
        yield from self._keep(Span(self._reached, self._start_of(index)))

    def new(self, chunk: New, size_bytes: int) -> None:
        """Place a new chunk."""
        self.new_starts[chunk] = self.position
        self.position += size_bytes

    def group(self, index: int, columns: Collection[int]) -> Iterator[Span]:
        """Place a row group: first what is not of `columns`, then their chunks; yield it."""
        pieces = self._pieces[index]
        old = sorted(pieces[column] for column in columns)
        starts = [self._start_of(index), *(each.end for each in old)]
        ends = [*(each.start for each in old), max(pieces).end]
        for start, end in zip(starts, ends, strict=True):
            yield from self._keep(Span(start, end))
        for each in old:
            yield from self._keep(each)

    def rest(self) -> Iterator[Span]:
        """Place what follows the last row group, up to the footer; yield it."""
        yield from self._keep(Span(self._reached, self._end))

    def _keep(self, span: Span) -> Iterator[Span]:
        self._reached = max(self._reached, span.end)
        start = span.start
        for index in range(bisect.bisect_left(self._dropped, Span(start, 0)), len(self._dropped)):
            dropped = self._dropped[index]
            if dropped.start >= span.end:
                break
            if start <= dropped.start and dropped.end <= span.end:
                yield from self._move(Span(start, dropped.start))
                start = dropped.end
        yield from self._move(Span(start, span.end))

    def _move(self, span: Span) -> Iterator[Span]:
        if span.start < span.end:
            self.moves.append(Move(span, self.position))
            self.position += span.end - span.start
            yield span


class Moves:
    """Where bytes of the file as it was are now."""

    def __init__(self, moves: Collection[Move]) -> None:
        self._ordered = sorted(moves)
        self._starts = [move.span.start for move in self._ordered]

    def __call__(self, offset_bytes: int) -> int:
        """Return where the byte is now; one that is no more, or is behind the file, keeps its number."""
        return next((start for _, start in self.pieces(Span(offset_bytes, offset_bytes + 1))), offset_bytes)

    def pieces(self, span: Span) -> Iterator[tuple[int, int]]:
        """Yield the size of each part of a span that is still there, and where it starts now."""
        for index in range(max(bisect.bisect_right(self._starts, span.start) - 1, 0), len(self._ordered)):
            move = self._ordered[index]
            if move.span.start >= span.end:
                break
            start, end = max(span.start, move.span.start), min(span.end, move.span.end)
            if start < end:
                yield end - start, move.start + start - move.span.start


def lay_out_former(footer: ParquetFooter, sizes: Mapping[New, int], *, file: str) -> ChunkLayout:
    """Return where the bytes of a file went when its chunks got duplicates of these sizes; raises UnsupportedError."""
    layout = ChunkLayout(footer, file=file)
    columns: dict[int, list[int]] = defaultdict(list)
    for index, column in sorted(sizes):
        columns[index].append(column)
    for index in layout.order:
        _use(layout.before(index))
        for column in columns[index]:
            layout.new(New(index, column), sizes[New(index, column)])
        _use(layout.group(index, columns[index]))
    _use(layout.rest())
    return layout


def _use(spans: Iterator[Span]) -> None:
    for _ in spans:
        pass
