"""The `questdb` key-value of a Parquet footer: JSON that describes the columns for QuestDB (docs/format.md).

Servers write it without spaces and keep it on every update; so does this. Unknown members are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.types.questdb import TypeTag, tag_of

QUESTDB_KEY = "questdb"
VERSION = 1
LOCAL_KEY_IS_GLOBAL = 1
"""The only `format`: symbol dictionaries have the keys of the table."""
COLUMN_TYPE_MAX = 0x7FFFFFFF
ID_MIN, ID_MAX = -(1 << 31), (1 << 31) - 1
UNUSED_BYTES = "unused_bytes"


class JsonColumn(NamedTuple):
    """A column in the JSON; `column_type` includes the designated bit, `id` is None if the release writes none."""

    column_type: int
    is_ascii: bool
    is_local_key_global: bool
    id: int | None


def new_json(columns: Sequence[JsonColumn]) -> str:
    """Return the JSON of a new file, as QuestDB's conversions and rewrites write it."""
    schema = []
    for column in columns:
        members: dict[str, Any] = {"column_type": column.column_type, "column_top": 0}
        if column.is_local_key_global:
            members["format"] = LOCAL_KEY_IS_GLOBAL
        if tag_of(column.column_type) is TypeTag.VARCHAR:
            members["ascii"] = column.is_ascii
        if column.id is not None:
            members["id"] = column.id
        schema.append(members)
    return _text({"version": VERSION, "schema": schema})


def updated_json(text: str, *, unused_bytes: int, file: str = DATA_FILE) -> str:
    """Return the JSON after an update in place: new unused bytes, left out if 0, and no column tops.

    A column top counts rows at the start that are not stored, which an update stores. Raises CorruptError, or
    UnsupportedError for another version of the JSON, naming the member.
    """
    updated: dict[str, Any] = {}
    for name, value in _parse(text, file).items():
        if name == "schema":
            updated[name] = [column | {"column_top": 0} if "column_top" in column else column for column in value]
            if unused_bytes:
                updated[UNUSED_BYTES] = unused_bytes
        elif name != UNUSED_BYTES:
            updated[name] = value
    return _text(updated)


def ids_in(text: str, *, file: str = DATA_FILE) -> tuple[int | None, ...]:
    """Return the id of each column, by which servers know it, None where it is that of Parquet.

    Raises as `updated_json` does.
    """
    ids = (column.get("id") for column in _parse(text, file)["schema"])
    return tuple(None if column_id is None or column_id < 0 else column_id for column_id in ids)


def _parse(text: str, file: str) -> dict[str, Any]:
    """Return the members after checking all known ones."""
    check = _Check(file)
    try:
        members = json.loads(text, object_pairs_hook=_distinct, parse_constant=_reject)
        # Numbers beyond a double and lone surrogates can be read but not written again.
        _text(members).encode()
    except (ValueError, RecursionError) as error:
        raise check.error(CorruptError, QUESTDB_KEY, "JSON", error) from None
    check(isinstance(members, dict), QUESTDB_KEY, "an object", members)
    version, schema = members.get("version"), members.get("schema")
    check(_is_integer(version), "version", VERSION, version)
    check(version == VERSION, "version", VERSION, version, UnsupportedError)
    check(_is_integer(members.get(UNUSED_BYTES, 0)), UNUSED_BYTES, "a size", members.get(UNUSED_BYTES))
    check(isinstance(schema, list), "schema", "a list", schema)
    for index, column in enumerate(schema):
        _check_column(check, f"schema[{index}]", column)
    return dict(members)


def _check_column(check: _Check, field: str, column: Any) -> None:
    check(isinstance(column, dict), field, "an object", column)
    column_type, top = column.get("column_type"), column.get("column_top", 0)
    form, is_ascii, column_id = column.get("format"), column.get("ascii"), column.get("id")
    is_type = _is_integer(column_type) and 1 <= column_type <= COLUMN_TYPE_MAX
    check(is_type, f"{field}.column_type", f"1 to {COLUMN_TYPE_MAX}", column_type)
    check(_is_integer(top), f"{field}.column_top", "a count of rows", top)
    check(form is None or _is_integer(form), f"{field}.format", LOCAL_KEY_IS_GLOBAL, form)
    check(form in (None, LOCAL_KEY_IS_GLOBAL), f"{field}.format", LOCAL_KEY_IS_GLOBAL, form, UnsupportedError)
    check(is_ascii is None or isinstance(is_ascii, bool), f"{field}.ascii", "true or false", is_ascii)
    is_id = column_id is None or (_is_integer(column_id, ID_MIN) and column_id <= ID_MAX)
    check(is_id, f"{field}.id", f"{ID_MIN} to {ID_MAX}", column_id)


class _Check:
    """Raises errors that name a member of a file's JSON."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(
        self, is_right: bool, field: str, expected: object, actual: object, kind: type[ProblemError] = CorruptError
    ) -> None:
        if not is_right:
            raise self.error(kind, field, expected, actual)

    def error(self, kind: type[ProblemError], field: str, expected: object, actual: object) -> ProblemError:
        name = field if field == QUESTDB_KEY else f"{QUESTDB_KEY} {field}"
        shown = str(actual) if isinstance(actual, Exception) else json.dumps(actual)
        return kind(self.file, name, None, expected, shown[:80])


def _is_integer(value: object, least: int = 0) -> bool:
    """Return whether this is a JSON integer, `least` or more, and not a boolean, which Python counts as an integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def _reject(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _text(members: Any) -> str:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
