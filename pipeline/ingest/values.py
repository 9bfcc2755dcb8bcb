"""Parses one line into a row, or into the reason why it is rejected; used where the fast path gives up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.files import is_utf8
from tornproof.pipeline.ingest.schema import DOUBLES, LONGS, ArchiveColumn, ArchiveSchema

LINE_BYTES_MAX = 16 << 20
SECOND_MICROS = 1_000_000
EPOCH_LIMITS = (10**11, 10**14, 10**17)
"""Below the first a number counts seconds, below the second milliseconds, below the third microseconds, else nano."""
LAST_MICROS = 253_402_300_799_999_999
"""The end of the year 9999."""
_FINER_THAN_MICROS = r"(\.\d{6})\d+"
_RANGES = {
    TypeTag.BYTE: range(-(1 << 7), 1 << 7),
    TypeTag.SHORT: range(-(1 << 15), 1 << 15),
    TypeTag.INT: range(-(1 << 31), 1 << 31),
    TypeTag.LONG: LONGS,
}
_FLOAT_LIMIT = (2 - 2**-24) * 2.0**127
"""From here on a 32-bit float is infinite."""


class Reason(StrEnum):
    """Why a line, or the rest of a file, is rejected."""

    TOO_LONG = "line too long"
    BAD_UTF8 = "bad UTF-8"
    NOT_JSON = "not JSON"
    NOT_OBJECT = "not an object"
    KEY_TWICE = "key given twice"
    UNKNOWN_KEY = "unknown key"
    NO_TIMESTAMP = "no timestamp"
    BAD_TIMESTAMP = "bad timestamp"
    WRONG_TYPE = "value of the wrong type"
    BAD_GZIP = "damaged or truncated gzip"


class LineRejectedError(Exception):
    """A line is not a row of this table."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column in the tree of keys; `index` is that of the column."""

    index: int
    column: ArchiveColumn


Tree = Mapping[str, "Tree | Leaf"]
"""Columns by the keys of a frame, as nested as its objects."""


def tree_of(schema: ArchiveSchema) -> Tree:
    """Return the columns by their keys."""
    tree: dict[str, Any] = {}
    for index, column in enumerate(schema.columns):
        inner = tree
        for key in column.keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[column.keys[-1]] = Leaf(index, column)
    return tree


def parse_frame(line: bytes) -> dict[str, Any]:
    """Return the object of one line; raises LineRejectedError, also for numbers that JSON does not have."""
    if len(line) > LINE_BYTES_MAX:
        raise LineRejectedError(Reason.TOO_LONG, f"{len(line)} bytes, more than {LINE_BYTES_MAX}")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineRejectedError(Reason.BAD_UTF8, f"byte {error.start} of the line: {error.reason}") from error
    try:
        frame = json.loads(text, object_pairs_hook=_distinct, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise LineRejectedError(Reason.NOT_JSON, f"{error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise LineRejectedError(Reason.NOT_JSON, "nested too deeply") from error
    except ValueError as error:
        raise LineRejectedError(Reason.NOT_JSON, "a number with too many digits") from error
    if not isinstance(frame, dict):
        raise LineRejectedError(Reason.NOT_OBJECT, f"found {_kind(frame)}")
    return frame


def exact_row(line: bytes, schema: ArchiveSchema, tree: Tree) -> list[Any]:
    """Return a line's values, one for each column; raises LineRejectedError. Times are counts of microseconds."""
    values: list[Any] = [None] * len(schema.columns)
    try:
        _fill(parse_frame(line), tree, values, schema.timestamp)
    except RecursionError as error:
        raise LineRejectedError(Reason.NOT_JSON, "nested too deeply") from error
    for index, column in enumerate(schema.columns):
        if values[index] is None and column.name == schema.timestamp:
            raise LineRejectedError(Reason.NO_TIMESTAMP, f"{column.name} is missing or null")
        if values[index] is None and not schema.has_null(column):
            values[index] = column.type != TypeTag.BOOLEAN and 0
    return values


def micros_of(values: pa.Array, *, is_designated: bool) -> pa.Array:
    """Return texts (ISO 8601, UTC where no zone is named) or numbers since 1970 as microseconds.

    Raises ValueError for a value that is not a time, or not valid as a designated timestamp.
    """
    counts = _micros_of_text(values) if pa.types.is_string(values.type) else _micros_of_numbers(values)
    bounds = pc.min_max(counts)
    if is_designated and bounds["min"].is_valid:
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low < 0 or high > LAST_MICROS:
            raise ValueError("outside of the years 1970 to 9999")
    return counts


def _fill(frame: Mapping[str, Any], tree: Tree, values: list[Any], timestamp: str) -> None:
    for key, value in frame.items():
        node = tree.get(key)
        if node is None:
            raise LineRejectedError(Reason.UNKNOWN_KEY, f"{key!r} is not in the schema")
        if isinstance(node, Leaf):
            if value is not None:
                values[node.index] = _value(node.column, value, is_designated=node.column.name == timestamp)
        elif isinstance(value, Mapping):
            _fill(value, node, values, timestamp)
        elif value is not None:
            raise LineRejectedError(Reason.WRONG_TYPE, f"{key!r}: expected an object, found {_kind(value)}")


def _value(column: ArchiveColumn, value: Any, *, is_designated: bool) -> Any:
    """Return a value in its column's type; raises LineRejectedError."""
    match column.type:
        case TypeTag.TIMESTAMP:
            return _time(column, value, is_designated=is_designated)
        case TypeTag.BOOLEAN if isinstance(value, bool):
            return value
        case TypeTag.BYTE | TypeTag.SHORT | TypeTag.INT | TypeTag.LONG if type(value) is int:
            if value in _RANGES[TypeTag(column.type)]:
                return value
        case TypeTag.FLOAT | TypeTag.DOUBLE if (number := _finite(value)) is not None:
            if column.type == TypeTag.DOUBLE or abs(number) < _FLOAT_LIMIT:
                return number
        case TypeTag.STRING | TypeTag.VARCHAR if isinstance(value, str | list | dict):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            if is_utf8(text):
                return text
        case code if code == DOUBLES and isinstance(value, list):
            numbers = [None if each is None else _finite(each) for each in value]
            if all(number is not None or each is None for number, each in zip(numbers, value, strict=True)):
                return numbers
    raise LineRejectedError(
        Reason.WRONG_TYPE, f"{'.'.join(column.keys)!r}: expected {type_name(column.type)}, found {_kind(value)}"
    )


def _time(column: ArchiveColumn, value: Any, *, is_designated: bool) -> int:
    reason = Reason.BAD_TIMESTAMP if is_designated else Reason.WRONG_TYPE
    name = ".".join(column.keys)
    if (type(value) is int and value not in LONGS) or type(value) not in (int, float, str):
        raise LineRejectedError(reason, f"{name!r}: expected a time, found {_kind(value)}")
    try:
        counts = micros_of(pa.array([value]), is_designated=is_designated)
    except (ValueError, UnicodeEncodeError) as error:
        why = "outside of the years 1970 to 9999" if "outside" in str(error) else "no time that is known"
        raise LineRejectedError(reason, f"{name!r}: {_shown(value)} is {why}") from error
    return int(counts[0].as_py())


def _micros_of_text(texts: pa.Array) -> pa.Array:
    for attempt in (texts, pc.replace_substring_regex(texts, _FINER_THAN_MICROS, r"\1")):
        for zone in ("UTC", None):
            try:
                return pc.cast(attempt, pa.timestamp("us", tz=zone)).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
    raise ValueError("no time in ISO 8601")


def _micros_of_numbers(numbers: pa.Array) -> pa.Array:
    """Return microseconds from counts of seconds, milliseconds, microseconds or nanoseconds, by their size."""
    counts = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if counts.dtype.kind == "f":
        if not np.isfinite(counts).all() or (np.abs(counts) >= 2.0**63).any():
            raise ValueError("no finite time")
        # Round to the nearest microsecond: binary fractions are seldom exact.
        micros = np.select(_sizes(counts), [counts * 1e6, counts * 1e3, counts], counts / 1e3)
        found = np.rint(micros).astype(np.int64)
    else:
        safe = [np.where(size, counts, 0) for size in _sizes(counts)]
        found = np.select(_sizes(counts), [safe[0] * SECOND_MICROS, safe[1] * 1000, counts], counts // 1000)
    return pa.array(found, mask=numbers.is_null().to_numpy(zero_copy_only=False) if numbers.null_count else None)


def _sizes(counts: Any) -> list[Any]:
    return [(counts < limit) & (counts > -limit) for limit in EPOCH_LIMITS]


def _finite(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise LineRejectedError(Reason.KEY_TWICE, repr(next(key for key in keys if keys.count(key) > 1)))
    return members


def _reject_constant(name: str) -> Any:
    raise LineRejectedError(Reason.NOT_JSON, f"{name} is no number of JSON")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {_shown(value)}"
        case str():
            return f"the text {_shown(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(value: Any) -> str:
    shown = repr(value) if isinstance(value, str | float) or abs(value) < 10**40 else "of more than 40 digits"
    return shown if len(shown) <= 60 else shown[:60] + "…"
