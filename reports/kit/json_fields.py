"""Typed look-ups in JSON that anybody may have edited: what is not as expected is one clear sentence."""

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
    """Result data that no report can be made of: in which file, in which field of it, and what stands there."""

    def __init__(self, *, file: str, field: str, expected: str, actual: str) -> None:
        """Make one sentence of it."""
        super().__init__(f"{file}: {field}: expected {expected}, found {actual}")
        self.file, self.field, self.expected, self.actual = file, field, expected, actual


class Fields:
    """The fields of one JSON object, which is at `place` in a file; each look-up raises ResultError for another type.

    A field that is missing, or null, is the default where there is one.
    """

    def __init__(self, document: Any, *, file: str, position: str = "") -> None:
        """Wait for questions about an object."""
        self.file, self.position = file, position
        if not isinstance(document, Mapping):
            raise ResultError(
                file=file, field=position or "the document", expected="an object", actual=what_is(document)
            )
        self.document: Mapping[str, Any] = document

    def __contains__(self, name: str) -> bool:
        """Return whether the field is there and is not null."""
        return self.document.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is text."""
        return self.shown(self.whole_text(name, default))

    def whole_text(self, name: str, default: str | None = None) -> str:
        """Return a field that is text, as it stands in the document."""
        value = self._value(name, default, "text")
        return value if isinstance(value, str) else self._fail(name, "text", value)

    def shown(self, text: str) -> str:
        """Return text of the document as a page can show it."""
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
        """Return a field that is a list; one that is missing is an empty one."""
        value = self._value(name, [], "a list")
        return value if isinstance(value, list) else self._fail(name, "a list", value)

    def texts(self, name: str) -> list[str]:
        """Return a field that is a list of texts; one that is missing is an empty one."""
        return [
            self.shown(each) if isinstance(each, str) else self._fail(f"{name}[{position}]", "text", each)
            for position, each in enumerate(self.items(name))
        ]

    def inner(self, name: str) -> Self:
        """Return a field that is an object."""
        return type(self)(self._value(name, None, "an object"), file=self.file, position=self._path(name))

    def inners(self, name: str, count_max: int | None = None) -> list[Self]:
        """Return a field that is a list of objects, the first `count_max` of them."""
        return [
            type(self)(each, file=self.file, position=f"{self._path(name)}[{position}]")
            for position, each in enumerate(self.items(name)[:count_max])
        ]

    def record(self, kind: type[Record], **known: Any) -> Record:
        """Return a record whose values are known, or stand in the fields of their names, as their types say."""
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
        """Raise ResultError unless the field `format` is one of those that are known."""
        found = Fields.number(self, "format")
        if found not in known:
            self.reject("format", " or ".join(map(str, known)), shortened(str(found), SHOWN_CHARACTERS_MAX))

    def reject(self, name: str, expected: str, actual: str) -> NoReturn:
        """Raise ResultError for what stands in a field."""
        raise ResultError(file=self.file, field=self._path(name), expected=expected, actual=actual)

    def _value(self, name: str, default: Any, expected: str) -> Any:
        value = self.document.get(name)
        if value is None:
            value = default
        return self._fail(name, expected, None) if value is None else value

    def _path(self, name: str) -> str:
        return f"{self.position}.{name}" if self.position else name

    def _fail(self, name: str, expected: str, value: Any) -> NoReturn:
        self.reject(name, expected, what_is(value))


def what_is(value: Any) -> str:
    """Return what a JSON value is, in a few words."""
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
    """Return text in which characters that nobody sees, or that turn the direction of others, are numbers."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shortened(text: str, characters_max: int) -> str:
    """Return text that is too long with its count in place of the rest."""
    left_out = len(text) - characters_max
    return text if left_out <= 0 else f"{text[:characters_max]}… ({left_out:,} more characters)"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return how many there are of a noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str, characters_max: int) -> str:
    """Return text of any origin with what cannot be printed written out, and not more of it than there is room for."""
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
