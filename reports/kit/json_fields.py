"""Typed look-ups in JSON that may have been edited: unexpected values raise an error of one sentence."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

SHOWN_CHARACTERS_MAX = 60
DOCUMENT_BYTES_READ_MAX = 256 << 20
Record = TypeVar("Record")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


class ResultError(ValueError):
    """Result data that cannot be used: the file, the field, and the expected and actual value."""

    def __init__(self, *, file: str, field: str, expected: str, actual: str) -> None:
        """Make the message of these parts."""
        super().__init__(f"{file}: {field}: expected {expected}, found {actual}")
        self.file, self.field, self.expected, self.actual = file, field, expected, actual


class Fields:
    """The fields of one JSON object, which is at `path` in a file; each look-up raises ResultError for a wrong type.

    A field that is missing or null has the default, if there is one.
    """

    def __init__(self, document: Any, *, file: str, path: str = "") -> None:
        """Read the fields of `document`."""
        self.file, self.path = file, path
        if not isinstance(document, Mapping):
            raise ResultError(file=file, field=path or "the document", expected="an object", actual=what_is(document))
        self.document: Mapping[str, Any] = document

    def __contains__(self, name: str) -> bool:
        """Return whether the field is there and is not null."""
        return self.document.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is text."""
        return self.shown(self.whole_text(name, default))

    def whole_text(self, name: str, default: str | None = None) -> str:
        """Return a field that is text, unchanged."""
        value = self._value(name, default, "text")
        return value if isinstance(value, str) else self._fail(name, "text", value)

    def shown(self, text: str) -> str:
        """Return text of the document for a page."""
        return visible(text)

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a whole number."""
        value = self._value(name, default, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int):
            self._fail(name, "a whole number", value)
        return value

    def optional(self, name: str) -> int | None:
        """Return a field that is a whole number, or None where it is missing."""
        return self.number(name) if name in self else None

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a field that is true or false."""
        value = self._value(name, default, "true or false")
        return value if isinstance(value, bool) else self._fail(name, "true or false", value)

    def items(self, name: str) -> Sequence[Any]:
        """Return a field that is a list; empty if it is missing."""
        value = self._value(name, [], "a list")
        # A document that has not been a file yet has tuples, too.
        return list(value) if isinstance(value, (list, tuple)) else self._fail(name, "a list", value)

    def texts(self, name: str) -> list[str]:
        """Return a field that is a list of texts; empty if it is missing."""
        return [
            self.shown(each) if isinstance(each, str) else self._fail(f"{name}[{index}]", "text", each)
            for index, each in enumerate(self.items(name))
        ]

    def inner(self, name: str) -> Self:
        """Return a field that is an object."""
        return type(self)(self._value(name, None, "an object"), file=self.file, path=self._path(name))

    def inners(self, name: str, count_max: int | None = None) -> list[Self]:
        """Return a field that is a list of objects, the first `count_max` of them."""
        return [
            type(self)(each, file=self.file, path=f"{self._path(name)}[{index}]")
            for index, each in enumerate(self.items(name)[:count_max])
        ]

    def record(self, kind: type[Record], **known: Any) -> Record:
        """Return a record with known values, and the others read from the fields of their names, by their types."""
        read: Mapping[Any, Any] = {"str": self.text, "int": self.number, "int | None": self.optional, "bool": self.flag}
        for each in dataclasses.fields(kind):  # type: ignore[arg-type]  # mypy has no type of all dataclasses
            if each.name in known:
                continue
            if each.type == "tuple[str, ...]":
                known[each.name] = tuple(self.texts(each.name))
            else:
                default = [] if each.default is dataclasses.MISSING else [each.default]
                known[each.name] = read[each.type](each.name, *default)
        return kind(**known)

    def demand_format(self, *known: int) -> None:
        """Raise ResultError unless the field `format` is a known one."""
        found = Fields.number(self, "format")
        if found not in known:
            self.reject("format", " or ".join(map(str, known)), shortened(str(found), SHOWN_CHARACTERS_MAX))

    def reject(self, name: str, expected: str, actual: str) -> NoReturn:
        """Raise ResultError for a field."""
        raise ResultError(file=self.file, field=self._path(name), expected=expected, actual=actual)

    def _value(self, name: str, default: Any, expected: str) -> Any:
        value = self.document.get(name)
        if value is None:
            value = default
        return self._fail(name, expected, None) if value is None else value

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _fail(self, name: str, expected: str, value: Any) -> NoReturn:
        self.reject(name, expected, what_is(value))


def what_is(value: Any) -> str:
    """Describe a JSON value in a few words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {shortened(value, SHOWN_CHARACTERS_MAX)!r}"
        case int() | float():
            return f"the number {shortened(str(value), SHOWN_CHARACTERS_MAX)}"
        case Mapping():
            return f"an object of {len(value)}"
        case _:
            return f"a list of {len(value)}"


def visible(text: str) -> str:
    """Return text with invisible characters, and those that change the direction of text, written out."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shortened(text: str, characters_max: int) -> str:
    """Return text, shortened to a maximum with the number of characters left out."""
    left_out = len(text) - characters_max
    return text if left_out <= 0 else f"{text[:characters_max]}… ({left_out:,} more characters)"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str, characters_max: int) -> str:
    """Return text of any origin, shortened, with unprintable characters written out."""
    text = shortened(text, characters_max)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def read_document(path: Path) -> Any:
    """Return the JSON in a file; raises ResultError."""
    try:
        if not path.is_file():
            raise ResultError(file=str(path), field="the file", expected="a file", actual="something else")
        size_bytes = path.stat().st_size
        if size_bytes > DOCUMENT_BYTES_READ_MAX:
            expected = f"at most {DOCUMENT_BYTES_READ_MAX:,} bytes"
            raise ResultError(file=str(path), field="the file", expected=expected, actual=f"{size_bytes:,}")
        return json.loads(path.read_bytes())
    except OSError as error:
        actual = error.strerror or str(error)
        raise ResultError(file=str(path), field="the file", expected="a readable file", actual=actual) from error
    except RecursionError as error:
        actual = "one that is nested too deeply"
        raise ResultError(file=str(path), field="the document", expected="JSON", actual=actual) from error
    except ValueError as error:
        if isinstance(error, ResultError):
            raise
        raise ResultError(file=str(path), field="the document", expected="JSON", actual=str(error)) from error
