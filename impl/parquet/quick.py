"""A small Thrift struct read by its table in one pass, without a tree: for page headers, of which a file has many.

It only answers where everything is ordinary. Otherwise it says nothing, and the lossless decoder has the word, with
an error for what is wrong or the same values for what is merely unusual.
"""

from __future__ import annotations

import functools
from typing import Any, Final, TypeAlias

from tornproof.impl.parquet.records import Table
from tornproof.impl.parquet.tree import Kind

DEPTH_MAX = 4
VARINT_SHIFT_MAX = 63
I16: Final = int(Kind.I16)
I64: Final = int(Kind.I64)
BOOL: Final = int(Kind.BOOL)
TRUE: Final = int(Kind.TRUE)
BINARY: Final = int(Kind.BINARY)
STRUCT: Final = int(Kind.STRUCT)

Values: TypeAlias = dict[str, Any]
_Plan: TypeAlias = tuple[dict[int, tuple[str, int, int, int, Any]], frozenset[str]]


def quick_read(data: bytes, position: int, table: Table) -> tuple[Values, int] | None:
    """Return the numbers and structs of `table` at `data[position]` by name, and the position behind the stop byte.

    Binaries, and structs that the table leaves as trees, are passed over. None wherever `decode` and `read` have to be
    asked; where there is an answer, theirs has the same numbers.
    """
    try:
        return _struct(data, position, _plan(table), DEPTH_MAX)
    except (IndexError, _UnusualError):
        return None


class _UnusualError(Exception):
    """Something that the quick way does not judge."""


@functools.cache
def _plan(table: Table) -> _Plan:
    """Return (name, kind, lowest, highest, inner plan) of each member by its id, and the names that must be there."""
    members = {
        id: (
            member.name,
            int(member.form.kind),
            member.form.low,
            member.form.high,
            _plan(member.form.table) if member.form.table is not None and not member.form.as_tree else None,
        )
        for id, member in table.by_id.items()
    }
    return members, frozenset(member.name for member in table.required)


UNKNOWN: _Plan = ({}, frozenset())


def _struct(data: bytes, position: int, plan: _Plan, depth_left: int) -> tuple[Values, int]:
    if not depth_left:
        raise _UnusualError
    members, required = plan
    values: Values = {}
    field_id = 0
    while header := data[position]:
        position += 1
        kind = header & 15
        if header < 16:  # an id that does not follow from the one before
            raise _UnusualError
        field_id += header >> 4
        member = members.get(field_id)
        if I16 <= kind <= I64:
            if (number := data[position]) < 128:
                position += 1
            else:
                number, position = _varint(data, position)
            value: Any = (number >> 1) ^ -(number & 1)
            if member is not None and not member[2] <= value <= member[3]:
                raise _UnusualError
        elif kind <= BOOL:
            value, kind = kind == TRUE, BOOL
        elif kind == BINARY:
            length, position = _varint(data, position)
            position += length
            value = None
        elif kind == STRUCT:
            inner = (member and member[4]) or UNKNOWN
            value, position = _struct(data, position, inner, depth_left - 1)
        else:
            raise _UnusualError
        if member is not None:
            if member[1] != kind:
                raise _UnusualError
            values[member[0]] = value
    if not required <= values.keys():
        raise _UnusualError
    return values, position + 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    number, shift = byte & 127, 7
    while (byte := data[position := position + 1]) >= 128:
        number |= (byte & 127) << shift
        shift += 7
        if shift >= VARINT_SHIFT_MAX:
            raise _UnusualError
    return number | byte << shift, position + 1
