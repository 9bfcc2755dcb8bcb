"""Values at and beyond the bounds of every type, in the Arrow types in which rows may come, and what a column then has.

Bounds and Arrow types are those of docs/types.md. A value is taken as it is, or refused: no cast may lose anything of
it, but that a float is the nearest one.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tornproof.harness.explorers.roundtrip.parquet.array_bytes import stored_of
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import DECIMAL_TAGS

Key: TypeAlias = Any
"""A value as Python has it; times are integers in their unit, UUIDs are bytes, and arrays are lists."""
NAN, INFINITY = math.nan, math.inf
HALF_BITS = {f"{tag}": bits for tag, bits in (("BYTE", 8), ("SHORT", 16), ("INT", 32), ("LONG", 64))}
SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
GEOHASH_BITS = {1: 8, 7: 8, 8: 16, 15: 16, 16: 32, 31: 32, 32: 64, 60: 64}
"""Sizes of geohashes at the bounds of the integers that hold them."""
DECIMALS = (
    (1, 0),
    (1, 1),
    (2, 1),
    (3, 0),
    (4, 4),
    (5, 2),
    (9, 2),
    (10, 3),
    (18, 18),
    (19, 1),
    (38, 10),
    (39, 0),
    (76, 76),
)
NEVER_NULL = frozenset({"BOOLEAN", "BYTE", "SHORT", "CHAR"})
TEXTS = ("STRING", "VARCHAR", "SYMBOL")
TIMES = {"DATE": "ms", "TIMESTAMP": "us", "TIMESTAMP_NS": "ns"}
BOUND_BYTES = 4096
"""Longer values are no bounds."""
LONG_BYTES = 70_000
NO_TEXT = (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80")
"""A byte that begins nothing, a character that is cut, a surrogate and one of five bytes."""
EXACT = Context(prec=100)


FORMS = {
    "BYTE SHORT INT GEOHASH(1b) GEOHASH(7b) GEOHASH(8b) GEOHASH(15b) GEOHASH(16b) GEOHASH(31b)": "<i",
    "CHAR IPV4": "<I",
    "LONG DATE TIMESTAMP TIMESTAMP_NS GEOHASH(32b) GEOHASH(60b)": "<q",
    "BOOLEAN": "<?",
    "FLOAT": "<f",
    "DOUBLE": "<d",
}
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """An array for a column of a type, and what the column has then.

    `keys` are None where the array must be refused; where it is not `sure`, it may be refused as well.
    """

    type: str
    words: str
    array: pa.Array
    keys: tuple[Key, ...] | None
    sure: bool = True

    @property
    def in_file(self) -> tuple[Key, ...]:
        """What another reader of Parquet sees: arrays are bytes to it."""
        keys = self.keys or ()
        dimensions = self.type.count("[]")
        return tuple(None if key is None else _array_bytes(key, dimensions) for key in keys) if dimensions else keys


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedColumn:
    """A column of a type, and all that is offered to it."""

    type: str
    values: tuple[Offered, ...]

    @property
    def name(self) -> str:
        """It in words."""
        return f"a column of the type {self.type}"


@functools.cache
def offered_columns() -> tuple[OfferedColumn, ...]:
    """Return all columns, always in the same order."""
    columns = dict[str, list[Offered]]()
    for each in (*_numbers(), *_times(), *_floats(), *_decimals(), *_texts(), *_bytes(), *_arrays(), *_of_no_type()):
        columns.setdefault(each.type, []).append(each)
    return tuple(OfferedColumn(type=name, values=tuple(values)) for name, values in columns.items())


def plain(name: str, key: Key) -> bytes:
    """Return a value of a type as data.parquet stores it."""
    if isinstance(key, Decimal):
        match = DECIMAL.fullmatch(name)
        assert match is not None, name
        tag = next(tag for tag, digits in DECIMAL_TAGS.items() if int(match[1]) <= digits)
        return int(key.scaleb(int(match[2]), EXACT)).to_bytes(1 << tag - min(DECIMAL_TAGS), "big", signed=True)
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    return struct.pack(next(form for names, form in FORMS.items() if name in names.split()), key)


def _array_of(keys: Sequence[Key], of: pa.DataType) -> pa.Array:
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, _array_of(keys, of.storage_type))
    return pa.array(keys, pa.int64()).cast(of) if pa.types.is_timestamp(of) else pa.array(keys, of)


def _taken(name: str, of: pa.DataType, keys: Sequence[Key]) -> Iterator[Offered]:
    """Yield values of the documented Arrow type, with and without nulls between them."""
    yield Offered(type=name, words=f"{len(keys)} values", array=_array_of(keys, of), keys=tuple(keys))
    if name in NEVER_NULL:
        yield _refused(name, "a null", _array_of([*keys[:1], None], of))
        return
    with_nulls = tuple(each for key in keys for each in (None, key))
    yield Offered(type=name, words="nulls between", array=_array_of(with_nulls, of), keys=with_nulls)
    yield Offered(type=name, words="only nulls", array=_array_of([None] * 2, of), keys=(None,) * 2)
    yield Offered(type=name, words="nulls of no type", array=pa.nulls(2), keys=(None,) * 2)


def _other(name: str, array: pa.Array, keys: Sequence[Key], *, sure: bool = False) -> Offered:
    """Return values in another Arrow type."""
    words = f"{array.type} {list(keys)}"[:120]
    return Offered(type=name, words=words, array=array, keys=tuple(keys), sure=sure)


def _refused(name: str, words: str, array: pa.Array) -> Offered:
    return Offered(type=name, words=f"{words}, {array.type}", array=array, keys=None)


def _numbers() -> Iterator[Offered]:
    integers = {name: (SIGNED[bits], -(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in HALF_BITS.items()}
    integers |= {"CHAR": (pa.uint16(), 0, (1 << 16) - 1), "IPV4": (pa.uint32(), 0, (1 << 32) - 1)}
    for name, (of, low, high) in integers.items():
        yield from _taken(name, of, (low, *((-1,) if low else ()), 0, 1, high - 1, high))
        yield from _other_integers(name, low, high)
    for size_bits, bits in GEOHASH_BITS.items():
        name, least_too_many = f"GEOHASH({size_bits}b)", 1 << size_bits
        yield from _taken(name, SIGNED[bits], (-1, 0, 1, least_too_many - 1))
        for beyond in (-(1 << bits - 1), -2, least_too_many, (1 << bits - 1) - 1):
            if not 0 <= beyond < least_too_many:
                of = SIGNED[bits] if beyond < 1 << bits - 1 else pa.int64()
                yield _refused(name, f"{beyond}", pa.array([0, beyond], of))
    yield from _texts_of_numbers()
    yield from _taken("BOOLEAN", pa.bool_(), (False, True, True, False))
    for of in (pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()):
        yield _other("BOOLEAN", pa.array([0, 1], of), (False, True))
        yield _refused("BOOLEAN", "2", pa.array([0, 2], of))
    for wrong in (0.5, NAN, -INFINITY):
        yield _refused("BOOLEAN", str(wrong), pa.array([1.0, wrong]))
    yield _refused("BOOLEAN", "a number in a dictionary", pa.array([1, 2]).dictionary_encode())


def _other_integers(name: str, low: int, high: int) -> Iterator[Offered]:
    """Yield integers of all types: those between the bounds are taken."""
    for of in (*SIGNED.values(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        limits = np.iinfo(of.to_pandas_dtype())
        fitting = [each for each in (low, low + 1, 0, high - 1, high) if limits.min <= each <= limits.max]
        yield _other(name, pa.array(fitting, of), fitting, sure=True)
        for beyond in (low - 1, high + 1, int(limits.min), int(limits.max)):
            if limits.min <= beyond <= limits.max and not low <= beyond <= high:
                yield _refused(name, f"{beyond}", pa.array([0, beyond], of))
    yield _other(name, pa.array([1, high]).dictionary_encode(), (1, high), sure=True)
    yield _refused(name, "a number in a dictionary", pa.array([0, high + 1], _wide(high + 1)).dictionary_encode())
    yield _other(name, pa.array([0.0, 100.0]), (0, 100))
    for wrong in (0.5, NAN, INFINITY, 2.0 * high + 2):
        yield _refused(name, str(wrong), pa.array([1.0, wrong]))
    yield _other(name, pa.array([Decimal(7), Decimal(high)], pa.decimal128(38, 0)), (7, high))
    for digits in (Decimal(high) + 1, Decimal(low) - 1, Decimal("0.5")):
        yield _refused(name, f"{digits}", pa.array([digits], pa.decimal128(38, 1)))


def _texts_of_numbers() -> Iterator[Offered]:
    """Yield texts for columns that are numbers, but not those that the texts have the digits of."""
    texts = (
        ("CHAR", ("7", "A", "€"), (0x37, 0x41, 0x20AC), ("12", "\U0001f600")),
        ("IPV4", ("10.0.0.1", "0.0.0.12"), (10 << 24 | 1, 12), ("12", "")),
        ("GEOHASH(15b)", ("012", "zzz"), (34, (1 << 15) - 1), ("12", "0123", "00a")),
        # No text has the bits of a part of a digit.
        *(
            (f"GEOHASH({bits}b)", (), (), ("1" * (bits // 5), "1" * (bits // 5 + 1)))
            for bits in GEOHASH_BITS
            if bits % 5
        ),
    )
    for of in (pa.string(), pa.large_string(), pa.string_view(), pa.binary()):
        for name, fitting, numbers, wrong in texts:
            if fitting:
                yield _other(name, pa.array(fitting, pa.string()).cast(of), numbers, sure=True)
            yield from (_refused(name, f"text {each}", pa.array([each], pa.string()).cast(of)) for each in wrong)


def _wide(number: int) -> pa.DataType:
    return pa.int64() if number < 1 << 63 else pa.uint64()


def _times() -> Iterator[Offered]:
    low, high = -(1 << 63), (1 << 63) - 1
    steps = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    for name, unit in TIMES.items():
        of = pa.timestamp(unit, "UTC")
        yield from _taken(name, of, (low, low + 1, -1, 0, 1, high))
        # Of the others none is the type of the column.
        yield _other(name, pa.array([low, 5], pa.timestamp(unit)), (low, 5))
        yield _other(name, pa.array([-7, 5], pa.timestamp(unit, "Asia/Tokyo")), (-7, 5))
        yield _other(name, pa.array([low, high]), (low, high))
        for finer, step in steps.items():
            ratio = steps[unit] / step
            if ratio > 1:
                several = int(ratio)
                yield _other(name, pa.array([-several, 3 * several], pa.timestamp(finer, "UTC")), (-1, 3))
                yield _refused(name, f"{several + 1} {finer}", pa.array([several + 1], pa.timestamp(finer, "UTC")))
            elif ratio < 1:
                several = step // steps[unit]
                yield _other(name, pa.array([-1, 3], pa.timestamp(finer, "UTC")), (-several, 3 * several))
                yield _refused(name, f"{high} {finer}", pa.array([high], pa.timestamp(finer, "UTC")))
        day = 86_400 * 10**9 // steps[unit]
        yield _other(name, pa.array([-1, 2], pa.date32()), (-day, 2 * day))
        yield _refused(name, "a number of the 64th bit", pa.array([high + 1], pa.uint64()))
        yield _refused(name, "a float", pa.array([0.5]))


def _floats() -> Iterator[Offered]:
    for name, of in (("FLOAT", pa.float32()), ("DOUBLE", pa.float64())):
        facts, narrow = np.finfo(of.to_pandas_dtype()), of.to_pandas_dtype()
        largest, digits = float(facts.max), facts.nmant + 1
        special = (NAN, INFINITY, -INFINITY, -0.0, 0.0)
        tiny = (float(facts.smallest_subnormal), float(facts.tiny), -largest, largest, float(narrow(0.1)))
        yield from _taken(name, of, (*special, *tiny))
        yield _other(name, pa.array([*special, 1.5], pa.float16()), (*special, 1.5))
        yield _other(name, pa.array([*special, 0.1, 1e-50]), (*special, float(narrow(0.1)), float(narrow(1e-50))))
        whole = 1 << digits
        yield _other(name, pa.array([0, whole, -whole]), (0.0, float(whole), -float(whole)))
        yield _refused(name, "an integer between two floats", pa.array([whole + 1]))
        yield _refused(name, "a large integer between two floats", pa.array([(1 << 64) - 1], pa.uint64()))
        # Arrow's cast of some of them is not the nearest.
        parts = [Decimal(part) for part in ("0.35", "0.03", "0.07", "0.21")]
        decimals, nearest = [Decimal("0.50"), Decimal(whole), *parts], [float(narrow(part)) for part in parts]
        for decimal in (pa.decimal32(9, 8), pa.decimal64(18, 16)):
            yield _other(name, pa.array(parts, decimal), tuple(nearest), sure=True)
        for decimal in (pa.decimal128(18, 2), pa.decimal256(70, 20)):
            yield _other(name, pa.array(decimals, decimal), (0.5, float(whole), *nearest), sure=True)
            yield _refused(name, "a decimal between two floats", pa.array([Decimal(whole + 1)], decimal))
        beyond = "1e39" if name == "FLOAT" else "1e400"
        for text in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
            texts = pa.array(["1.5", "-inf", f"-{beyond}"], pa.string()).cast(text)
            yield _other(name, texts[:2], (1.5, -INFINITY))
            yield _refused(name, "texts of more than it holds", texts)
        dictionary = pa.array(["1.5", beyond]).dictionary_encode()
        yield _refused(name, "a text of more than it holds in a dictionary", dictionary)
    yield _refused("FLOAT", "more than floats", pa.array([1.5, 1e39]))
    yield _refused("FLOAT", "less than floats", pa.array([1.5, -1e39]))
    yield _refused("FLOAT", "a decimal of more than floats", pa.array([Decimal(10) ** 39], pa.decimal256(76, 0)))


def _decimal(digits: int, scale: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    return (pa.decimal256 if precision > 38 else pa.decimal128)(precision, scale)


def _unsound_decimal(digits: int, of: pa.DataType) -> pa.Array:
    """Return a decimal of more digits than its type says."""
    content = digits.to_bytes(of.bit_width // 8, "little", signed=True)
    return pa.Array.from_buffers(of, 1, [None, pa.py_buffer(content)])


def _decimals() -> Iterator[Offered]:
    for precision, scale in DECIMALS:
        name, of = f"DECIMAL({precision},{scale})", _decimal_type(precision, scale)
        largest = 10**precision - 1
        keys = tuple(_decimal(digits, scale) for digits in (-largest, -1, 0, 1, largest - 1, largest))
        yield from _taken(name, of, keys)
        if precision < 76:
            wider = _decimal_type(precision + 1, scale)
            yield _other(name, pa.array(keys, wider), keys, sure=True)
            for digits in (largest + 1, -largest - 1):
                yield _refused(name, f"{digits}", pa.array([_decimal(digits, scale)], wider))
            if scale < 76:
                finer = _decimal_type(precision + 1, scale + 1)
                ten_times = [key.scaleb(-1, EXACT) * 10 for key in keys[1:3]]
                yield _other(name, pa.array(ten_times, finer), keys[1:3])
                yield _refused(name, "a digit behind its last", pa.array([_decimal(11, scale + 1)], finer))
        for digits in (largest + 1, -largest - 1):
            yield _refused(name, f"{digits} that its type says it cannot have", _unsound_decimal(digits, of))
    one = ("DECIMAL(5,2)", (_decimal(150, 2), _decimal(0, 2)))
    yield _other(one[0], pa.array([1.5, 0.0]), one[1])
    yield _other(one[0], pa.array([1.5, 0.0], pa.float32()), one[1])
    # Arrow's cast back of the second one is another number.
    for of in (pa.float32(), pa.float64()):
        yield _other(one[0], pa.array([0.1, 0.35], of), (_decimal(10, 2), _decimal(35, 2)), sure=True)
    for wrong in (0.125, 1000.0, NAN, INFINITY):
        yield _refused(one[0], str(wrong), pa.array([1.0, wrong]))
    yield _other(
        "DECIMAL(38,10)",
        pa.array([7, -(1 << 31)], pa.int32()),
        [_decimal(each * 10**10, 10) for each in (7, -(1 << 31))],
    )
    yield _refused("DECIMAL(5,2)", "an integer", pa.array([1000]))


def _texts() -> Iterator[Offered]:
    keys = (
        "",
        "\0",
        "a",
        "größe",
        "\U0010ffff",
        "\ud7ff",
        "x" * BOUND_BYTES,
        "y" * (BOUND_BYTES + 1),
        "z" * LONG_BYTES,
    )
    some = keys[:5]
    for name in TEXTS:
        yield from _taken(name, pa.string(), keys)
        for of in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
            yield _other(name, pa.array([*some, None], of), (*some, None), sure=True)
        for of in (pa.binary(), pa.large_binary(), pa.binary_view()):
            yield _other(name, pa.array([key.encode() for key in some], of), some)
            yield from (_refused(name, repr(each), pa.array([b"a", each], of)) for each in NO_TEXT)
        for each in NO_TEXT:
            offsets, content = pa.py_buffer(np.array([0, 1, 1 + len(each)], np.int32)), pa.py_buffer(b"a" + each)
            array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, content])
            yield _refused(name, f"{each!r} that is said to be text", array)
        yield _refused(name, "a list", pa.array([["a"]]))


def _bytes() -> Iterator[Offered]:
    yield from _taken("BINARY", pa.binary(), (b"", b"\0", b"\xff\xfe", b"x" * (BOUND_BYTES + 1), b"z" * LONG_BYTES))
    for of in (pa.large_binary(), pa.binary_view()):
        yield _other("BINARY", pa.array([b"", b"\xff", None], of), (b"", b"\xff", None), sure=True)
    yield _other("BINARY", pa.array(["", "größe"]), (b"", "größe".encode()))
    for name, width, of in (("UUID", 16, pa.uuid()), ("LONG128", 16, pa.binary(16)), ("LONG256", 32, pa.binary(32))):
        smallest = bytes(7) + b"\x80"
        keys = (
            bytes(width),
            b"\xff" * width,
            bytes(range(width)),
            smallest * (width // 8),
            smallest[::-1] * (width // 8),
        )
        yield from _taken(name, of, keys)
        yield _other(name, pa.array([keys[2], None, keys[1]]), (keys[2], None, keys[1]))
        for wrong in (b"", bytes(width - 1), bytes(width + 1), bytes(2 * width)):
            yield _refused(name, f"{len(wrong)} bytes", pa.array([keys[2], wrong]))
            yield _refused(name, f"always {len(wrong)} bytes", pa.array([wrong], pa.binary(len(wrong))))
        yield _refused(name, "a number", pa.array([1]))
        yield _refused(name, "a text of as many characters", pa.array(["7" * width]))


def _lists_of(dimensions: int, element: pa.DataType, *, is_large: bool = False) -> pa.DataType:
    make = pa.large_list if is_large else pa.list_
    return functools.reduce(lambda inner, _: make(inner), range(dimensions), element)


def _nested(shape: Sequence[int], elements: Iterator[Any]) -> Any:
    return [_nested(shape[1:], elements) for _ in range(shape[0])] if shape else next(elements)


def _array_bytes(key: Any, dimensions: int) -> bytes:
    shape, level = [], key
    for _ in range(dimensions):
        shape.append(len(level))
        level = level[0] if level else ()
    for _ in range(dimensions - 1):
        key = list(itertools.chain.from_iterable(key))
    return stored_of(tuple(shape), [NAN if each is None else each for each in key])


def _arrays() -> Iterator[Offered]:
    doubles = (1.5, -0.0, INFINITY, NAN, 1e-300, 0.1)
    for dimensions in (1, 2, 3, 32):
        name, of = "DOUBLE" + "[]" * dimensions, _lists_of(dimensions, pa.float64())
        shapes = [(3,) + (1,) * (dimensions - 1), (1,) * (dimensions - 1) + (2,), (1,) * dimensions]
        keys = tuple(_nested(shape, itertools.cycle(doubles)) for shape in shapes)
        yield Offered(type=name, words="lists", array=pa.array([*keys, None], of), keys=(*keys, None))
        empty = _nested((1,) * (dimensions - 1) + (0,), iter(()))
        yield Offered(type=name, words="lists of none", array=pa.array([empty, keys[0]], of), keys=(empty, keys[0]))
        yield Offered(type=name, words="only nulls", array=pa.array([None, None], of), keys=(None, None))
        yield Offered(type=name, words="nulls of no type", array=pa.nulls(2), keys=(None, None))
        without, missing = (_nested((1,) * (dimensions - 1) + (2,), iter((1.5, end))) for end in (None, NAN))
        yield Offered(type=name, words="null elements", array=pa.array([without], of), keys=(missing,))
        large = pa.array([*keys, None], _lists_of(dimensions, pa.float64(), is_large=True))
        yield _other(name, large, (*keys, None))
        for other in (pa.float32(), pa.int32(), pa.decimal128(9, 2)):
            whole = _nested(shapes[0], itertools.cycle((1, 2)))
            floats = _nested(shapes[0], itertools.cycle((1.0, 2.0)))
            yield _other(name, pa.array([whole], _lists_of(dimensions, other)), (floats,))
        views = pa.array(
            [keys[0], None, keys[2]],
            functools.reduce(lambda inner, _: pa.list_view(inner), range(dimensions), pa.float64()),
        )
        yield _other(name, views, (keys[0], None, keys[2]), sure=True)
        yield _refused(name, "a dimension more", pa.array([[keys[0]]], _lists_of(dimensions + 1, pa.float64())))
        inner = keys[0] if dimensions == 1 else keys[0][0]
        fewer = pa.array([inner[0] if dimensions == 1 else inner], _lists_of(dimensions - 1, pa.float64()))
        yield _refused(name, "a dimension fewer", fewer)
        yield _refused(
            name, "no numbers", pa.array([_nested(shapes[2], iter("x"))], _lists_of(dimensions, pa.string()))
        )
        for text in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
            lists = [_nested(shapes[2], iter([each])) for each in ("1.5", "-inf", "1e400")]
            of_texts = pa.array(lists, _lists_of(dimensions, text))
            yield _other(name, of_texts[:2], [_nested(shapes[2], iter([each])) for each in (1.5, -INFINITY)])
            yield _refused(name, "texts of more than doubles", of_texts)
        yield _refused(name, "integers between two doubles", pa.array([_nested(shapes[2], iter([(1 << 53) + 1]))]))
        if dimensions > 1:
            for words, wrong in (("ragged lists", [keys[2][0], keys[2][0] * 2]), ("a null list", [None])):
                yield _refused(name, words, pa.array([keys[0], wrong], of))


def _of_no_type() -> Iterator[Offered]:
    """Yield what no column is like."""
    makers: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.array([{"a": 1}]),
        lambda: pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    )
    for name in ("BOOLEAN", "INT", "TIMESTAMP", "DOUBLE", "VARCHAR", "SYMBOL", "UUID", "DECIMAL(5,2)", "DOUBLE[]"):
        yield from (_refused(name, "another kind", make()) for make in makers)
        if name not in ("VARCHAR", "SYMBOL"):
            yield _refused(name, "text", pa.array(["no number"]))
