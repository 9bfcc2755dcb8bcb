"""Output of every command: JSON, error messages and exit codes.

Results for people are printed with `console.py`.
"""

from __future__ import annotations

import enum
import glob
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tornproof.cli import interruption
from tornproof.impl.errors import BusyError, CorruptError, TornproofError, UsageError

if TYPE_CHECKING:
    from pyarrow import Buffer

    from tornproof.pipeline.files import Location

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write the result as JSON to FILE, or to standard output for -."),
]


SURROGATE_ESCAPE = "\\ud"
DEPTH_IN_TABLE = 3
"""How deep files of a table are below it: those that a recovery keeps of a partition."""


class ExitCode(enum.IntEnum):
    """What a command's exit code means (README.md)."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3


def visible(value: object, *, kept: str = "") -> str:
    """Return text whose control characters are written out, so that a name in a file cannot steer the terminal."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )


def print_bytes(content: Buffer) -> None:
    """Write whole lines of UTF-8 text to standard output; on a terminal with its control characters written out."""
    if sys.stdout.isatty():
        sys.stdout.write(visible(bytes(content).decode("utf-8", "backslashreplace"), kept="\n"))
    else:
        sys.stdout.buffer.write(content)


def write_json(document: dict[str, Any], target: str | None) -> None:
    """Write a JSON document to the file or to standard output; a file is written atomically."""
    if target is None:
        return
    text = _json_of(document)
    if target == "-":
        sys.stdout.write(text)
        return
    with replacing(Path(target)) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json_list(document: dict[str, Any], name: str, items: Iterable[dict[str, Any]], target: str | None) -> None:
    """Write a document as `write_json` does, with a last field that is a list, whose items are made one at a time."""
    if target is None:
        return
    pieces = _pieces(document, name, items)
    if target == "-":
        sys.stdout.writelines(pieces)
        return
    with replacing(Path(target)) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(pieces)


def _pieces(document: dict[str, Any], name: str, items: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text that `_json_of` makes of the whole document."""
    end = "]\n}\n"
    yield _json_of({**document, name: []}).removesuffix(end)
    before = "\n  "
    for item in items:
        yield before + _json_of(item).removesuffix("\n").replace("\n", "\n  ")
        before, end = ",\n  ", "\n ]\n}\n"
    yield end


def write_document(document: dict[str, Any], target: Location) -> None:
    """Write a JSON document to a file, also of an object store; raises StorageError."""
    target.write_bytes(_json_of(document).encode())


def _json_of(document: dict[str, Any]) -> str:
    text = json.dumps(document, indent=1) + "\n"
    return json.dumps(without_surrogates(document), indent=1) + "\n" if SURROGATE_ESCAPE in text else text


def without_surrogates(value: Any) -> Any:
    """Return a document in whose texts half characters, as in a path that is no text, are written out as `\\udcff`.

    JSON can carry them, but many parsers reject that.
    """
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {without_surrogates(key): without_surrogates(each) for key, each in value.items()}
        case list() | tuple():
            return [without_surrogates(each) for each in value]
        case _:
            return value


def check_outputs(*targets: str | Path | None) -> None:
    """Raise UsageError if two outputs go to the same file, or to standard output; None is no output."""
    places = [str(each) if str(each) == "-" else str(Path(each).resolve()) for each in targets if each is not None]
    for place in places:
        if places.count(place) > 1:
            where = "standard output" if place == "-" else visible(place)
            raise UsageError(f"two outputs cannot both go to {where}")


def _check_is_in_no_table(path: Path) -> None:
    """Raise UsageError for an output below the directory of a table, whose own files it could replace."""
    # Imported here, because not every command has to know what a table is.
    from tornproof.impl.table.tables_below import is_table

    for directory in path.resolve().parents[:DEPTH_IN_TABLE]:
        if is_table(directory):
            raise UsageError(f"{visible(path)}: it is in the table {visible(directory)}, which gets no output")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block succeeds.

    A link or a device cannot be replaced, so it is written to directly.
    """
    _check_is_in_no_table(path)
    is_replaceable = not path.is_symlink() and (path.is_file() or not path.exists())
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial") if is_replaceable else path
    if is_replaceable:
        interruption.remove_at_end(partial.parent, glob.escape(partial.name))
    try:
        with partial.open("wb"):
            # Python's error says why a file cannot be created; pyarrow's would name the partial one.
            pass
        yield partial
        if is_replaceable:
            partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        if is_replaceable:
            partial.unlink(missing_ok=True)


def exit_code_of(error: TornproofError) -> ExitCode:
    """Return the exit code of a command that ends with an error."""
    match error:
        case CorruptError():
            return ExitCode.INVALID
        case BusyError():
            return ExitCode.UNKNOWN
        case _:
            return ExitCode.USAGE


def complain(sentence: str) -> None:
    """Print one sentence on standard error, in one line, with control characters written out."""
    if sys.stderr is not None:
        print(f"tornproof: {visible(sentence)}", file=sys.stderr)
