"""A Thrift struct as a tree that keeps every choice of the writer, and the error that names a path into it.

Nodes are named tuples, because building frozen dataclasses would take most of the time of a decode. The widths say how
a header or a count stood in the file; trees made by hand leave them out and get the shortest form.
Source: Apache Thrift, "Thrift compact protocol encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, NoReturn, TypeAlias

from tornproof.impl.errors import CorruptError, UnsupportedError

Step: TypeAlias = int | str
"""One step of a path into a tree: a field id, a field name, or an index such as `[3]`."""


class Kind(IntEnum):
    """The wire types; a field's boolean is told by two of them, and `BOOL` stands for both in a `Field`."""

    TRUE = 1
    BOOL = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


class Padded(NamedTuple):
    """An integer or a binary whose varint takes `width_bytes`, more than it needs."""

    value: int | bytes
    width_bytes: int


class Field(NamedTuple):
    """One field of a struct; `offset_bytes` is where its header stands in the file.

    `id_width_bytes` is 0 for the short header and the width of the id's varint for the long one.
    """

    id: int
    kind: int
    value: Value
    offset_bytes: int = 0
    id_width_bytes: int = 0


class Struct(NamedTuple):
    """A struct: its fields in the order of the file."""

    fields: tuple[Field, ...]
    offset_bytes: int = 0


class Items(NamedTuple):
    """A list or a set; `count_width_bytes` is 0 where the header's first byte holds the count.

    Booleans stand as their wire byte, since writers differ in it (false is 0 or 2).
    """

    element_kind: int
    elements: tuple[Value, ...]
    offset_bytes: int = 0
    count_width_bytes: int = 0


class Entries(NamedTuple):
    """A map; an empty one has no kinds on the wire, so both are 0 there."""

    key_kind: int
    value_kind: int
    entries: tuple[tuple[Value, Value], ...]
    offset_bytes: int = 0
    count_width_bytes: int = 1


Value: TypeAlias = bool | int | bytes | Padded | Struct | Items | Entries
"""A byte is 0 to 255; a double and a UUID are their 8 and 16 bytes."""


class BrokenError(Exception):
    """Something is wrong inside of a tree; each level on the way out adds its step, innermost first."""

    def __init__(
        self,
        expected: object,
        actual: object,
        offset_bytes: int | None = None,
        *,
        step: Step | None = None,
        is_supported: bool = True,
    ) -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.actual = actual
        self.offset_bytes = offset_bytes
        self.is_supported = is_supported
        self.steps: list[Step] = [] if step is None else [step]

    def report(self, file: str, path_of: Callable[[Sequence[Step]], str]) -> NoReturn:
        """Raise what callers outside of this package see."""
        kind = CorruptError if self.is_supported else UnsupportedError
        raise kind(
            file=file,
            field=path_of(self.steps[::-1]),
            offset_bytes=self.offset_bytes,
            expected=self.expected,
            actual=self.actual,
        )


def path_text(steps: Sequence[Step]) -> str:
    """Return a path such as `4[0].1[2].3`."""
    return ".".join(map(str, steps)).replace(".[", "[") or "struct"
