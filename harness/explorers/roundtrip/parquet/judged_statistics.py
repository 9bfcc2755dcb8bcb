"""Whether counts and bounds in `_pm` are believed where they fit the values of their pages, and rejected elsewhere.

The order of each type and what a bound may be are those of docs/format.md, applied here a second time to few values.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import UNCOUNTED
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of, column_of
from tornproof.impl.chunk.statistics import are_exact, check_bounds, check_counts, without_older_rows
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column

PROPERTY = "statistics are believed if they fit the values of their pages, and rejected otherwise"
FILE, NAME, START_BYTES = "data.parquet", "judged", 8000
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
INTEGERS = (INT32, INT64)
BINARY, IPV4, VARCHAR = 18, 25, 26
NEVER_NULL = (1, 2, 3, 4)
"""BOOLEAN, BYTE, SHORT and CHAR, of which some servers count rows as nulls that are older than the column."""
OWN_ID, NO_ID = 3, -1
"""Of a column of a server, and of another writer, whose dictionary may have texts that no row has."""
MANY = 70
"""So often few values are repeated, because many are compared in another way."""
CONTINUATION = range(0x80, 0xC0)
NO_BOUND = bytes(5)
"""A bound that has the width of no type."""

Stored: TypeAlias = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A type: how Arrow has its values, three of them in order, how a bound has one, and what they are compared by."""

    name: str
    type: int
    physical: int
    arrow: pa.DataType
    values: tuple[Any, Any, Any]
    stored: Stored
    key: Callable[[Any], Any] = lambda value: value
    fixed_bytes: int = 0
    is_ordered: bool = True
    id: int = OWN_ID
    is_required: bool = False

    @property
    def unordered(self) -> tuple[Any, ...]:
        """Values that no bound says anything about."""
        return (math.nan,) if self.physical in (FLOAT, DOUBLE) else ()

    @property
    def column(self) -> Column:
        """The column."""
        own = {"name": NAME, "id": self.id, "fixed_byte_len": self.fixed_bytes}
        return column_of(self.type, self.physical, max_def_level=int(not self.is_required), **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Values, and what is said of them: counts, and bounds with whether they are exact; `field` is what is wrong."""

    type: Ordered
    values: tuple[Any, ...]
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None
    more_values: int = 0
    more_nulls: int | None = 0
    field: str = ""

    @property
    def name(self) -> str:
        """It in words."""
        counts = f"{self.more_values} values and {self.more_nulls} nulls more"
        said = f"from {self.low} to {self.high}, {counts}"
        return f"{len(self.values)} values of {self.type.name}, {self.values[:4]}, {said}"

    @property
    def kind(self) -> str:
        """The type, and what is wrong."""
        return f"{self.type.name} {self.field}"

    @property
    def array(self) -> pa.Array:
        """The values as they are stored."""
        return pa.array(self.values, self.type.arrow)

    @property
    def chunk(self) -> Chunk:
        """What is said of them."""
        null_count = None if self.more_nulls is None else self.values.count(None) + self.more_nulls
        value_count, low, high = (
            len(self.values) + self.more_values,
            self._statistic(self.low),
            self._statistic(self.high),
        )
        return chunk_of(
            value_count, low, high, null_count=null_count, byte_range_start=START_BYTES, total_compressed=10
        )

    def _statistic(self, said: tuple[Any, bool] | None) -> Statistic | None:
        if said is None:
            return None
        value, is_exact = said
        return Statistic(value if value is NO_BOUND else self.type.stored(value), is_exact)


@functools.cache
def judged_statistics() -> tuple[Judged, ...]:
    """Return all statistics, always in the same order."""
    of_types = (each for of in types() for each in (*_counts(of), *_bounds(of), *_many(of), *_texts(of)))
    short = Ordered("SHORT", 3, INT32, pa.int32(), (-7, 0, 9), _packed("<i"))
    return distinct((*of_types, *(each for of in (short, *types()) for each in _older_rows(of))))


def problem_of(case: Judged) -> str | None:
    """Say what is wrong with how statistics are judged, alone and with many others; None if nothing is."""
    found = ""
    array = without_older_rows(case.array, case.type.column, case.chunk)
    try:
        check_counts(array, case.type.column, case.chunk, file=FILE)
        check_bounds(array, case.type.column, case.chunk, file=FILE)
    except CorruptError as error:
        found = error.problem.field.removesuffix(f" of column {NAME!r}")
        if (error.problem.file, error.problem.offset_bytes) != (FILE, START_BYTES):
            return f"{error} is said of another place"
    if found != case.field:
        return f"{found or 'nothing'} is wrong, and should be {case.field or 'nothing'}"
    return _problem_of_many(case)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of judges that look at no bounds, and at no counts."""
    statistics = "tornproof.impl.chunk.statistics"
    controls: Controls = (
        ("any counts are right", f"{__name__}:check_counts", lambda *_, **__: None, "and should be NULL_COUNT"),
        ("no row is older", f"{__name__}:without_older_rows", lambda values, *_: values, "NULL_COUNT is wrong"),
        ("no value is below a bound", f"{statistics}:extremes_of", lambda *_: (None, None), "and should be M"),
        ("every bound is a truncated text", f"{statistics}:_is_truncation", lambda *_: True, "nothing is wrong"),
        ("errors have no place", f"{statistics}:CorruptError", _without_place, "is said of another place"),
        ("no bounds are exact", f"{__name__}:are_exact", lambda *_: [False, True], "what has no bounds is said"),
        ("the first of many are exact", f"{__name__}:are_exact", lambda *_: [True, False], "it is said to be exact"),
        ("none of many are exact", f"{__name__}:are_exact", lambda *_: [False, False], "it is not seen to be exact"),
    )
    return not_noticed(controls, problem_of, judged_statistics())


def _without_place(**of: Any) -> CorruptError:
    return CorruptError(**of | {"offset_bytes": None})


def _problem_of_many(case: Judged) -> str | None:
    """Say whether it is one of several chunks that are said to be exact, and are not, or are and are not said to be."""
    if case.more_values or not case.values:
        return None
    sound = Judged(type=case.type, values=case.values[::-1])
    exact = are_exact(pa.concat_arrays([case.array, sound.array]), case.type.column, [case.chunk, sound.chunk])
    keys = [case.type.key(value) for value in case.values if value is not None]
    is_exact = bool(keys) and case.more_nulls == 0 and _is_said(case, min(keys), max(keys))
    if exact[1]:
        return "what has no bounds is said to have exact ones"
    if exact[0] and not is_exact:
        return "as one of many it is said to be exact"
    is_seen = exact[0] or not _is_number(case) or any(map(_is_nan, case.values))
    return "as one of many it is not seen to be exact" if is_exact and not is_seen else None


def _is_said(case: Judged, low: Any, high: Any) -> bool:
    found = [None if each is None or each[0] is NO_BOUND else case.type.key(each[0]) for each in (case.low, case.high)]
    return found == [low, high]


def _is_number(case: Judged) -> bool:
    return case.type.arrow in (pa.int32(), pa.int64(), pa.float32(), pa.float64()) and case.type.is_ordered


def _packed(form: str) -> Stored:
    return lambda value: struct.pack(form, value)


def _decimal(name: str, tag: int, precision: int, values: tuple[Decimal, Decimal, Decimal], size_bytes: int) -> Ordered:
    """Return decimals with two digits after the point, which are compared and stored as whole hundredths."""

    def hundredths(value: Decimal) -> int:
        # Decimal arithmetic would keep too few digits.
        return int(Fraction(value) * 100)

    def stored(value: Decimal) -> bytes:
        return hundredths(value).to_bytes(size_bytes, "big", signed=True)

    arrow = pa.decimal128(precision, 2)
    code = tag | precision << 8 | 2 << 18
    return Ordered(name, code, FIXED, arrow, values, stored, key=hundredths, fixed_bytes=size_bytes)


@functools.cache
def types() -> tuple[Ordered, ...]:
    """Return a type for each way to store and to compare."""
    unsigned: Callable[[int], int] = lambda value: value % (1 << 32)  # noqa: E731
    large = 1 << 40
    texts, uuids = (b"a", b"b", b"\xc3\xa9"), (bytes(16), b"\x7f" * 16, b"\x80" + bytes(15))
    digits = (Decimal("-1.50"), Decimal("0.01"), Decimal("12345678901234.56"))
    # More digits than decimal arithmetic keeps by default.
    many_digits = (Decimal(f"-{'9' * 36}.99"), Decimal("0.01"), Decimal(f"{'7' * 36}.71"))
    return (
        Ordered("BYTE", 2, INT32, pa.int32(), (-7, 0, 9), _packed("<i")),
        Ordered("INT", 5, INT32, pa.int32(), (-(1 << 31), -1, 256), _packed("<i")),
        Ordered("LONG", 6, INT64, pa.int64(), (-large, 1, large), _packed("<q")),
        Ordered("TIMESTAMP", 8, INT64, pa.int64(), (0, 1, large), _packed("<q")),
        Ordered("CHAR", 4, INT32, pa.int32(), (7, 300, 65535), _packed("<i")),
        Ordered("IPv4", IPV4, INT32, pa.int32(), (1, 1 << 30, -(1 << 31)), _packed("<i"), key=unsigned),
        Ordered("FLOAT", 9, FLOAT, pa.float32(), (-2.5, 0.25, 8.0), _packed("<f")),
        Ordered("DOUBLE", 10, DOUBLE, pa.float64(), (-1e300, 0.0, 0.1), _packed("<d")),
        Ordered("BOOLEAN", 1, BOOLEAN, pa.bool_(), (False, True, True), _packed("<?")),
        Ordered("VARCHAR", VARCHAR, BYTE_ARRAY, pa.binary(), texts, bytes),
        Ordered("VARCHAR of another writer", VARCHAR, BYTE_ARRAY, pa.binary(), texts, bytes, id=NO_ID),
        Ordered("BINARY", BINARY, BYTE_ARRAY, pa.binary(), (b"", b"\x7f", b"\xff"), bytes),
        Ordered("UUID", 19, FIXED, pa.binary(16), uuids, bytes, fixed_bytes=16),
        _decimal("DECIMAL", 31, 18, digits, 8),
        _decimal("DECIMAL of 38 digits", 32, 38, many_digits, 16),
        Ordered("of no type", -1, INT32, pa.int32(), (1, 2, 3), _packed("<i"), is_ordered=False),
        Ordered("INT96", 8, INT96, pa.binary(12), (bytes(12), b"\1" * 12, b"\2" * 12), bytes, is_ordered=False),
    )


def _counts(of: Ordered) -> Iterator[Judged]:
    first = of.values[0]
    for values in ((), (first,), (first, None), (None, None, None), (None, None, first, None)):
        yield Judged(type=of, values=values, more_nulls=None)
        for more_values in (-len(values), -1, 0, 1):
            for more_nulls in (-3, -2, -1, 0, 1):
                if len(values) + more_values >= 0 and values.count(None) + more_nulls >= 0:
                    are_older = of.type in UNCOUNTED and more_nulls < 0 and {*values[:-more_nulls]} == {None}
                    wrong = "NUM_VALUES" if more_values else "NULL_COUNT" if more_nulls and not are_older else ""
                    yield Judged(type=of, values=values, more_values=more_values, more_nulls=more_nulls, field=wrong)


def _bounds(of: Ordered) -> Iterator[Judged]:
    low, middle, high = of.values
    bounds = [None, *itertools.product((low, middle, high, *of.unordered), (True, False))]
    with_others = (high, middle, *of.unordered), of.unordered * 2
    for values in ((low, high), (middle,), (middle, None, low), (None, None), *with_others):
        if values:
            for said_low, said_high in itertools.product(bounds, repeat=2):
                yield _judged(of, values, said_low, said_high)
    if of.physical != BYTE_ARRAY:
        field = "statistics" if of.is_ordered else ""
        for is_exact in (True, False):
            none = (NO_BOUND, is_exact)
            for said_low, said_high in ((none, None), (none, (high, True)), ((low, True), none), (none, none)):
                yield Judged(type=of, values=(low, high), low=said_low, high=said_high, field=field)


def _many(of: Ordered) -> Iterator[Judged]:
    """Yield more values than are compared one by one."""
    low, middle, high = of.values
    for values in ((low, middle, high), (middle, high, None), (low, *of.unordered, high), of.unordered * 3):
        for said in ((low, high), (middle, high), (low, middle), (high, low)):
            if values:
                yield _judged(of, values * MANY, *((each, True) for each in said))


def _older_rows(of: Ordered) -> Iterator[Judged]:
    """Yield numbers of a required column, of which the first are counted as nulls and may be 0, with bounds of some."""
    low, middle, high = of.values
    if not isinstance(low, (int, float)):
        return
    required = replace(of, name=f"required {of.name}", is_required=True)
    zero = type(low)()
    for values in itertools.product(dict.fromkeys((zero, low, middle, high)), repeat=2):
        values += (high,)
        for count in range(len(values) + 2):
            may_be_older = of.type in NEVER_NULL and not any(values[:count]) and count <= len(values)
            for said in dict.fromkeys(_outermost(of, bounded) for bounded in (values, values[count:])):
                case = _judged(required, values[count:] if may_be_older else values, *said)
                wrong = case.field if may_be_older or not count else "NULL_COUNT"
                yield replace(case, values=values, more_nulls=count, field=wrong)


def _outermost(of: Ordered, values: Sequence[Any]) -> tuple[tuple[Any, bool] | None, tuple[Any, bool] | None]:
    """Return the exact bounds of values; None twice if there are none."""
    return ((min(values, key=of.key), True), (max(values, key=of.key), True)) if values else (None, None)


def _texts(of: Ordered) -> Iterator[Judged]:
    """Yield bounds that are the beginnings of texts."""
    if of.type == VARCHAR:
        values = ("größe mehr".encode(), b"m" * 9)
        for low, high in itertools.product(
            (b"", b"gr", b"gs", "grö".encode(), "größe mehr".encode(), b"a"), (b"n", b"mn", b"m" * 9, b"mmmn", b"z")
        ):
            yield _judged(of, values, (low, True), (high, True))
            yield _judged(of, values, (low, False), (high, False))
        for high in ("é".encode(), "ü".encode(), b"f", b"\xc3"):
            yield _judged(of, (b"e", "éa".encode()), None, (high, True))
        yield _judged(of, (b"e", "x\u07ffabc".encode()), None, ("x\u0800".encode(), True))
        # The character that was raised has a byte more.
        yield _judged(of, (b"e", b"x\x7fa"), None, ("x\x80".encode(), True))
        yield _judged(of, (b"e", b"x\x7fa"), None, (b"x\x7fb", True))


def _judged(
    of: Ordered, values: tuple[Any, ...], low: tuple[Any, bool] | None, high: tuple[Any, bool] | None
) -> Judged:
    return Judged(type=of, values=values, low=low, high=high, field=_wrong(of, values, low, high))


def _wrong(of: Ordered, values: Sequence[Any], low: tuple[Any, bool] | None, high: tuple[Any, bool] | None) -> str:
    """Return the bound that does not fit the values, the lower one first; none if both do."""
    if not of.is_ordered:
        return ""
    said: list[Any] = [None if each is None else of.key(each[0]) for each in (low, high)]
    if of.physical in INTEGERS and of.type != IPV4 and None not in said and said[0] > said[1]:
        return ""
    keys = [of.key(value) for value in values if value is not None and not _is_nan(value)]
    for name, bound, key, outermost in (
        ("MIN_STAT", low, said[0], min(keys, default=None)),
        ("MAX_STAT", high, said[1], max(keys, default=None)),
    ):
        # Servers of many releases state a maximum of BINARY that is below some values.
        if bound is None or _is_nan(key) or (name == "MAX_STAT" and of.type == BINARY):
            continue
        is_exact = bound[1] and of.type != BINARY and (of.type != VARCHAR or of.id == OWN_ID)
        if outermost is None:
            if is_exact:
                return name
            continue
        is_outside = key > outermost if name == "MIN_STAT" else key < outermost
        if is_outside or (is_exact and key != outermost and not _is_beginning(key, outermost)):
            return name
    return ""


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_beginning(bound: Any, value: Any) -> bool:
    """Return whether a bound is the beginning of a text, or above it by its last character."""
    if not isinstance(bound, bytes) or len(_first_bytes(bound)) >= len(_first_bytes(value)):
        return False
    if bound < value:
        return bool(value[: len(bound)] == bound)
    kept = len(bound)
    while kept and bound[kept - 1] in CONTINUATION:
        kept -= 1
    return bool(value[: max(kept - 1, 0)] == bound[: max(kept - 1, 0)])


def _first_bytes(text: bytes) -> list[int]:
    """Return the first byte of each character."""
    return [byte for byte in text if byte not in CONTINUATION]
