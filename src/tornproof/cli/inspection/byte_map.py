"""The bytes of a file: ranges that cover it, and a drawing of them, one character per block of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from operator import attrgetter

from rich.text import Text

from tornproof.cli.inspection.report import Document, counted

CELLS_IN_LINE = 64
LINES_MAX = 8
OTHER_GENERATION = "of another generation"


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes [start, end), and what they are.

    In a `_pm`, `generation` is the index in the chain of the one that wrote them, `row_group` the ordinal of a block in
    it, and `token` that of an unreachable but complete generation that ends at `end_bytes`. In a Parquet file, bytes
    with a `generation` belong to that one of the `_pm` beside it, and not to the footer shown.
    """

    start_bytes: int
    end_bytes: int
    what: str
    _: KW_ONLY
    row_group: int | None = None
    column: int | None = None
    generation: int | None = None
    token: int | None = None

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
        return self.end_bytes - self.start_bytes


def ordered(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in file order."""
    return sorted(ranges, key=attrgetter("start_bytes", "end_bytes"))


def range_documents(ranges: Iterable[Range], *, without: str) -> list[Document]:
    """Return ranges for the JSON documents, without the field that this kind of file does not have."""
    return [{name: value for name, value in asdict(entry).items() if name != without} for entry in ranges]


def gaps_between(ranges: Iterable[Range], size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the gaps between ranges, in any order, of a file of that size."""
    reached = 0
    for entry in ordered(ranges):
        if entry.start_bytes > reached:
            yield reached, entry.start_bytes
        reached = max(reached, entry.end_bytes)
    if reached < size_bytes:
        yield reached, size_bytes


@dataclass(frozen=True, slots=True)
class Glyph:
    """How one kind of bytes is drawn."""

    character: str
    style: str = ""


GLYPHS = {
    "header": Glyph("H", "cyan"),
    "column descriptors": Glyph("D", "cyan"),
    "sorting columns": Glyph("S", "cyan"),
    "names": Glyph("N", "cyan"),
    "bloom columns": Glyph("L", "cyan"),
    "squash tracker": Glyph("Q", "cyan"),
    "unknown header sections": Glyph("U", "yellow"),
    "block": Glyph("B", "green"),
    "out-of-line region": Glyph("O", "blue"),
    "trailer": Glyph("T", "magenta"),
    "padding": Glyph(".", "dim"),
    "magic": Glyph("M", "cyan"),
    "column chunk": Glyph("C", "green"),
    "duplicate chunk": Glyph("D", "blue"),
    "column metadata copy": Glyph("m", "dim"),
    "bloom filter": Glyph("L", "blue"),
    "column index": Glyph("I", "blue"),
    "offset index": Glyph("J", "blue"),
    "footer": Glyph("F", "magenta"),
    "footer length and magic": Glyph("T", "magenta"),
    OTHER_GENERATION: Glyph("o", "yellow"),
    "dead": Glyph("x", "red"),
    "unused": Glyph("x", "red"),
    "after the token": Glyph("+", "red"),
    "not explained": Glyph("?", "red"),
}
"""By kind of range; kinds that occur in the same file have different characters."""


def drawing_lines(ranges: Sequence[tuple[int, int, str]], size_bytes: int) -> Iterator[Text]:
    """Yield a drawing of ranges of [start, end), in the order of their starts, and their kinds, keys of GLYPHS."""
    if size_bytes <= 0:
        return
    cell_bytes = -(-size_bytes // (CELLS_IN_LINE * LINES_MAX))
    cells = [_glyph_of(counts) for counts in _cells(_clipped(ranges, size_bytes), size_bytes, cell_bytes)]
    width = len(f"{size_bytes:,}")
    for first in range(0, len(cells), CELLS_IN_LINE):
        line = Text(f"  {first * cell_bytes:>{width},} ", style="dim")
        for glyph in cells[first : first + CELLS_IN_LINE]:
            line.append(glyph.character, style=glyph.style or "default")
        yield line
    yield Text(f"  one character is {counted(cell_bytes, 'byte')}, shown as the most frequent kind", style="dim")


def drawing_totals(ranges: Sequence[tuple[int, int, str]], size_bytes: int) -> list[Document]:
    """Return the legend of a drawing: the bytes of each kind, in the order of first appearance."""
    totals: Counter[str] = Counter()
    for start, end, what in _clipped(ranges, size_bytes):
        totals[what] += end - start
    return [
        {
            "glyph": Text(GLYPHS[what].character, style=GLYPHS[what].style),
            "what": what,
            "bytes": count,
            "share": f"{100 * count / size_bytes:.1f} %",
        }
        for what, count in totals.items()
    ]


def _clipped(ranges: Iterable[tuple[int, int, str]], size_bytes: int) -> Iterator[tuple[int, int, str]]:
    """Yield ranges that cover each byte once: where those of a damaged file overlap, the first one counts."""
    reached = 0
    for start, end, what in ranges:
        start, end = max(start, reached), min(end, size_bytes)
        if start < end:
            yield start, end, what
            reached = end


def _cells(ranges: Iterable[tuple[int, int, str]], size_bytes: int, cell_bytes: int) -> list[Counter[str]]:
    cells: list[Counter[str]] = [Counter() for _ in range(-(-size_bytes // cell_bytes))]
    for start, end, what in ranges:
        for index in range(start // cell_bytes, -(-end // cell_bytes)):
            inside = min(end, (index + 1) * cell_bytes) - max(start, index * cell_bytes)
            cells[index][what] += inside
    return cells


def _glyph_of(counts: Counter[str]) -> Glyph:
    # Of equal counts the first one comes first in the file.
    return GLYPHS[counts.most_common(1)[0][0]]
