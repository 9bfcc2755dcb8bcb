"""The tables of a Markdown document, generated from the layouts: `python docs/layout_tables.py FILE`.

The text between `<!-- layout: NAME -->` and `<!-- end -->` is replaced; NAME is a module of `impl/layout/` that
declares tables, or `types`. A document must have every NAME once, so no layout can be forgotten.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

import tornproof.impl.layout
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.bits import BitTable
from tornproof.impl.layout.record import Record
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types import questdb as questdb_types
from tornproof.impl.types.arrow import arrow_type, valid_decimal_shape
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import ELEMENT_TAG, NANOSECOND, PRECISION, TypeTag

Table = type[Record] | BitTable

_MARKER = re.compile(r"<!-- (?:layout: (?P<name>\S+)|(?P<end>end)) -->")
DIGITS_LIMIT = 1 << PRECISION.size_bits


class DocumentError(TornproofError):
    """The document's markers do not match the layouts, or each other."""


def declared_tables(module: ModuleType) -> list[Table]:
    """Return the layouts and bit tables that the module itself declares, in their order."""
    return [value for value in vars(module).values() if _is_declared_in(module, value)]


def _is_declared_in(module: ModuleType, value: object) -> bool:
    if isinstance(value, type):
        return issubclass(value, Record) and hasattr(value, "layout") and value.__module__ == module.__name__
    return isinstance(value, BitTable)


def layout_modules() -> dict[str, ModuleType]:
    """Return every module of the package that declares tables, by the name that markers use."""
    names = [found.name for found in pkgutil.iter_modules(tornproof.impl.layout.__path__)]
    modules = {name: importlib.import_module(f"{tornproof.impl.layout.__name__}.{name}") for name in names}
    return {name: module for name, module in modules.items() if declared_tables(module)} | {"types": questdb_types}


def sections() -> dict[str, str]:
    """Return the Markdown of every marker, by its name."""
    rendered = {
        name: "\n\n".join(_render(table) for table in declared_tables(module))
        for name, module in layout_modules().items()
    }
    rendered["types"] = f"{_type_codes()}\n\n{rendered['types']}"
    return rendered


def rewrite(text: str, contents: Mapping[str, str]) -> str:
    """Return the document with every marked part replaced by the `contents` for its name; raises DocumentError."""
    lines: list[str] = []
    seen: set[str] = set()
    open_name = None
    for number, line in enumerate(text.splitlines(), start=1):
        marker = _MARKER.fullmatch(line.strip())
        if marker is None:
            if open_name is None:
                lines.append(line)
            continue
        name = marker["name"]
        if name is None:
            if open_name is None:
                raise DocumentError(f"line {number}: an end without a layout before it")
            lines += ["", contents[open_name], "", line]
            open_name = None
            continue
        if open_name is not None:
            raise DocumentError(f"line {number}: layout {name} starts before the end of layout {open_name}")
        if name not in contents:
            raise DocumentError(f"line {number}: no layout is called {name}; there are {', '.join(sorted(contents))}")
        if name in seen:
            raise DocumentError(f"line {number}: layout {name} occurs twice")
        seen.add(name)
        lines.append(line)
        open_name = name
    if open_name is not None:
        raise DocumentError(f"layout {open_name} has no end")
    if missing := sorted(contents.keys() - seen):
        raise DocumentError(f"no marker for layout {', '.join(missing)}")
    return "\n".join([*lines, ""])


def _render(table: Table) -> str:
    return _bit_table(table) if isinstance(table, BitTable) else _record_table(table)


def _record_table(record: type[Record]) -> str:
    layout = record.layout
    rows = (
        (spec.offset_bytes, spec.wire.size_bytes, spec.format_name, spec.wire.name, spec.meaning)
        for spec in layout.fields
    )
    heading = f"**{layout.title}**, {layout.size_bytes} bytes (source: {layout.source}). {record.__doc__}"
    return f"{heading}\n\n{_markdown(('offset', 'size', 'field', 'type', 'meaning'), rows)}"


def _bit_table(table: BitTable) -> str:
    rows = ((bits.offset_bits, bits.size_bits, bits.name, bits.meaning) for bits in table.bits)
    heading = f"**{table.title}**, a word of {table.word_bits} bits (source: {table.source})."
    return f"{heading}\n\n{_markdown(('bit', 'size', 'name', 'meaning'), rows)}"


def _type_codes() -> str:
    rows = ((tag.value, tag.name, _arrow_name(tag)) for tag in TypeTag)
    return f"**Column types**, by their tag.\n\n{_markdown(('tag', 'type', 'as Arrow'), rows)}"


def _arrow_name(tag: TypeTag) -> str:
    """Return the Arrow type of a tag, also if it depends on the bits above."""
    digits = [digits for digits in range(DIGITS_LIMIT) if valid_decimal_shape(PRECISION.put(tag, digits))]
    if digits:
        return f"{_quoted(PRECISION.put(tag, digits[-1]))} with as many digits and decimals as its bits say, or fewer"
    if tag is TypeTag.ARRAY:
        return f"{_quoted(ELEMENT_TAG.put(tag, TypeTag.DOUBLE))} in as many lists as it has dimensions"
    if tag is TypeTag.TIMESTAMP:
        return f"{_quoted(tag)}, with NANOSECOND {_quoted(NANOSECOND.put(tag, 1))}"
    return _quoted(tag)


def _quoted(column_type: int) -> str:
    # With a physical type that does not exist only the type code decides.
    return f"`{arrow_type(column_type, physical_type=len(PhysicalType))}`"


def _markdown(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    rules = ["---:" if title in ("offset", "size", "bit", "tag") else "---" for title in titles]
    lines = [titles, rules, *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the document, or with `--check` print what is stale; exit code 0 = current, 1 = stale, 2 = error."""
    parser = argparse.ArgumentParser(prog="python docs/layout_tables.py", description="Rewrite a document's tables.")
    parser.add_argument("document", help="a Markdown file with markers")
    parser.add_argument("--check", action="store_true", help="change nothing, print a diff and exit 1 if stale")
    options = parser.parse_args(arguments)
    path: str = options.document
    try:
        old = _read(path)
        new = rewrite(old, sections())
        if options.check:
            diff = difflib.unified_diff(old.splitlines(True), new.splitlines(True), path, f"{path} from the layouts")
            sys.stdout.writelines(diff)
            return int(old != new)
        if old != new:
            _write(path, new)
    except TornproofError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _read(path: str) -> str:
    with OperatingSystemStorage().open_for_reading(path) as file:
        content = file.pread(file.size_bytes(), 0)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: not UTF-8 at byte {error.start}") from error


def _write(path: str, text: str) -> None:
    content = text.encode()
    with OperatingSystemStorage().open_for_writing(path) as file:
        file.pwrite(content, 0)
        file.truncate(len(content))


if __name__ == "__main__":
    sys.exit(main())
