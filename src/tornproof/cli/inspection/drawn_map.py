"""The bytes of a file as a drawing: one character for so many bytes, and a legend that counts all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from tornproof.cli.inspection.printing import Printer

CELLS_IN_LINE = 64
LINES_MAX = 8
OTHER_GENERATION = "of another generation"


@dataclass(frozen=True, slots=True)
class Ink:
    """How one kind of bytes is drawn."""

    character: str
    style: str = ""


INKS = {
    "header": Ink("H", "cyan"),
    "column descriptors": Ink("D", "cyan"),
    "sorting columns": Ink("S", "cyan"),
    "names": Ink("N", "cyan"),
    "bloom columns": Ink("L", "cyan"),
    "squash tracker": Ink("Q", "cyan"),
    "unknown header sections": Ink("U", "yellow"),
    "block": Ink("B", "green"),
    "out-of-line region": Ink("O", "blue"),
    "trailer": Ink("T", "magenta"),
    "padding": Ink(".", "dim"),
    "magic": Ink("M", "cyan"),
    "column chunk": Ink("C", "green"),
    "column metadata copy": Ink("m", "dim"),
    "bloom filter": Ink("L", "blue"),
    "column index": Ink("I", "blue"),
    "offset index": Ink("J", "blue"),
    "footer": Ink("F", "magenta"),
    "footer length and magic": Ink("T", "magenta"),
    OTHER_GENERATION: Ink("o", "yellow"),
    "dead": Ink("x", "red"),
    "unused": Ink("x", "red"),
    "after the token": Ink("+", "red"),
    "not explained": Ink("?", "red"),
}
"""By what the ranges are called; one file never has two kinds with one character."""


def draw_map(ranges: Sequence[tuple[int, int, str]], size_bytes: int, printer: Printer) -> None:
    """Print ranges of [start, end), in the order of their starts, and what they are: the names of inks."""
    if size_bytes <= 0:
        return
    ranges = list(_clipped(ranges, size_bytes))
    cell_bytes = -(-size_bytes // (CELLS_IN_LINE * LINES_MAX))
    cells = [_ink_of(counts) for counts in _cells(ranges, size_bytes, cell_bytes)]
    width = len(f"{size_bytes:,}")
    for first in range(0, len(cells), CELLS_IN_LINE):
        line = Text(f"  {first * cell_bytes:>{width},} ", style="dim")
        for ink in cells[first : first + CELLS_IN_LINE]:
            line.append(ink.character, style=ink.style or "default")
        printer.styled(line)
    printer.line(
        f"  one character is {cell_bytes:,} byte{'s' * (cell_bytes > 1)}, drawn as what most of them are", "dim"
    )
    rows = [
        (Text(INKS[what].character, style=INKS[what].style), what, count, f"{100 * count / size_bytes:.1f} %")
        for what, count in _totals(ranges)
    ]
    printer.table(("", "what", ">bytes", ">of the file"), rows, "kind")


def _clipped(ranges: Iterable[tuple[int, int, str]], size_bytes: int) -> Iterator[tuple[int, int, str]]:
    """Yield ranges that cover each byte once, whatever the references of a damaged file do: the first one has it."""
    reached = 0
    for start, end, what in ranges:
        start, end = max(start, reached), min(end, size_bytes)
        if start < end:
            yield start, end, what
            reached = end


def _cells(ranges: Sequence[tuple[int, int, str]], size_bytes: int, cell_bytes: int) -> list[Counter[str]]:
    cells: list[Counter[str]] = [Counter() for _ in range(-(-size_bytes // cell_bytes))]
    for start, end, what in ranges:
        for place in range(start // cell_bytes, -(-end // cell_bytes)):
            inside = min(end, (place + 1) * cell_bytes) - max(start, place * cell_bytes)
            cells[place][what] += inside
    return cells


def _ink_of(counts: Counter[str]) -> Ink:
    # Of equal counts the first one stands further left in the file.
    return INKS[counts.most_common(1)[0][0]]


def _totals(ranges: Iterable[tuple[int, int, str]]) -> list[tuple[str, int]]:
    """Return how many bytes each kind has, in the order in which the kinds first come."""
    totals: Counter[str] = Counter()
    for start, end, what in ranges:
        totals[what] += end - start
    return list(totals.items())
