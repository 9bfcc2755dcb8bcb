"""What all documents share: collected problems, names of flags, and text that any output can encode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec import structs

from tornproof.impl.errors import Problem, ProblemError, UnsupportedError
from tornproof.impl.layout.bits import BitTable
from tornproof.impl.layout.record import Record

Document: TypeAlias = dict[str, Any]
FORMAT = 1


class Problems(list[Problem]):
    """Problems of the inspected files, in the order in which they were found."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the problem that ends the block, and continue after it."""
        try:
            yield
        except ProblemError as error:
            self.append(error.problem)

    def documents(self) -> list[Document]:
        """Return them for the JSON documents, each once."""
        return [structs.asdict(problem) for problem in dict.fromkeys(self)]


def problem_of(file: str, field: str, offset_bytes: int | None, expected: object, actual: object) -> Problem:
    """Return a problem of a field; `offset_bytes` is None for the whole file."""
    return Problem(file=file, field=field, offset_bytes=offset_bytes, expected=str(expected), actual=str(actual))


def demand_at_most(
    limit_bytes: int, size_bytes: int, *, file: str, field: str, offset_bytes: int | None = None
) -> None:
    """Raise UnsupportedError if a size exceeds a limit."""
    if size_bytes > limit_bytes:
        expected = f"at most {limit_bytes} bytes"
        raise UnsupportedError(file=file, field=field, offset_bytes=offset_bytes, expected=expected, actual=size_bytes)


def head_document(kind: str, file: str, size_bytes: int, problems: Problems) -> Document:
    """Return the first fields of any document."""
    return {
        "format": FORMAT,
        "kind": kind,
        "file": file,
        "size_bytes": size_bytes,
        "problems": problems.documents(),
    }


def flags_document(table: BitTable, word: int) -> Document:
    """Return a word of flags with the names of its set bits and the numbers of unknown ones."""
    unknown = word & ~table.known_mask & ((1 << table.word_bits) - 1)
    return {
        "value": word,
        "names": [bits.name for bits in table.bits if bits.size_bits == 1 and bits.get(word)],
        "unknown_bits": [bit for bit in range(table.word_bits) if unknown >> bit & 1],
    }


def record_document(record: Record) -> Document:
    """Return the fields of a fixed-size record by name; bytes without meaning as hex."""
    values = {name: getattr(record, name) for name in record.layout.names}
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}


def clean_text(text: str) -> str:
    """Return a path or message with what UTF-8 cannot encode written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def counted(count: int, noun: str) -> str:
    """Return `1 row` or `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
