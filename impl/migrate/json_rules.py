"""The `questdb` JSON as the converter reads it: strict in known members, ignoring all others (docs/migration.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tornproof.impl.layout.bits import Bits
from tornproof.impl.migrate.shapes import KeyValue
from tornproof.impl.table.questdb_json import COLUMN_TYPE_MAX, ID_MAX, ID_MIN, LOCAL_KEY_IS_GLOBAL, QUESTDB_KEY, VERSION
from tornproof.impl.types.questdb import DESIGNATED, TAG, TypeTag

NO_SQUASH_TRACKER = -1
DIGITS_MAX = 20
TAGS = frozenset({*range(1, 20), *range(24, 34), 40})
DESIGNATED_DESCENDING = Bits("DESIGNATED_DESCENDING", 20, 1, "the designated timestamp is sorted descending")
U64_MAX = (1 << 64) - 1


class JsonError(Exception):
    """The JSON is invalid; the message says why."""


class JsonColumn(msgspec.Struct, frozen=True, kw_only=True):
    """What the converter uses of a column's JSON; a negative `id` is none."""

    type: int
    is_local_key_global: bool
    is_ascii: bool
    id: int | None

    @property
    def is_timestamp(self) -> bool:
        """Whether it is a timestamp of any unit."""
        return TAG.get(self.type) == TypeTag.TIMESTAMP

    @property
    def is_designated(self) -> bool:
        """Whether it is the designated timestamp."""
        return self.is_timestamp and bool(DESIGNATED.get(self.type))

    @property
    def is_descending(self) -> bool:
        """Whether a designated timestamp is sorted descending."""
        return bool(DESIGNATED_DESCENDING.get(self.type))


class QuestdbJson(msgspec.Struct, frozen=True, kw_only=True):
    """What the converter uses of the JSON."""

    columns: tuple[JsonColumn, ...]
    squash_tracker: int | None


class _Members(NamedTuple):
    """A JSON object with all of its members, repeated names included."""

    pairs: list[tuple[str, Any]]


class _Fraction(NamedTuple):
    """A number that is not a 64-bit integer."""

    text: str


def json_text(key_values: Sequence[KeyValue]) -> str | None:
    """Return the JSON of the first pair with its key."""
    return next((pair.value for pair in key_values if pair.key == QUESTDB_KEY), None)


def parse_json(text: str) -> QuestdbJson:
    """Return the parsed JSON; raises JsonError."""
    try:
        top = json.loads(
            text,
            object_pairs_hook=_Members,
            parse_int=_integer,
            parse_float=_Fraction,
            parse_constant=_reject_constant,
        )
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:
        raise JsonError(str(error)) from None
    members = _known(top, QUESTDB_KEY, ("version", "schema", "unused_bytes", "squash_tracker"))
    _number(members, "version", VERSION, VERSION)
    _number(members, "unused_bytes", 0, U64_MAX, default=0)
    squash_tracker = _number(members, "squash_tracker", -1 << 63, (1 << 63) - 1, default=NO_SQUASH_TRACKER)
    schema = members.get("schema")
    if not isinstance(schema, list):
        raise JsonError("schema is no list")
    return QuestdbJson(
        columns=tuple(_column(column, f"schema[{index}]") for index, column in enumerate(schema)),
        squash_tracker=None if squash_tracker == NO_SQUASH_TRACKER else squash_tracker,
    )


def _column(value: Any, name: str) -> JsonColumn:
    members = _known(value, name, ("column_type", "column_top", "format", "ascii", "id"))
    column_type = _number(members, "column_type", 1, COLUMN_TYPE_MAX)
    if TAG.get(column_type) not in TAGS:
        raise JsonError(f"{name}.column_type {column_type} has an unknown tag")
    _number(members, "column_top", 0, U64_MAX, default=0)
    is_local_key_global = members.get("format") is not None
    if is_local_key_global:
        _number(members, "format", LOCAL_KEY_IS_GLOBAL, LOCAL_KEY_IS_GLOBAL)
    is_ascii = members.get("ascii")
    if not isinstance(is_ascii, bool | None):
        raise JsonError(f"{name}.ascii is neither true nor false")
    column_id = None if members.get("id") is None else _number(members, "id", ID_MIN, ID_MAX)
    return JsonColumn(
        type=column_type,
        is_local_key_global=is_local_key_global,
        is_ascii=is_ascii is True,
        id=column_id if column_id is not None and column_id >= 0 else None,
    )


def _known(value: Any, name: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the known members, each of which may occur once."""
    if not isinstance(value, _Members):
        raise JsonError(f"{name} is no object")
    members: dict[str, Any] = {}
    for key, member in value.pairs:
        if key in members:
            raise JsonError(f"{name} has {key} twice")
        if key in names:
            members[key] = member
        elif not key.isascii() and any("\ud800" <= character <= "\udfff" for character in key):
            raise JsonError(f"{name} has a name that is no Unicode")
    return members


def _number(members: dict[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    value = members.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise JsonError(f"{name} is no integer from {low} to {high}")
    return value


def _integer(text: str) -> int | _Fraction:
    # The converter takes a negative zero for no integer, and Python's conversion rejects thousands of digits.
    return _Fraction(text) if text == "-0" or len(text) > DIGITS_MAX else int(text)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
