"""The bytes of a file: ranges that cover it, and a drawing of them, one character for so many bytes."""

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

    In a `_pm`, `generation` is the position in the chain of the one that wrote them, `row_group` the ordinal that a
    block has in it, and `token` that of a whole generation that no chain reaches and that ends at `end_bytes`. In a
    Parquet file, bytes with a `generation` belong to that one of the `_pm` beside it, and not to the footer shown.
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
        """How many bytes it has."""
        return self.end_bytes - self.start_bytes


def ordered(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in the order in which they stand in the file."""
    return sorted(ranges, key=attrgetter("start_bytes", "end_bytes"))


def range_documents(ranges: Iterable[Range], *, without: str) -> list[Document]:
    """Return ranges as the JSON documents have them, but for the field that the kind of file has not."""
    return [{name: value for name, value in asdict(entry).items() if name != without} for entry in ranges]


def gaps_between(ranges: Iterable[Range], size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield what ranges, in any order, leave out of a file of that size."""
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


INKS = {
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
"""By what the ranges are called; one file never has two kinds with one character."""


def drawing_lines(ranges: Sequence[tuple[int, int, str]], size_bytes: int) -> Iterator[Text]:
    """Yield a drawing of ranges of [start, end), in the order of their starts, and what they are: names of inks."""
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
    yield Text(f"  one character is {counted(cell_bytes, 'byte')}, drawn as what most of them are", style="dim")


def drawing_totals(ranges: Sequence[tuple[int, int, str]], size_bytes: int) -> list[Document]:
    """Return the legend of a drawing: how many bytes each kind has, in the order in which the kinds first come."""
    totals: Counter[str] = Counter()
    for start, end, what in _clipped(ranges, size_bytes):
        totals[what] += end - start
    return [
        {
            "ink": Text(INKS[what].character, style=INKS[what].style),
            "what": what,
            "bytes": count,
            "share": f"{100 * count / size_bytes:.1f} %",
        }
        for what, count in totals.items()
    ]


def _clipped(ranges: Iterable[tuple[int, int, str]], size_bytes: int) -> Iterator[tuple[int, int, str]]:
    """Yield ranges that cover each byte once, whatever the references of a damaged file do: the first one has it."""
    reached = 0
    for start, end, what in ranges:
        start, end = max(start, reached), min(end, size_bytes)
        if start < end:
            yield start, end, what
            reached = end


def _cells(ranges: Iterable[tuple[int, int, str]], size_bytes: int, cell_bytes: int) -> list[Counter[str]]:
    cells: list[Counter[str]] = [Counter() for _ in range(-(-size_bytes // cell_bytes))]
    for start, end, what in ranges:
        for position in range(start // cell_bytes, -(-end // cell_bytes)):
            inside = min(end, (position + 1) * cell_bytes) - max(start, position * cell_bytes)
            cells[position][what] += inside
    return cells


def _glyph_of(counts: Counter[str]) -> Glyph:
    # Of equal counts the first one stands further left in the file.
    return INKS[counts.most_common(1)[0][0]]
