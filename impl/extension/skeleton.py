"""Thrift structs without what a FlatBuffers footer says, and the way back to the very same bytes.

A skeleton is a struct in which every value that `stated` has is replaced by a blank of its type, so that the skeletons
of many structs are the same. What Thrift's order, headers or unknown fields add stays in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.records import INTEGER_KINDS
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, Value, decode, encode

Path: TypeAlias = tuple[int, ...]
Stated: TypeAlias = Mapping[Path, int | bytes | tuple[Value, ...]]
"""What is known of a struct by paths of field ids; a list by its elements."""
NUMBER = -1
"""The blank of a number that is kept apart."""
BLANKED, WHOLE = b"\0", b"\1"
SKELETON = "skeleton"


def skeleton_of(struct: Struct, stated: Stated, numbered: Collection[Path] = ()) -> tuple[bytes, list[int]]:
    """Return the skeleton of a struct, and its numbers at the paths `numbered`, but for 0.

    What the skeleton and `stated` would not give back exactly is stored whole.
    """
    numbers: list[int] = []
    blanked = _blanked(struct, stated, numbered, numbers, ())
    if _filled(blanked, stated, numbered, iter(numbers), ()) == struct:
        return BLANKED + encode(blanked), numbers
    return WHOLE + encode(struct), []


def struct_of_skeleton(
    skeleton: bytes, stated: Stated, numbered: Collection[Path] = (), numbers: Iterator[int] | None = None
) -> bytes:
    """Return the encoded struct; raises CorruptError for bytes that are no skeleton, or too few `numbers`."""
    if skeleton[:1] == WHOLE:
        return skeleton[1:]
    if skeleton[:1] != BLANKED:
        raise CorruptError(SKELETON, "kind", None, "0 or 1", skeleton[:1])
    struct, end = decode(skeleton, file=SKELETON, start=1)
    if end != len(skeleton):
        raise CorruptError(SKELETON, "size", None, f"{end} bytes", len(skeleton))
    return encode(_filled(struct, stated, numbered, numbers or iter(()), ()))


def _blanked(struct: Struct, stated: Stated, numbered: Collection[Path], numbers: list[int], path: Path) -> Struct:
    return Struct(
        tuple(
            field._replace(value=_blank(field, stated, numbered, numbers, (*path, field.id))) for field in struct.fields
        ),
        struct.offset_bytes,
    )


def _blank(field: Field, stated: Stated, numbered: Collection[Path], numbers: list[int], path: Path) -> Value:
    value = field.value
    if isinstance(value, Struct):
        return _blanked(value, stated, numbered, numbers, path)
    if path in numbered and field.kind in INTEGER_KINDS and value.__class__ is int and value:
        assert isinstance(value, int)
        numbers.append(value)
        return NUMBER
    known = stated.get(path)
    if isinstance(value, Items) and value.elements == known:
        return value._replace(elements=())
    if value == known and value.__class__ is known.__class__:
        return b"" if field.kind == Kind.BINARY else 0
    return value


def _filled(struct: Struct, stated: Stated, numbered: Collection[Path], numbers: Iterator[int], path: Path) -> Struct:
    return Struct(
        tuple(
            field._replace(value=_fill(field, stated, numbered, numbers, (*path, field.id))) for field in struct.fields
        ),
        struct.offset_bytes,
    )


def _fill(field: Field, stated: Stated, numbered: Collection[Path], numbers: Iterator[int], path: Path) -> Value:
    value = field.value
    if isinstance(value, Struct):
        return _filled(value, stated, numbered, numbers, path)
    if path in numbered and value == NUMBER:
        number = next(numbers, None)
        if number is None:
            raise CorruptError(SKELETON, "numbers", None, "a number for each blank", "their end")
        return number
    known = stated.get(path)
    if known is None:
        return value
    if isinstance(value, Items):
        return value._replace(elements=known) if isinstance(known, tuple) and not value.elements else value
    blank: int | bytes = b"" if field.kind == Kind.BINARY else 0
    return known if value == blank and known.__class__ is value.__class__ and not isinstance(known, tuple) else value
