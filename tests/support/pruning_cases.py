"""Row groups of every type with sound but unhelpful statistics, conditions on them, and what is true of which row.

The answers come from Python's own comparisons of the literals as they are written, not from the code under test.
"""

import math
import operator
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pm_builder as pm
import pyarrow as pa
import type_values as tv
from hypothesis import strategies as st
from msgspec.structs import replace

from tornproof.impl.parquet.bloom import build_bitset, hash_of
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.query.comparison import Floats, Integers, compare, is_in, numbers_of
from tornproof.impl.query.predicate import And, IsNull, Not, Operator, Or, Predicate
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag, tag_of

DAY_MILLISECONDS = 86_400_000
# Stored as other writers store them: dates as days, decimals as integers.
FOREIGN = {
    "date in days": (
        (TypeTag.DATE, pa.timestamp("ms", "UTC"), st.integers(-3, 3).map(lambda day: day * DAY_MILLISECONDS)),
        (PhysicalType.INT32, 0),
    ),
    "decimal in 4 bytes": (tv.TYPES["decimal32"], (PhysicalType.INT32, 0)),
    "decimal in 8 bytes": (tv.TYPES["decimal64"], (PhysicalType.INT64, 0)),
}
TYPES = {name: (each, physical_form(each[0])) for name, each in tv.TYPES.items() if not name.startswith("array")} | (
    FOREIGN
)
UNSIGNED_BY_OTHERS = {"int", "long"}
FLOATS = {"float", "double"}
CUT = {"string", "varchar", "symbol", "binary"}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
KINDS = st.sampled_from(sorted(TYPES))
ROW_COUNTS = st.sampled_from([0, 1, 2, 3, 4, 4, 4])
SELDOM = st.sampled_from([True] + 6 * [False])
EITHER = st.booleans()
STYLES = st.sampled_from(["exact", "exact", "exact", "wide", "cut", "absent", "absent", "nan"])
Condition = tuple[Any, ...]
"""A tuple that starts with "compare", "in", "null", "and", "or" or "not"; `predicate_of` shows what follows."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row group: what `_pm` says of it, its values as a reader returns them, and the same for Python to compare."""

    header: FileHeader
    block: Block
    bitsets: Mapping[int, bytes]
    columns: tuple[SnapshotColumn, ...]
    arrays: Mapping[int, pa.Array]
    keys: Mapping[int, list[Any]]
    pools: Mapping[int, list[Any]]


def key_of(value: Any, kind: str, of: pa.DataType) -> Any:
    """Return a value as the terms of predicates have it."""
    if value is None:
        return None
    if pa.types.is_decimal(of):
        return int(Fraction(value) * 10**of.scale)
    if kind == "long256":
        return int.from_bytes(value, "little")
    return value.encode() if isinstance(value, str) else value


def plain_of(key: Any, physical: int, size_bytes: int, kind: str) -> bytes:
    """Return a key in Parquet's PLAIN encoding, without a length."""
    if isinstance(key, bytes):
        return key
    if isinstance(key, float):
        return struct.pack("<f" if kind == "float" else "<d", key)
    if kind == "boolean":
        return bytes([key])
    if kind == "long256":
        return int(key).to_bytes(32, "little")
    if physical == PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return int(key).to_bytes(size_bytes, "big", signed=True)
    width = 4 if physical == PhysicalType.INT32 else 8
    number = key // DAY_MILLISECONDS if kind == "date in days" else key
    return int(number % (1 << 8 * width)).to_bytes(width, "little")


@st.composite
def statistics(draw: st.DrawFn, keys: list[Any], extra: list[Any], form: tuple[int, int], kind: str) -> Any:
    """Minimum and maximum that are sound: absent, too wide, cut, of another order, or NaN."""
    unsigned = kind in UNSIGNED_BY_OTHERS and draw(st.booleans())
    width = 32 if form[0] == PhysicalType.INT32 else 64

    def order(key: Any) -> Any:
        if kind == "long256":
            return int(key).to_bytes(32, "little")
        return key % (1 << width) if unsigned else key

    known = sorted((key for key in keys if key is not None and key == key), key=order)
    bounds: list[Statistic | None] = []
    for is_low in (True, False):
        style = draw(STYLES)
        if not known or style == "absent":
            bounds.append(None)
            continue
        among = [*known, *(key for key in extra if key == key)] if style == "wide" else known
        bound = min(among, key=order) if is_low else max(among, key=order)
        if isinstance(bound, float) and bound == 0:
            bound = draw(st.sampled_from([0.0, -0.0]))
        raw = plain_of(math.nan if style == "nan" and kind in FLOATS else bound, *form, kind)
        exact = style == "exact"
        if style == "cut" and kind in CUT and (cut := cut_bytes(raw, is_low=is_low)) is not None:
            raw = cut
            exact = kind == "binary"
        bounds.append(Statistic(value=raw, exact=exact) if raw else None)
    return bounds


def cut_bytes(raw: bytes, *, is_low: bool) -> bytes | None:
    """Return the first bytes, the last of them raised for a maximum; None where that cannot be."""
    short = raw[: len(raw) // 2]
    if is_low or not short:
        return short or None
    return short[:-1] + bytes([short[-1] + 1]) if short[-1] < 0xFF else None


@dataclass(frozen=True, kw_only=True)
class CaseColumn:
    """One column of a case; `chunk` is None where the partition predates it, `bitset` where it has no filter."""

    column: SnapshotColumn
    array: pa.Array
    keys: list[Any]
    pool: list[Any]
    is_required: bool
    chunk: Chunk | None
    bitset: bytes | None


@st.composite
def case_columns(draw: st.DrawFn, kind: str, number: int, row_count: int) -> CaseColumn:
    """Any column of a type: few different values, nulls, and statistics that are sound."""
    (column_type, of, values), form = TYPES[kind]
    assert form is not None
    pool = draw(st.lists(values, min_size=2, max_size=3))
    if kind in FLOATS and draw(EITHER):
        pool.append(math.nan)
    rows = draw(st.lists(st.sampled_from([*pool, *pool, None]), min_size=row_count, max_size=row_count))
    is_missing = draw(SELDOM)
    if is_missing or draw(SELDOM):
        rows = [None] * row_count
    zero = False if kind == "boolean" else 0
    read = [zero if row is None else row for row in rows] if kind in tv.NEVER_NULL else rows
    stored = [key_of(row, kind, of) for row in rows]
    pool_keys = [key_of(value, kind, of) for value in pool]
    low, high = draw(statistics(stored, pool_keys, form, kind))
    chunk = replace(
        pm.chunk(rows=row_count),
        null_count=draw(st.sampled_from([rows.count(None), None])),
        minimum=low,
        maximum=high,
    )
    has_filter = kind != "boolean" and not is_missing and draw(EITHER)
    hashes = [hash_of(plain_of(key, *form, kind)) for key in stored if key is not None]
    return CaseColumn(
        column=SnapshotColumn(
            id=number, name=f"c{number}", type=column_type, physical_type=form[0], fixed_byte_len=form[1]
        ),
        array=tv.arrow(read, of),
        keys=[key_of(row, kind, of) for row in read],
        pool=pool_keys,
        is_required=None not in rows and draw(EITHER),
        chunk=None if is_missing else chunk,
        bitset=build_bitset(np.array(hashes, np.uint64), 64) if has_filter else None,
    )


@st.composite
def cases(draw: st.DrawFn, kind: str | None = None) -> Case:
    """Any row group with one column of this type, or with one or two of any."""
    row_count = draw(ROW_COUNTS)
    kinds = [kind] if kind else draw(st.lists(KINDS, min_size=1, max_size=2))
    columns = [draw(case_columns(each, number, row_count)) for number, each in enumerate(kinds)]
    stored = [each for each in columns if each.chunk is not None]
    bitsets = {position: each.bitset for position, each in enumerate(stored) if each.bitset is not None}
    header = pm.header(
        *(header_column(each) for each in stored),
        # A partition without any of the columns still has another one.
        pm.column("another", id=99),
        designated_timestamp=-1,
        feature_flags=0,
        bloom_columns=tuple(bitsets),
    )
    chunks = (*(each.chunk for each in stored if each.chunk is not None), pm.chunk(rows=row_count))
    return Case(
        header=header,
        block=Block(offset_bytes=0, end_bytes=0, num_rows=row_count, chunks=chunks),
        bitsets=bitsets,
        columns=tuple(each.column for each in columns),
        arrays={each.column.id: each.array for each in columns},
        keys={each.column.id: each.keys for each in columns},
        pools={each.column.id: each.pool for each in columns},
    )


def header_column(of: CaseColumn) -> Column:
    """Return a column as the header of its partition has it."""
    return pm.column(
        of.column.name,
        of.column.type,
        of.column.physical_type,
        id=of.column.id,
        fixed_byte_len=of.column.fixed_byte_len,
        max_def_level=int(not of.is_required),
    )


def literals(column: SnapshotColumn, pool: list[Any]) -> st.SearchStrategy[Any]:
    """Literals that are in the column's pool, near it, or beyond all that the column can hold."""
    numbers = numbers_of(column)
    near = st.sampled_from([value for value in pool if value == value] or [0.0])
    if isinstance(numbers, Integers):
        steps = st.sampled_from([0, 0, 0, 1, -1, Fraction(1, 2)])
        edges = [numbers.low - 1, numbers.low, numbers.high, numbers.high + 1]
        beyond = st.sampled_from([*edges, 0, 0, 10**90, -(10**90)])
        return st.builds(operator.add, near, steps) | beyond
    if isinstance(numbers, Floats):
        return near | st.sampled_from([0.0, -0.0, math.inf, -math.inf, 10**400, -(10**400)])
    if tag_of(column.type) in (TypeTag.UUID, TypeTag.LONG128):
        return near
    return near | st.builds(operator.add, near, st.sampled_from([b"", b"\0", b"a"]))


def conditions(case: Case, *, leaves_max: int) -> st.SearchStrategy[Condition]:
    """Any condition on the columns with so many comparisons."""

    def leaves(column: SnapshotColumn) -> st.SearchStrategy[Condition]:
        values = literals(column, case.pools[column.id])
        comparisons = st.tuples(st.just("compare"), st.just(column), st.sampled_from(sorted(COMPARISONS)), values)
        return st.one_of(
            comparisons,
            comparisons,
            st.tuples(st.just("in"), st.just(column), st.lists(values, min_size=1, max_size=3)),
            st.tuples(st.just("null"), st.just(column)),
        )

    def inner(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        several = st.lists(parts, min_size=2, max_size=3)
        return st.tuples(st.sampled_from(["and", "or"]), several) | st.tuples(st.just("not"), parts)

    tree = any_leaf = st.one_of(list(map(leaves, case.columns)))
    if leaves_max > 1:
        tree = st.recursive(any_leaf, inner, max_leaves=leaves_max)
    return tree | st.tuples(st.just("not"), tree)


def predicate_of(condition: Condition) -> Predicate:
    """Return the predicate that the code under test makes of a condition."""
    match condition:
        case ("compare", column, "!=", literal):
            return Not(part=compare(column, Operator.EQUAL, literal))
        case ("compare", column, sign, literal):
            return compare(column, Operator(sign), literal)
        case ("in", column, values):
            return is_in(column, values)
        case ("null", column):
            return IsNull(column=column)
        case ("not", part):
            return Not(part=predicate_of(part))
        case (word, parts):
            together = tuple(map(predicate_of, parts))
            return And(parts=together) if word == "and" else Or(parts=together)
    raise AssertionError(condition)


def truth_of(condition: Condition, row: Mapping[int, Any]) -> bool | None:
    """Return whether a condition is true of a row, in SQL's three-valued logic; NaN is a value."""
    match condition:
        case ("compare", column, sign, literal):
            value = row[column.id]
            return None if value is None else bool(COMPARISONS[sign](value, literal))
        case ("in", column, values):
            return None if row[column.id] is None else any(row[column.id] == literal for literal in values)
        case ("null", column):
            return row[column.id] is None
        case ("not", part):
            answer = truth_of(part, row)
            return None if answer is None else not answer
        case (word, parts):
            answers = [truth_of(part, row) for part in parts]
            if (word == "or") in answers:
                return bool(word == "or")
            return None if None in answers else bool(word == "and")
    raise AssertionError(condition)


def answers_of(condition: Condition, case: Case) -> list[bool | None]:
    """Return the truth of a condition for each row."""
    return [
        truth_of(condition, {key: values[row] for key, values in case.keys.items()})
        for row in range(case.block.num_rows)
    ]
