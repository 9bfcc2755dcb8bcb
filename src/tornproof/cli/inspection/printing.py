"""Tables and facts on a terminal: 100 columns, long lists cut with a count, nothing from a file taken as a command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tornproof.cli.inspection.report import Document, counted
from tornproof.cli.output import visible

ROW_LIMIT = 40
ROW_GROUP_LIMIT = 4
TEXT_LIMIT = 60
BOUND_LIMIT = 20
NUMERIC = ">"
LEVEL_ENCODINGS = frozenset({"RLE", "BIT_PACKED"})
ENCODING_WORDS = {
    "PLAIN_DICTIONARY": "DICT",
    "RLE_DICTIONARY": "DICT",
    "DELTA_BINARY_PACKED": "DELTA",
    "DELTA_LENGTH_BYTE_ARRAY": "DELTA_LEN",
    "DELTA_BYTE_ARRAY": "DELTA_BYTES",
    "BYTE_STREAM_SPLIT": "SPLIT",
}


def shown(value: object) -> str:
    """Return a JSON value as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else visible(value)


def flags_text(flags: Document) -> str:
    """Return the names of a flags document, with unknown bits by number."""
    names = [*flags["names"], *(f"bit {bit}?" for bit in flags["unknown_bits"])]
    return " ".join(names) or "none"


def encodings_text(names: Iterable[object]) -> str:
    """Return encodings by short names, each once; those that only levels use are left out beside others."""
    words = dict.fromkeys(ENCODING_WORDS.get(str(name), str(name)) for name in names)
    return " ".join([word for word in words if word not in LEVEL_ENCODINGS] or words)


class Printer:
    """Prints parts of a document; with `show_all` nothing is cut."""

    def __init__(self, console: Console, *, show_all: bool) -> None:
        """Print to a console, which knows its width."""
        self._console = console
        self.show_all = show_all

    def cut(self, text: object, limit: int = TEXT_LIMIT) -> str:
        """Return a value as text, cut to a length."""
        whole = shown(text)
        return whole if self.show_all or len(whole) <= limit else f"{whole[: limit - 1]}…"

    def bound(self, bound: Document | None) -> str:
        """Return a minimum or maximum with the marks of its kind, cut in its middle."""
        if bound is None:
            return shown(None)
        value = bound["value"]
        text = f"0x{bound['hex']}" if value is None else shown(value) if isinstance(value, bool) else visible(value)
        if not self.show_all and len(text) > BOUND_LIMIT:
            text = f"{text[: BOUND_LIMIT // 2]}…{text[1 - BOUND_LIMIT // 2 :]}"
        exact = {True: "=", False: "~", None: ""}[bound["exact"]]
        return f"{exact}{text}{'' if bound.get('inline', True) else '*'}"

    def line(self, text: str, style: str = "") -> None:
        """Print one line of text, taken as it is."""
        self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def styled(self, text: Text) -> None:
        """Print one line in the styles that it has; its characters are our own."""
        self._console.print(text, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print the title of a part after an empty line."""
        self._console.print()
        self.line(text, "bold")

    def facts(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values in two columns."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        for name, value in pairs:
            table.add_row(Text(name, style="dim"), Text(shown(value)))
        self._console.print(table)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], noun: str = "row") -> None:
        """Print rows under titles; a title that starts with `>` stands over numbers. Long lists are cut."""
        kept = rows if self.show_all else rows[:ROW_LIMIT]
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
        for title in columns:
            table.add_column(
                title.removeprefix(NUMERIC), justify="right" if title.startswith(NUMERIC) else "left", overflow="fold"
            )
        for row in kept:
            table.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row))
        self._console.print(table)
        self.left_out(len(rows) - len(kept), noun)

    def left_out(self, count: int, noun: str) -> None:
        """Say how many entries are not shown, if any."""
        if count > 0:
            self.line(f"  … and {counted(count, noun)} more: --all shows them", "dim")

    def problems(self, problems: Sequence[Document]) -> None:
        """Print what is wrong, last, where people look first."""
        if not problems:
            return
        self.heading(f"What is wrong ({counted(len(problems), 'problem')})")
        kept = problems if self.show_all else problems[:ROW_LIMIT]
        for problem in kept:
            place = "" if problem["offset_bytes"] is None else f" at byte {problem['offset_bytes']}"
            text = f"{problem['file']}: {problem['field']}{place}: expected {problem['expected']}"
            self.line(f"  {self.cut(text, 300)}, found {self.cut(problem['actual'], 200)}", "red")
        self.left_out(len(problems) - len(kept), "problem")
