"""Output of every command: JSON, error messages and exit codes.

Results for people are printed with `console.py`.
"""

from __future__ import annotations

import enum
import errno
import glob
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

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


def standard_output() -> TextIO:
    """Return where goes what is asked for; raises OSError if the run was started with standard output closed.

    A command whose answer is its exit code prints to a stand-in then.
    """
    if sys.__stdout__ is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sys.stdout


def print_bytes(content: Buffer) -> None:
    """Write whole lines of UTF-8 text to standard output; on a terminal with its control characters written out."""
    out = standard_output()
    if out.isatty():
        out.write(visible(bytes(content).decode("utf-8", "backslashreplace"), kept="\n"))
    else:
        out.buffer.write(content)


def write_json(document: dict[str, Any], target: str | None) -> None:
    """Write a JSON document to the file or to standard output; a file is written atomically."""
    if target is None:
        return
    text = _json_of(document)
    if target == "-":
        standard_output().write(text)
        return
    with replacing(Path(target)) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json_list(document: dict[str, Any], name: str, items: Iterable[dict[str, Any]], target: str | None) -> None:
    """Write a document as `write_json` does, with a last field that is a list, whose items are made one at a time."""
    if target is None:
        return
    pieces = _pieces(document, name, items)
    if target == "-":
        standard_output().writelines(pieces)
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


def check_outputs(
    *files: str | Path | None, folder: Path | None = None, other_folders: Iterable[Path | None] = ()
) -> None:
    """Raise UsageError, before a command does anything, if two outputs go to one file, or one cannot be written.

    Folders are made later where they are missing; files may be in `folder`, which is made in any case. None is no
    output, and - standard output.
    """
    check_are_different(*files)
    for directory in (folder, *other_folders):
        if directory is not None:
            _check_folder(directory)
    missing = None if folder is None or folder.exists() else folder.resolve()
    for file in files:
        if file is not None and str(file) != "-" and Path(file).parent.resolve() != missing:
            _check_file(Path(file))


def check_are_different(*files: str | Path | None) -> None:
    """Raise UsageError if two outputs go to the same file, or to standard output; None is no output."""
    places = [str(each) if str(each) == "-" else str(Path(each).resolve()) for each in files if each is not None]
    for place in places:
        if places.count(place) > 1:
            where = "standard output" if place == "-" else visible(place)
            raise UsageError(f"two outputs cannot both go to {where}")


def _check_folder(folder: Path) -> None:
    """Raise UsageError if a folder is in a table, or can neither be written to nor be made."""
    _check_is_in_no_table(folder, folder.resolve())
    with _words_for_errors(folder):
        nearest = folder.absolute()
        while not (nearest.exists() or nearest.is_symlink()):
            nearest = nearest.parent
        _try_to_write_in(nearest)


def make_folder(folder: Path) -> bool:
    """Make a folder of outputs, and those above it, and return whether it was missing.

    Raises UsageError, also if it is in a table.
    """
    _check_is_in_no_table(folder, folder.resolve())
    with _words_for_errors(folder):
        is_missing = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    return is_missing


def _check_file(path: Path) -> None:
    _check_is_in_no_table(path, path.resolve().parent)
    with _words_for_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_replaceable(path) or not path.exists():
            _try_to_write_in(path.resolve().parent)


def _try_to_write_in(directory: Path) -> None:
    # Permissions do not say it: root has all of them in /proc, too, where nothing can be made.
    import tempfile

    with tempfile.TemporaryFile(dir=directory):
        pass


def _is_replaceable(path: Path) -> bool:
    """Return whether a rename can put a file there: a link or a device has to be written to directly."""
    return not path.is_symlink() and (path.is_file() or not path.exists())


@contextmanager
def _words_for_errors(path: Path) -> Iterator[None]:
    """Raise UsageError for what the system says of an output."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{visible(path)}: cannot write: {error.strerror or error}") from error


def _check_is_in_no_table(path: Path, directory: Path) -> None:
    """Raise UsageError for an output whose directory is a table's, or below one: it could replace the table's files."""
    # Imported here, because not every command has to know what a table is.
    from tornproof.impl.table.tables_below import is_table

    with _words_for_errors(path):
        for table in [directory, *directory.parents][:DEPTH_IN_TABLE]:
            if is_table(table):
                raise UsageError(f"{visible(path)}: it is in the table {visible(table)}, which gets no output")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block succeeds.

    A link or a device cannot be replaced, so it is written to directly.
    """
    _check_is_in_no_table(path, path.resolve().parent)
    with _words_for_errors(path):
        is_replaceable = _is_replaceable(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial") if is_replaceable else path
    if is_replaceable:
        interruption.remove_at_end(partial.parent, glob.escape(partial.name))
    try:
        with _words_for_errors(path):
            with partial.open("wb"):
                # Python's error says why a file cannot be created; pyarrow's would name the partial one.
                pass
            yield partial
            if is_replaceable:
                partial.replace(path)
    finally:
        if is_replaceable:
            with suppress(OSError):
                partial.unlink()


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
    if sys.stderr is None:
        return
    try:
        print(f"tornproof: {visible(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        # On a full disk or into a closed pipe the exit code still counts; Python would flush again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
