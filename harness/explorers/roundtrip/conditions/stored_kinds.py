"""Types of columns by the ways to store them, and conditions on their values with what each is of a row.

A condition is a tuple: a sign, the number of a column and a value; ("in", number, values); ("null", number); or "not",
"and" or "or" before conditions. It is worked out by Python's comparisons of exact numbers and bytes.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import DECIMAL_TAGS
from tornproof.impl.query.comparison import compare, is_in
from tornproof.impl.query.predicate import And, IsNull, Not, Operator, Or, Predicate
from tornproof.impl.table.columns import SnapshotColumn

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
FIRST_ID = 7
DAY_MILLISECONDS = 24 * 60 * 60 * 1000
HALF = Fraction(1, 2)
HUGE = Fraction(10) ** 400
NAN = float("nan")
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Key: TypeAlias = Any
"""A value as conditions compare it: an exact number, also for times and for the digits of decimals, or bytes."""
Condition: TypeAlias = tuple[Any, ...]
Truth: TypeAlias = bool | None
"""None is SQL's unknown."""
UNCOUNTED = (12, 13, 18, 19)
"""SYMBOL, LONG256, BINARY and UUID, of which some servers do not count nulls of rows that are older than the column."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """A type and how it is stored.

    `values` are all that rows may have here, `bounds` some of them, in order. `stored` are the bytes of a value in
    statistics and for hashes, None if it cannot be stored. Without `has_maximum` rows may be above a maximum. `order`
    is what statistics compare, `made` what Arrow takes, `missing` what a missing value is, and `odd` are values that no
    row has.
    """

    name: str
    code: int
    physical: int
    arrow: pa.DataType
    values: tuple[Key, ...]
    bounds: tuple[Key, ...]
    stored: Callable[[Key], bytes | None]
    odd: tuple[Key, ...] = ()
    fixed_bytes: int = 0
    missing: int | None = None
    is_ordered: bool = True
    has_maximum: bool = True
    is_hashed: bool = True
    is_compared: bool = True
    may_be_unsigned: bool = False
    order: Callable[[Key], Any] | None = None
    made: Callable[[Key], Any] = lambda key: key

    @property
    def middle(self) -> Key:
        """A value that most conditions ask for."""
        return self.bounds[len(self.bounds) // 2]

    def column(self, number: int = 0) -> SnapshotColumn:
        """Return the column with this number of a table."""
        return SnapshotColumn(
            id=FIRST_ID + number,
            name=f"column {number}",
            type=self.code,
            physical_type=self.physical,
            fixed_byte_len=self.fixed_bytes,
        )

    def array(self, keys: Sequence[Key | None]) -> pa.Array:
        """Return values as they are read, in the midst of a longer array."""
        made = [None if key is None else self.made(key) for key in (self.bounds[0], *keys, None)]
        is_extension = isinstance(self.arrow, pa.BaseExtensionType)
        array = pa.array(made, self.arrow.storage_type if is_extension else self.arrow)
        return (pa.ExtensionArray.from_storage(self.arrow, array) if is_extension else array).slice(1, len(keys))


def truth_of(condition: Condition, row: Sequence[Key | None]) -> Truth:
    """Return what a condition is of a row, whose values are in the order of the columns' numbers."""
    sign, *rest = condition
    if sign in ("and", "or"):
        parts, decisive = [truth_of(part, row) for part in rest], sign == "or"
        return decisive if decisive in parts else None if None in parts else not decisive
    if sign == "not":
        found = truth_of(rest[0], row)
        return None if found is None else not found
    key = row[rest[0]]
    if sign == "null":
        return key is None
    if key is None:
        return None
    return any(key == each for each in rest[1]) if sign == "in" else SIGNS[sign](key, rest[1])


def predicate_of(condition: Condition, columns: Sequence[SnapshotColumn]) -> Predicate:
    """Return a condition as the implementation has it."""
    match condition:
        case ("and", *parts):
            return And(parts=tuple(predicate_of(part, columns) for part in parts))
        case ("or", *parts):
            return Or(parts=tuple(predicate_of(part, columns) for part in parts))
        case ("not", part):
            return Not(part=predicate_of(part, columns))
        case ("null", number):
            return IsNull(column=columns[number])
        case ("in", number, values):
            return is_in(columns[number], values)
        case (sign, number, value):
            return compare(columns[number], Operator(sign), value)
    raise AssertionError(condition)


def leaves(condition: Condition, *, is_negated: bool = False) -> Iterator[tuple[Condition, bool]]:
    """Yield the conditions on one column each, and whether an odd number of negations is before them."""
    sign, *rest = condition
    if sign in ("and", "or", "not"):
        for part in rest:
            yield from leaves(part, is_negated=is_negated is not (sign == "not"))
    else:
        yield condition, is_negated


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Return all kinds."""
    return (*_integers(), *_floats(), *_decimals(), *_texts(), *_unknown(), *_impossible())


def _packed(form: str) -> Callable[[Key], bytes | None]:
    return lambda key: struct.pack(form, key)


def _integer(name: str, code: int, arrow: pa.DataType, bounds: Sequence[int], form: str, **more: Any) -> Kind:
    """Return a kind that is stored as an integer; by default its values are those of the Arrow type."""
    bits = 64 if pa.types.is_timestamp(arrow) else arrow.bit_width
    is_unsigned = pa.types.is_unsigned_integer(arrow)
    low, high = more.pop("ends", (0, (1 << bits) - 1) if is_unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1))
    zero = () if more.get("missing") is None else (0,)
    # Between two bounds there must be a value that may be there.
    inner = {each + 1 for each in bounds if each < high}
    odd = (low - 1, high + 1, bounds[len(bounds) // 2] + HALF, 1 << 300, *more.pop("odd", ()))
    return Kind(
        name=name,
        code=code,
        arrow=arrow,
        physical=more.pop("physical", INT64 if form.endswith("q") else INT32),
        values=tuple(sorted({low, high, *zero, *bounds, *more.pop("values", ()), *inner})),
        bounds=tuple(bounds),
        stored=more.pop("stored", _packed(form)),
        odd=odd,
        **more,
    )


def _integers() -> Iterator[Kind]:
    large = 1 << 40
    bit: dict[str, Any] = {"ends": (0, 1), "physical": BOOLEAN, "is_hashed": False, "made": bool}
    yield _integer("BOOLEAN", 1, pa.bool_(), (0, 1), "<B", missing=0, **bit)
    yield _integer("BYTE", 2, pa.int8(), (-7, 0, 9), "<i", missing=0)
    yield _integer("SHORT", 3, pa.int16(), (-300, -5, -2), "<i", missing=0)
    yield _integer("CHAR", 4, pa.uint16(), (97, 300, 40_000), "<I", missing=0)
    yield _integer("INT", 5, pa.int32(), (-5, 3, 1000), "<i", may_be_unsigned=True)
    yield _integer("INT near 0", 5, pa.int32(), (-4, -1, 3), "<i", may_be_unsigned=True)
    yield _integer("LONG", 6, pa.int64(), (-large, 0, large), "<q", may_be_unsigned=True)
    yield _integer("IPv4", 25, pa.uint32(), (1, 1 << 31, (1 << 31) + 5), "<I")
    for name, code, unit in (("DATE", 7, "ms"), ("TIMESTAMP", 8, "us"), ("TIMESTAMP_NS", 8 | 1 << 18, "ns")):
        yield _integer(name, code, pa.timestamp(unit, "UTC"), (-5, 7, large), "<q")
    days = tuple(day * DAY_MILLISECONDS for day in (-3, 2, 5))
    later = days[1] + 1
    yield _integer(
        "DATE in days", 7, pa.timestamp("ms", "UTC"), days, "<i", values=(later,), odd=(later,), stored=_days
    )
    for tag, bits, arrow, physical in ((14, 5, pa.int8(), "i"), (17, 60, pa.int64(), "q")):
        yield _integer(f"GEOHASH({bits}b)", tag | bits << 8 | 1 << 16, arrow, (2, 5, 9), f"<{physical}")


def _days(milliseconds: int) -> bytes | None:
    days, rest = divmod(milliseconds, DAY_MILLISECONDS)
    return None if rest or abs(days) >= 1 << 31 else struct.pack("<i", days)


def _floats() -> Iterator[Kind]:
    for name, code, physical, arrow, form, bounds in (
        ("FLOAT", 9, FLOAT, pa.float32(), "<f", (-2.5, 0.25, 8.0)),
        ("DOUBLE", 10, DOUBLE, pa.float64(), "<d", (-1e200, 0.0, 0.1)),
        ("DOUBLE with zeros", 10, DOUBLE, pa.float64(), "<d", (-0.5, -0.0, 0.5)),
    ):
        largest = float(np.finfo(arrow.to_pandas_dtype()).max)
        zeros = (-0.0, 0.0)
        between = [-largest, *bounds, largest]
        values = sorted([*(each for each in between if each != 0), *zeros, 0.125, 3.0, float("inf"), -float("inf")])
        yield Kind(
            name=name,
            code=code,
            physical=physical,
            arrow=arrow,
            values=(*values, NAN),
            bounds=bounds,
            stored=_packed(form),
            odd=(HUGE, -HUGE, Fraction(bounds[1]), 3, Fraction(largest) * 2, Fraction(largest) * -2),
        )


def _decimals() -> Iterator[Kind]:
    for digits, scale, width in ((2, 1, 1), (9, 2, 4), (18, 18, 8), (38, 10, 16), (76, 20, 32)):
        yield _decimal(digits, scale, f"DECIMAL({digits},{scale})", width)
    yield _decimal(9, 2, "DECIMAL(9,2) in 2 bytes", 2)
    yield _decimal(9, 2, "DECIMAL(9,2) in 9 bytes", 9)
    yield _decimal(9, 2, "DECIMAL(9,2) as INT32", 4, INT32)
    yield _decimal(18, 3, "DECIMAL(18,3) as INT64", 8, INT64)
    yield _decimal(18, 3, "DECIMAL(18,3) as INT32", 4, INT32)
    yield _decimal(18, 3, "DECIMAL(18,3) of any length", 8, BYTE_ARRAY)


def _decimal(digits: int, scale: int, name: str, width: int, physical: int = FIXED) -> Kind:
    """Return a decimal in so many bytes, and ask for the first value that they cannot have as well."""
    tag = next(tag for tag, most in DECIMAL_TAGS.items() if digits <= most)
    arrow = (pa.decimal256 if digits > 38 else pa.decimal128)(digits, scale)
    largest, wide = 10**digits - 1, 1 << 8 * width - 1
    return _integer(
        name,
        tag | digits << 8 | scale << 18,
        arrow,
        (-20, 3, 30) if digits == 2 else (-2000, 3, 9000),
        "",
        ends=(-largest, largest),
        physical=physical,
        stored=_in_bytes(width, "little" if physical in (INT32, INT64) else "big"),
        fixed_bytes=width if physical == FIXED else 0,
        values=(-1, wide) if wide <= largest else (-1,),
        odd=(wide,),
        made=lambda key: Decimal((int(key < 0), tuple(map(int, str(abs(key)))), -scale)),
        is_ordered=physical != BYTE_ARRAY,
        is_hashed=physical != BYTE_ARRAY,
    )


def _in_bytes(width: int, order: Literal["little", "big"]) -> Callable[[int], bytes | None]:
    return lambda key: key.to_bytes(width, order, signed=True) if abs(key) < 1 << 8 * width - 1 else None


def _texts() -> Iterator[Kind]:
    for name, code in (("STRING", 11), ("SYMBOL", 12), ("VARCHAR", 26)):
        bounds = (b"a", b"ab", "größe".encode())
        # Two begin with a bound.
        values = (b"", *bounds, b"aa", b"abc", b"gr", "größer".encode(), b"h", "\U0010ffff".encode())
        yield _bytes(name, code, BYTE_ARRAY, pa.string(), bounds, values, made=lambda key: key.decode())
    raw, others = (b"\1", b"\x7f", b"\xff\0"), (b"", b"\2", b"\xff", b"\xff\xff")
    yield _bytes("BINARY", 18, BYTE_ARRAY, pa.binary(), raw, others, has_maximum=False)
    ids = (bytes(15) + b"\1", b"\x7f" * 16, b"\x80" + bytes(15))
    for name, code, arrow in (("UUID", 19, pa.uuid()), ("LONG128", 24, pa.binary(16))):
        others = (bytes(16), b"\7" * 16, b"\x7f" + b"\xff" * 15, b"\xff" * 16)
        yield _bytes(name, code, FIXED, arrow, ids, others, fixed_bytes=16)
    numbers = (1 << 8, 5, 7 + (9 << 240))
    yield Kind(
        name="LONG256",
        code=13,
        physical=FIXED,
        arrow=pa.binary(32),
        values=(0, 1, *numbers, 255, 1 << 248, (1 << 256) - 1),
        bounds=numbers,
        stored=_long256,
        odd=(-1, 1 << 256, HALF),
        fixed_bytes=32,
        order=_long256,
        made=_long256,
    )


def _long256(key: int) -> bytes:
    return key.to_bytes(32, "little")


def _bytes(
    name: str,
    code: int,
    physical: int,
    arrow: pa.DataType,
    bounds: Sequence[bytes],
    others: Sequence[bytes] = (),
    **more: Any,
) -> Kind:
    return Kind(
        name=name,
        code=code,
        physical=physical,
        arrow=arrow,
        values=tuple(sorted({*bounds, *others})),
        bounds=tuple(bounds),
        stored=more.pop("stored", bytes),
        **more,
    )


def _unknown() -> Iterator[Kind]:
    """Yield columns whose order is not known."""
    nanoseconds = pa.timestamp("ns")
    yield _integer("no type, INT32", -1, pa.int32(), (-5, 3, 1000), "<i", is_ordered=False)
    yield _integer("INT96", -1, nanoseconds, (-5, 3, 9), "<q", physical=INT96, is_ordered=False, is_hashed=False)
    yield _integer(
        "TIMESTAMP as INT96",
        8,
        pa.timestamp("us", "UTC"),
        (-5, 3, 9),
        "<q",
        physical=INT96,
        is_ordered=False,
        is_hashed=False,
    )
    words = (b"ab", b"bc", b"cd")
    yield _bytes("no type, 2 bytes", -1, FIXED, pa.binary(2), words, fixed_bytes=2, is_ordered=False)
    yield _bytes("no type, bytes", -1, BYTE_ARRAY, pa.binary(), words, is_ordered=False)
    lists = pa.list_(pa.field("element", pa.float64()))
    yield _bytes(
        "DOUBLE[]",
        27 | 10 << 8,
        BYTE_ARRAY,
        lists,
        words,
        is_ordered=False,
        is_compared=False,
        made=lambda key: [float(len(key)), None],
    )


def _impossible() -> Iterator[Kind]:
    """Yield columns that are not stored as their type is, or whose type cannot be."""
    words = tuple(each * 4 for each in (b"ab", b"bc", b"cd"))
    yield _bytes("DECIMAL without digits", 31, FIXED, pa.binary(8), words, fixed_bytes=8, is_ordered=False)
    other: dict[str, Any] = {"is_ordered": False, "is_hashed": False}
    yield _integer("LONG as bytes", 6, pa.int64(), (-5, 3, 9), "<q", physical=BYTE_ARRAY, **other)
    yield _integer("LONG as DOUBLE", 6, pa.int64(), (-5, 3, 9), "<d", physical=DOUBLE, **other)
    other_text: dict[str, Any] = {"stored": lambda key: key[:4], "made": lambda key: key.decode()}
    yield _bytes("VARCHAR as INT32", 26, INT32, pa.string(), words, **other_text, **other)
    yield Kind(
        name="DOUBLE as INT64",
        code=10,
        physical=INT64,
        arrow=pa.float64(),
        values=(-1.5, 0.25, 2.0, 9.0, NAN),
        bounds=(-1.5, 0.25, 2.0),
        stored=_packed("<d"),
        **other,
    )
