"""Prints any document: fields as lines, lists as tables, with the names and nesting of its keys."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tornproof.cli.inspection.byte_map import drawing_lines, drawing_totals
from tornproof.cli.inspection.readable import (
    LEGENDS,
    NAMES,
    NOTHING,
    STAYS_BEHIND,
    chosen,
    is_one_value,
    label,
    readable,
    truncated,
    value_text,
)
from tornproof.cli.inspection.report import Document, counted
from tornproof.cli.output import visible
from tornproof.impl.errors import Problem

ROW_LIMIT = 40
PARENT_LIMIT = 4
COLUMN_WIDTH_MAX = 40
PROBLEM_LIMIT = 500
INLINE_FIELDS_MAX = 3
UPRIGHT_ROWS_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table: the same field of all rows, as text."""

    key: str
    cells: list[Text]
    is_number: bool

    @property
    def title(self) -> str:
        """The key as words, wrapped to the width of the cells or of the longest word."""
        words = label(self.key)
        width = max([cell_len(word) for word in words.split()] + [cell_len(cell.plain) for cell in self.cells])
        return textwrap.fill(words, max(width, 1))

    @property
    def width(self) -> int:
        """Width in characters, with the space after it."""
        texts = [*self.title.splitlines(), *(cell.plain for cell in self.cells)]
        return max(map(cell_len, texts), default=0) + 1


class Printer:
    """Prints documents to a console; with `show_all` nothing is truncated."""

    def __init__(self, console: Console, *, show_all: bool) -> None:
        """Print to a console."""
        self._console = console
        self.show_all = show_all

    def document(self, document: Document) -> None:
        """Print a document without its problems."""
        size = f", {counted(document['size_bytes'], 'byte')}" if "size_bytes" in document else ""
        self.line(f"{document['file']}: {document['kind']}{size}", "bold")
        self._fields(readable(document))

    def _fields(self, content: Document) -> None:
        """Print the fields that fit on a line, then the lists and larger objects, each under its title."""
        parts = {key: value for key, value in content.items() if _is_part(value)}
        self._facts([(key, [self._cell(key, value)]) for key, value in content.items() if key not in parts])
        for key, value in parts.items():
            if key == "byte_map":
                self.heading("bytes")
                self.drawing([(entry["from"], entry["to"], entry.pop("glyph")) for entry in value], value[-1]["to"])
                self.line("")
                self.rows("ranges", value)
            elif isinstance(value, list):
                self._list(key, [({}, entry) for entry in value[: self._limit(ROW_LIMIT)]], len(value))
            elif "kind" in value:
                self.line("")
                self.document(value)
            else:
                self.heading(label(key))
                self._fields(value)

    def _list(self, name: str, entries: Sequence[tuple[Document, Document]], count: int) -> None:
        """Print some of `count` objects, each with the name of its owner, then the lists and objects in them.

        Lists of the same name are printed as one table, whatever their owners.
        """
        self.heading(_counted(name, count))
        self.table(name, [{**owner, **entry} for owner, entry in entries])
        self.left_out(count - len(entries), name)
        for key in dict.fromkeys(key for _, entry in entries for key in entry):
            holders = [
                ({**owner, **_owner(name, entry)}, entry[key]) for owner, entry in entries if _is_part(entry.get(key))
            ]
            if not holders:
                continue
            limit = self._limit(PARENT_LIMIT if isinstance(holders[0][1], list) else ROW_LIMIT)
            kept = [
                (owner, child) for owner, held in holders[:limit] for child in _entries(held)[: self._limit(ROW_LIMIT)]
            ]
            self._list(key, kept, sum(len(_entries(held)) for _, held in holders))

    def _limit(self, count: int) -> int | None:
        return None if self.show_all else count

    def rows(self, name: str, rows: Sequence[Document]) -> None:
        """Print objects as a table, truncated with a count."""
        kept = rows[: self._limit(ROW_LIMIT)]
        self.table(name, kept)
        self.left_out(len(rows) - len(kept), name)

    def table(self, name: str, rows: Sequence[Document]) -> None:
        """Print objects of one kind. Columns that do not fit follow below, with the names repeated.

        One or two objects that are too wide are printed with a line for each field.
        """
        columns = self._columns([_flat(chosen(name, row, show_all=self.show_all)) for row in rows])
        if len(rows) <= UPRIGHT_ROWS_MAX and sum(column.width for column in columns) > self._console.width:
            self._facts([(column.key, column.cells) for column in columns])
        else:
            for index, part in enumerate(_parts(columns, self._console.width)):
                if index:
                    self.line("")
                self._grid(part)
        if name in LEGENDS:
            self.line(f"  {LEGENDS[name]}", "dim")

    def _columns(self, rows: Sequence[Document]) -> list[Column]:
        """Return the columns of flat rows, without empty ones."""
        columns = []
        for key in dict.fromkeys(key for row in rows for key in row):
            values = [row.get(key) for row in rows]
            cells = [self._cell(key, value) for value in values]
            if any(cell.plain != NOTHING for cell in cells):
                is_number = all(value is None or type(value) in (int, float) for value in values)
                columns.append(Column(key=key, cells=cells, is_number=is_number))
        return columns

    def _cell(self, key: str, value: object) -> Text:
        if isinstance(value, Text):
            return value
        is_bad = isinstance(value, dict) and value.get("ok") is False
        return Text(value_text(key.rpartition(".")[2], value, show_all=self.show_all), style="red" if is_bad else "")

    def _grid(self, columns: Sequence[Column]) -> None:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        for column in columns:
            table.add_column(
                column.title, justify="right" if column.is_number else "left", overflow="fold", vertical="bottom"
            )
        for cells in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*cells)
        self._console.print(table)

    def _facts(self, facts: Sequence[tuple[str, list[Text]]]) -> None:
        """Print lines of a key and one or more values."""
        if not facts:
            return
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 2))
        for _ in range(1 + len(facts[0][1])):
            table.add_column(overflow="fold")
        for key, values in facts:
            table.add_row(Text(label(key), style="dim"), *values)
        self._console.print(table)

    def drawing(self, ranges: Sequence[tuple[int, int, str]], size_bytes: int) -> None:
        """Print a map of ranges of [start, end) and their kinds, keys of GLYPHS."""
        for line in drawing_lines(ranges, size_bytes):
            self._console.print(line, soft_wrap=True)
        self.table("glyphs", drawing_totals(ranges, size_bytes))

    def line(self, text: str, style: str = "") -> None:
        """Print one line of plain text."""
        self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print an empty line and a title."""
        self._console.print()
        self.line(text, "bold")

    def left_out(self, count: int, name: str) -> None:
        """Print how many entries are not shown, if any."""
        if count > 0:
            self.line(f"  … and {_counted(name, count)} more: --all shows them", "dim")

    def problems(self, problems: Sequence[Document]) -> None:
        """Print the problems, last, because the end of the output is seen first."""
        if not problems:
            return
        self.heading(f"What is wrong ({counted(len(problems), 'problem')})")
        kept = problems[: self._limit(ROW_LIMIT)]
        for problem in kept:
            self.line(f"  {self.cut(Problem(**problem), PROBLEM_LIMIT)}", "red")
        self.left_out(len(problems) - len(kept), "problems")

    def cut(self, value: object, limit: int) -> str:
        """Return a value as text, truncated unless all is shown."""
        return truncated(visible(value), self._limit(limit))


def _is_part(value: object) -> bool:
    """Return whether a value needs more than a line: a list of objects, or an object that is large or nested."""
    if is_one_value(value):
        return False
    is_short = isinstance(value, dict) and len(value) <= INLINE_FIELDS_MAX and all(map(is_one_value, value.values()))
    return not is_short


def _entries(value: Document | list[Document]) -> list[Document]:
    return value if isinstance(value, list) else [value]


def _owner(name: str, entry: Document) -> Document:
    """Return the name of an entry, for the rows of its parts."""
    value = next((entry[key] for key in ("name", "path", "index") if key in entry), None)
    return {name.removesuffix("s"): ".".join(value) if isinstance(value, list) else value}


def _flat(row: Document, prefix: str = "") -> Document:
    """Return the fields of a row and of its objects, without its lists of objects."""
    flat: Document = {}
    for key, value in row.items():
        if is_one_value(value):
            flat[f"{prefix}{key}"] = value
        elif not _is_part(value):
            flat |= _flat(value, f"{prefix}{key}.")
    return flat


def _parts(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Split columns into tables that fit; each begins with the columns up to the one with names."""
    lead_count = next((number for number, column in enumerate(columns, 1) if column.key in NAMES), 1)
    lead = list(columns[:lead_count])
    part = list(lead)
    for column in columns[lead_count:]:
        if len(part) > lead_count and sum(min(each.width, COLUMN_WIDTH_MAX) for each in (*part, column)) > width + 1:
            begun = [part.pop()] if part[-1].key == STAYS_BEHIND.get(column.key) else []
            yield part
            part = [*lead, *begun]
        part.append(column)
    yield part


def _counted(name: str, count: int) -> str:
    words = label(name)
    return f"{count:,} {words.removesuffix('s') if count == 1 else words}"
