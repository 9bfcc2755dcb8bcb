"""What all documents share: the collected problems, words made of flags, and text that any output can take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeAlias

from tornproof.impl.errors import Problem, ProblemError, UnsupportedError
from tornproof.impl.layout.bits import BitTable
from tornproof.impl.layout.record import Record

Document: TypeAlias = dict[str, Any]
FORMAT = 1


class Problems(list[Problem]):
    """What is wrong with the inspected files, in the order in which it was found."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the problem that ends the block, and go on after it."""
        try:
            yield
        except ProblemError as error:
            self.append(error.problem)

    def documents(self) -> list[Document]:
        """Return them as the JSON documents have them, each only once."""
        return [asdict(problem) for problem in dict.fromkeys(self)]


def problem_of(file: str, field: str, offset_bytes: int | None, expected: object, actual: object) -> Problem:
    """Return what is wrong with a field; `offset_bytes` is None where the whole file is meant."""
    return Problem(file=file, field=field, offset_bytes=offset_bytes, expected=str(expected), actual=str(actual))


def demand_at_most(
    limit_bytes: int, size_bytes: int, *, file: str, field: str, offset_bytes: int | None = None
) -> None:
    """Raise UnsupportedError for what is larger than anybody reads."""
    if size_bytes > limit_bytes:
        expected = f"at most {limit_bytes} bytes"
        raise UnsupportedError(file=file, field=field, offset_bytes=offset_bytes, expected=expected, actual=size_bytes)


def head_document(kind: str, file: str, size_bytes: int, problems: Problems) -> Document:
    """Return what the document of any file begins with."""
    return {
        "format": FORMAT,
        "kind": kind,
        "file": file,
        "size_bytes": size_bytes,
        "problems": problems.documents(),
    }


def flags_document(table: BitTable, word: int) -> Document:
    """Return a word of flags with the names of its set bits and the numbers of the set bits that have none."""
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
    """Return a path or message with what UTF-8 cannot hold written out, so that it fits into every output."""
    return text.encode("utf-8", "backslashreplace").decode()


def counted(count: int, noun: str) -> str:
    """Return `1 row` or `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
