"""Whether conditions mean what their text says, by docs/reading.md: literals of each type, comparisons, and wrong ones.

What a condition is of each value is worked out here on exact numbers and bytes, in SQL's three values.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import DECIMAL_TAGS
from tornproof.impl.query.predicate import Operator, truth
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.table.columns import SnapshotColumn

PROPERTY = "a condition is true of the rows of which its text says so, and a wrong one is rejected"
ID, NAME = 7, "value"
BOOLEAN = 1
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"
EPOCH_DAYS = np.datetime64("1970-01-01", "D")
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
TIMES = (
    ("2024", "2024-01-01", 0),
    ("2024-02", "2024-02-01", 0),
    ("2024-02-29", "2024-02-29", 0),
    ("2024-02-29T12", "2024-02-29", 43_200),
    ("2024-02-29 12:30", "2024-02-29", 45_000),
    ("2024-02-29T12:30:15", "2024-02-29", 45_015),
    ("2024-02-29T12:30:15.5", "2024-02-29", Fraction(90_031, 2)),
    ("1969-12-31T23:59:59.999999999Z", "1969-12-31", 86_399 + Fraction(999_999_999, 10**9)),
    ("1970-01-01T00:00:00.0005Z", "1970-01-01", Fraction(1, 2_000)),
    ("2024-02-29T12:30+02:00", "2024-02-29", 37_800),
    ("2024-02-29T12:30-0330", "2024-02-29", 57_600),
    ("2024-02-29T12Z", "2024-02-29", 43_200),
    ("2024-02-29T12:30-00:30", "2024-02-29", 46_800),
    ("2024-02-29T12:30+00:30", "2024-02-29", 43_200),
    ("2024-02-29T12+23:59", "2024-02-28", 43_260),
    ("0001-01-01", "0001-01-01", 0),
    ("0001-01-01T00:00+01:00", "0001-01-01", -3_600),
    ("9999-12-31T23:59:59-05:00", "9999-12-31", 104_399),
)
"""Times as they are written, the days that they are on, and seconds after midnight."""
NO_TIMES = (
    *("", "24", "202", "2024-13", "2023-02-29", "2024-1-1", "2024-01-01T24", "2024-01-01T00:60", "2024-01-01+02:00"),
    *("2024-01-01T00:00:00.", "2024-01-01t00", "yesterday", " 2024", "2024-01-01T00:00+2", "2024-00", "2024-01-00"),
    *("0000-01-01", "2024-01-01T00:00+24:00", "2024-01-01T00:00-02:60"),
)

ADVICE = {
    "BOOLEAN": "write true or false",
    "CHAR": "write one character in single quotes",
    "IPv4": "write an address such as '10.0.0.1'",
    "UUID": "write it such as '11111111-2222",
    "LONG256": "write it such as '0x1f'",
    "DATE TIMESTAMP TIMESTAMP_NS": "write a time such as '2024-01-31T12:30:00.5Z'",
    "STRING SYMBOL VARCHAR": "write a text in single quotes",
    "BINARY": "write bytes as x'...'",
    "LONG128": "write 16 bytes as x'...'",
    "DOUBLE[]": "only IS NULL can be asked of it",
}
LITERAL_CHARACTERS_MAX, SHOWN_CHARACTERS_MAX = 1000, 40

Truth: TypeAlias = bool | None
"""None is SQL's unknown."""
Key: TypeAlias = int | float | Fraction | bytes
REJECTED = object()
PARTS_MAX = 2_000
"""Of a condition: so many comparisons fit into the longest text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A type by its code, values of a column of it, as Arrow and as what they are compared by, and literals of it."""

    name: str
    code: int
    keys: tuple[Key | None, ...]
    array: pa.Array
    literals: tuple[tuple[str, Any], ...]

    @property
    def advice(self) -> str:
        """What is advised where a literal is none of the type."""
        if self.name.startswith("GEOHASH"):
            return f"write a text of {self.code >> 8 & 255} bits, or of base 32 digits"
        return next((words for names, words in ADVICE.items() if self.name in names.split()), "write a number")

    @property
    def column(self) -> SnapshotColumn:
        """The column."""
        return SnapshotColumn(id=ID, name=NAME, type=self.code, physical_type=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worded:
    """A condition on a column, and of which values it is true, or for one that is wrong the words of an error."""

    type: Typed
    text: str
    expected: tuple[Truth, ...] | str

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.type.name}: {self.text if len(self.text) < 200 else self.text[:200]}"

    @property
    def kind(self) -> str:
        """The type, and whether the condition is wrong."""
        return f"{self.type.name}, wrong" if isinstance(self.expected, str) else self.type.name


@functools.cache
def worded_conditions() -> tuple[Worded, ...]:
    """Return all conditions, always in the same order."""
    found = itertools.chain.from_iterable((*_wrong_literals(of), *_conditions(of)) for of in typed())
    return (*_wrong_conditions(), *_long_conditions(), *found)


def problem_of(case: Worded) -> str | None:
    """Say what is wrong with a condition; None if nothing is."""
    try:
        found = tuple(truth(parse_predicate(case.text, [case.type.column]), {ID: case.type.array}).to_pylist())
    except PredicateError as error:
        if isinstance(case.expected, str) and case.expected in str(error):
            return None
        return f"it is rejected: {error}"
    if isinstance(case.expected, str):
        return f"it is {found} of {case.type.keys}, and should be rejected with {case.expected!r}"
    return None if found == case.expected else f"it is {found} of {case.type.keys}, and should be {case.expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of conditions that round, that are mirrored, and of literals that are taken."""
    controls: Controls = (
        ("numbers are rounded", "tornproof.impl.query.comparison:math", _Rounding()),
        (
            "the sides of a comparison are as they are written",
            "tornproof.impl.query.predicate_text:_MIRRORED",
            {each: each for each in Operator},
            "and should be (",
        ),
        (
            "every text is a time",
            "tornproof.impl.query.predicate_literal:instant_of",
            lambda *_: Fraction(0),
            "and should be rejected with",
        ),
        (
            "short conditions are too long",
            "tornproof.impl.query.predicate_text:TEXT_CHARACTERS_MAX",
            9,
            "it is rejected",
        ),
    )
    return not_noticed(controls, problem_of, worded_conditions())


class _Rounding:
    floor = staticmethod(round)
    ceil = staticmethod(round)


@functools.cache
def typed() -> tuple[Typed, ...]:
    """Return all types."""
    return (*_integers(), *_floats(), *_times(), *_decimals(), *_texts(), *_bytes(), *_geohashes(), *_others())


def _of(name: str, code: int, arrow: pa.DataType, keys: Sequence[Any], literals: Sequence[tuple[str, Any]]) -> Typed:
    return Typed(name=name, code=code, keys=tuple(keys), array=pa.array(keys, arrow), literals=tuple(literals))


def _rejected(*texts: str) -> tuple[tuple[str, Any], ...]:
    return tuple((text, REJECTED) for text in texts)


def _integers() -> Iterator[Typed]:
    yield _of(
        "BOOLEAN",
        1,
        pa.bool_(),
        (False, True, None),
        (("true", 1), ("false", 0), ("TRUE", 1), ("1", REJECTED), ("'true'", REJECTED), ("x'01'", REJECTED)),
    )
    for name, code, arrow in (
        ("BYTE", 2, pa.int8()),
        ("SHORT", 3, pa.int16()),
        ("INT", 5, pa.int32()),
        ("LONG", 6, pa.int64()),
    ):
        high = (1 << arrow.bit_width - 1) - 1
        literals: list[tuple[str, Any]] = [
            (str(each), each) for each in (0, -1, high, high + 1, -high - 1, -high - 2, 1 << 200)
        ]
        literals += [
            ("1.5", Fraction(3, 2)),
            ("-1.5", Fraction(-3, 2)),
            ("1e2", 100),
            ("1e+2", 100),
            ("-.5", Fraction(-1, 2)),
        ]
        literals += [("'12'", 12), ("'-1.50'", Fraction(-3, 2)), ("x'7f'", 127), ("1e999999999", Fraction(10) ** 2000)]
        literals += [("1e-999999999", Fraction(1, 10**2000)), *_rejected("''", "'1_0'", "'0x1f'")]
        literals.append((f"1.{'0' * (LITERAL_CHARACTERS_MAX - 2)}", 1))
        long = f"1.{'0' * (LITERAL_CHARACTERS_MAX - 1)}", f"'{'w' * (SHOWN_CHARACTERS_MAX - 2)}'"
        yield _of(
            name,
            code,
            arrow,
            (0, 1, -1, 2, -2, 100, 127, high, -high - 1, None),
            (*literals, *_rejected("'word'", "true", *long)),
        )
    chars: list[tuple[str, Any]] = [
        ("'a'", 97),
        ("97", 97),
        ("'€'", 0x20AC),
        ("x'0061'", 97),
        ("-1", -1),
        ("65536", 65536),
        ("'0'", 48),
        ("'\uffff'", 65535),
    ]
    wrong = _rejected("'ab'", "''", "'😀'", "'\U00010000'", "true")
    yield _of("CHAR", 4, pa.uint16(), (0, 48, 96, 97, 98, 0x20AC, 65535, None), (*chars, *wrong))
    literals = [("'10.0.0.1'", (10 << 24) + 1), ("'255.255.255.255'", (1 << 32) - 1), ("5", 5), ("'0.0.0.0'", 0)]
    wrong = _rejected("'10.0.0.256'", "'10.0.1'", "'10.0.0.1.1'", "'::1'", "'5'", "true", "''")
    yield _of("IPv4", 25, pa.uint32(), (1, 5, (10 << 24) + 1, (1 << 32) - 1, 1 << 31, None), (*literals, *wrong))


def _floats() -> Iterator[Typed]:
    for name, code, arrow in (("FLOAT", 9, pa.float32()), ("DOUBLE", 10, pa.float64())):
        nearest = np.float32 if code == 9 else np.float64
        largest = float(np.finfo(nearest).max)
        keys = (0.0, -0.0, 0.5, -0.5, float(nearest(0.1)), math.nan, math.inf, -math.inf, largest, -largest, None)
        literals: list[tuple[str, Any]] = [
            (text, float(nearest(float(text)))) for text in ("0", "0.5", "-0.5", "0.1", "1e-400", "3", "-0.0")
        ]
        literals += [
            ("'Infinity'", math.inf),
            ("'-infinity'", -math.inf),
            ("'0.5'", 0.5),
            ("1e999", Fraction(10) ** 999),
        ]
        literals += [("-1e999", -(Fraction(10) ** 999)), (f"{largest:.0f}", largest), (f"-{largest:.0f}", -largest)]
        literals += [("1e39", Fraction(10) ** 39)] if code == 9 else []
        wrong = _rejected("'nan'", "'inf'", "x'00'", "true", "''")
        yield _of(name, code, arrow, keys, (*literals, *wrong))


def _times() -> Iterator[Typed]:
    for name, code, unit in (("DATE", 7, "ms"), ("TIMESTAMP", 8, "us"), ("TIMESTAMP_NS", 8 | 1 << 18, "ns")):
        literals: list[tuple[str, Any]] = []
        for text, day, seconds in TIMES:
            days = int((np.datetime64(day, "D") - EPOCH_DAYS).astype(int))
            literals.append((f"'{text}'", (days * 86_400 + Fraction(seconds)) * UNITS[unit]))
        exact = {math.floor(key) for _, key in literals if abs(key) < 1 << 62}
        keys = sorted({each + step for each in exact for step in (-1, 0, 1)} | {0, 5, -(1 << 62)})
        literals += [("5", 5), ("-1", -1), ("5.5", Fraction(11, 2)), ("1e30", Fraction(10) ** 30), ("x'05'", 5)]
        wrong = _rejected("true", *(f"'{each}'" for each in NO_TIMES))
        yield _of(name, code, pa.timestamp(unit, "UTC"), (*keys, None), (*literals, *wrong))


def _decimals() -> Iterator[Typed]:
    for digits, scale in ((2, 1), (4, 0), (9, 2), (18, 18), (38, 10), (76, 20)):
        tag = next(tag for tag, most in DECIMAL_TAGS.items() if digits <= most)
        largest = 10**digits - 1
        make = pa.decimal256 if digits > 38 else pa.decimal128
        keys = (0, 1, -1, 5, 15, -15, largest, -largest, None)
        stored = [None if key is None else _decimal(key, scale) for key in keys]
        literals: list[tuple[str, Any]] = [
            (_decimal_text(key, scale), key) for key in (0, 1, -1, 15, largest, -largest, largest + 1, -largest - 1)
        ]
        literals += [(_decimal_text(key, scale + 1), Fraction(key, 10)) for key in (1, 15, -15, 149, 151)]
        literals += [("1e100", Fraction(10) ** (100 + scale)), ("'1.50'", Fraction(3, 2) * 10**scale)]
        literals += [("x'01'", REJECTED), *_rejected("'0x1'", "'word'", "true")]
        yield Typed(
            name=f"DECIMAL({digits},{scale})",
            code=tag | digits << 8 | scale << 18,
            keys=keys,
            array=pa.array(stored, make(digits, scale)),
            literals=tuple(literals),
        )


def _decimal(key: int, scale: int) -> Decimal:
    return Decimal((int(key < 0), tuple(map(int, str(abs(key)))), -scale))


def _decimal_text(key: int, scale: int) -> str:
    return f"{_decimal(key, scale):f}"


def _texts() -> Iterator[Typed]:
    values = ("", "a", "A", "ab", "it's", "größe", "z", "😀", "\U0010ffff", "\ufffd", None)
    for name, code in (("STRING", 11), ("SYMBOL", 12), ("VARCHAR", 26)):
        literals: list[tuple[str, Any]] = [
            ("'" + each.replace("'", "''") + "'", each.encode()) for each in values if each is not None
        ]
        wrong = _rejected("5", "true", "-1.5")
        keys = tuple(None if each is None else each.encode() for each in values)
        array = pa.array(values, pa.string())
        yield Typed(name=name, code=code, keys=keys, array=array, literals=(*literals, ("x'61'", REJECTED), *wrong))


def _bytes() -> Iterator[Typed]:
    values: tuple[bytes | None, ...] = (b"", b"\0", b"a", b"a\0", b"\x7f", b"\xff", b"\xff\xff", None)
    literals: list[tuple[str, Any]] = [(f"x'{each.hex()}'", each) for each in values if each is not None]
    yield _of("BINARY", 18, pa.binary(), values, (*literals, ("'a'", REJECTED), ("5", REJECTED), ("true", REJECTED)))
    ids = (bytes(16), b"\x11" * 16, bytes(15) + b"\1", b"\xff" * 16)
    wrong = _rejected("x'11'", f"x'{'11' * 17}'", "5", "true")
    hexes = [(f"x'{each.hex()}'", each) for each in ids]
    yield _of("LONG128", 24, pa.binary(16), (*ids, None), (*hexes, *wrong, ("'11'", REJECTED)))
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array((*ids, None), pa.binary(16)))
    spelled: list[tuple[str, Any]] = [(f"'{uuid.UUID(bytes=each)}'", each) for each in ids] + [
        (f"'{ids[1].hex().upper()}'", ids[1])
    ]
    spelled += _rejected("'11111111'", "''", "'1g111111-1111-1111-1111-111111111111'")
    yield Typed(name="UUID", code=19, keys=(*ids, None), array=array, literals=(*spelled, *hexes, *wrong))
    numbers = (0, 1, 255, 256, 1 << 64, 1 << 200, (1 << 256) - 1)
    stored = pa.array([*(each.to_bytes(32, "little") for each in numbers), None], pa.binary(32))
    literals = [(f"'{each:#x}'", each) for each in numbers] + [
        ("'1F'", 31),
        ("x'ff'", 255),
        ("256", 256),
        ("1.5", Fraction(3, 2)),
    ]
    literals += [(f"'{1 << 256:#x}'", 1 << 256), ("-1", -1)]
    wrong = _rejected("'0xg'", "''", "'0x'", "true", f"'{'1' * 1001}'")
    yield Typed(name="LONG256", code=13, keys=(*numbers, None), array=stored, literals=(*literals, *wrong))


def _geohashes() -> Iterator[Typed]:
    for bits, tag, arrow in (
        (5, 14, pa.int8()),
        (7, 14, pa.int8()),
        (15, 15, pa.int16()),
        (30, 16, pa.int32()),
        (60, 17, pa.int64()),
    ):
        keys: tuple[int | None, ...] = (0, 1, 2, (1 << bits) - 1, (1 << bits - 1) + 1, None)
        literals: list[tuple[str, Any]] = [(f"'{each:0{bits}b}'", each) for each in keys if each is not None]
        if bits % 5 == 0 and bits > 5:
            text = "".join(DIGITS[each * 7 % 32] for each in range(bits // 5))
            number = functools.reduce(lambda found, digit: found * 32 + DIGITS.index(digit), text, 0)
            literals.append((f"'{text}'", number))
            keys = (*keys, number - 1, number, number + 1)
            literals += [
                (f"'{digit * (bits // 5)}'", sum(DIGITS.index(digit) << each for each in range(0, bits, 5)))
                for digit in DIGITS
            ]
            literals += [(f"'{digit * (bits // 5)}'", REJECTED) for digit in "ailo"]
            literals += [(f"'{text[:-1]}a'", REJECTED), (f"'{text[:-1].upper()}A'", REJECTED), (f"'{text}0'", REJECTED)]
        wrong = [
            (f"'{'0' * (bits + 1)}'", REJECTED),
            (f"'{'0' * (bits - 1)}'", REJECTED),
            (f"'{'2' * bits}'", REJECTED),
        ]
        yield _of(
            f"GEOHASH({bits}b)",
            tag | bits << 8 | 1 << 16,
            arrow,
            keys,
            (*literals, ("5", 5), *wrong, ("true", REJECTED)),
        )


def _others() -> Iterator[Typed]:
    array = pa.array([[1.0], [], None], pa.list_(pa.float64()))
    wrong = _rejected("'a'", "5", "x'00'", "true")
    yield Typed(name="DOUBLE[]", code=27 | 10 << 8, keys=(b"one", b"none", None), array=array, literals=wrong)


def _truth(sign: str, wanted: Key, key: Key | None) -> Truth:
    if key is None:
        return None
    if isinstance(key, float) and math.isnan(key):
        return sign in ("!=", "<>")
    if isinstance(key, float) and math.isfinite(key) and isinstance(wanted, Fraction):
        return SIGNS[sign](Fraction(key), wanted)
    return SIGNS[sign](key, wanted)


def _not(of: Truth) -> Truth:
    return None if of is None else not of


def _and(first: Truth, second: Truth) -> Truth:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def _between(low: Key, high: Key, key: Key | None) -> Truth:
    return _and(_truth(">=", low, key), _truth("<=", high, key))


def _either(first: Key, second: Key, key: Key | None) -> Truth:
    return _not(_and(_not(_truth("=", first, key)), _not(_truth("=", second, key))))


def _conditions(of: Typed) -> Iterator[Worded]:
    """Yield conditions with each literal alone, with two of them, and on nulls."""

    def worded(text: str, truth_of: Callable[[Key | None], Truth], *, is_negated: bool = False) -> Worded:
        found = (truth_of(key) for key in of.keys)
        return Worded(type=of, text=text, expected=tuple(_not(each) if is_negated else each for each in found))

    def is_null(key: Key | None) -> Truth:
        return key is None

    yield worded(f"{NAME} IS NULL", is_null)
    yield worded(f'NOT ("{NAME}" IS NOT NULL)', is_null)
    yield worded(f"{NAME.upper()} is not null", is_null, is_negated=True)
    literals = [(text, key) for text, key in of.literals if key is not REJECTED]
    for text, key in literals:
        for sign in SIGNS:
            yield worded(f"{NAME} {sign} {text}", partial(_truth, sign, key))
            yield worded(f"{text} {sign} {NAME}", partial(_truth, MIRRORED.get(sign, sign), key))
        yield worded(f"NOT {NAME} >= {text}", partial(_truth, ">=", key), is_negated=True)
    for (first, low), (second, high) in itertools.pairwise(literals):
        between, either = partial(_between, low, high), partial(_either, low, high)
        yield worded(f"{NAME} BETWEEN {first} AND {second}", between)
        yield worded(f"{NAME} NOT BETWEEN {first} AND {second}", between, is_negated=True)
        yield worded(f"{NAME} IN ({first}, {second})", either)
        yield worded(f"{NAME} NOT IN ({first}, {second})", either, is_negated=True)
        yield worded(f"{NAME} = {first} OR {NAME} = {second} OR {NAME} IS NULL", partial(_or_null, either))
    if of.code == BOOLEAN:
        yield worded(NAME, partial(_truth, "=", 1))
        yield worded(f"NOT {NAME}", partial(_truth, "=", 1), is_negated=True)


def _or_null(truth_of: Callable[[Key | None], Truth], key: Key | None) -> Truth:
    return True if key is None else truth_of(key)


def _wrong_literals(of: Typed) -> Iterator[Worded]:
    for text, key in of.literals:
        if key is REJECTED:
            shown = text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."
            words = f"column {NAME!r} of type {of.name} cannot be compared with {shown}; {of.advice}"
            yield Worded(type=of, text=f"{NAME} = {text}", expected=words)
            yield Worded(type=of, text=f"{NAME} IN ({text})", expected=words)
    if of.code != BOOLEAN:
        yield Worded(type=of, text=NAME, expected=f"of type {of.name} cannot be compared with true; {of.advice}")


def _long_conditions() -> Iterator[Worded]:
    """Yield conditions of so many parts as fit into the longest text."""
    of = next(each for each in typed() if each.name == "INT")
    for word, sign, is_true in (
        ("OR", "=", [each == 1 for each in of.keys]),
        ("AND", "!=", [each != 1 for each in of.keys]),
    ):
        text = f" {word} ".join([f"{NAME} {sign} 1"] * PARTS_MAX)
        expected = tuple(None if key is None else each for key, each in zip(of.keys, is_true, strict=True))
        yield Worded(type=of, text=text, expected=expected)


def _wrong_conditions() -> Iterator[Worded]:
    """Yield what is no condition, or needs what conditions have not."""
    of = next(each for each in typed() if each.name == "INT")
    for text, words in (
        ("other = 1", f"there is no column 'other'; the table has {NAME}"),
        (f"{NAME} = {NAME}", "is not supported"),
        (f"{NAME} + 1 = 2", "is not supported"),
        (f"abs({NAME}) = 2", "is not supported"),
        (f"{NAME} LIKE 'a'", "is not supported"),
        (f"{NAME} IN (SELECT 1)", "is not supported"),
        (f"{NAME} IS TRUE", "is not supported"),
        ("1 = 1", "is not supported"),
        ("1", "is not supported"),
        (f"t.{NAME} = 1", "is not supported"),
        (f"{NAME} = 1 + 1", "is not supported"),
        (f"{NAME} = -'1'", "is not supported"),
        (f"{NAME} BETWEEN SYMMETRIC 2 AND 1", "is not supported"),
        (f"{NAME} = NULL", "nothing is equal to NULL"),
        (f"{NAME} IN (1, NULL)", "nothing is equal to NULL"),
        (f"{NAME} =", "the condition cannot be read"),
        (f"{NAME} = 1)", "the condition cannot be read at ')'"),
        (f"{NAME} = 'a", "a quote or a comment does not end"),
        ("", "the condition cannot be read"),
        (f"{NAME} = 1" + " " * (1 << 15), "longer than 32768 characters"),
        ("NOT " * 8000 + NAME, "the condition is nested too deeply"),
    ):
        yield Worded(type=of, text=text, expected=words)
