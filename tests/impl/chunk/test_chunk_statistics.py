"""A chunk's statistics in `_pm` must be true of its values."""

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import pm_builder as pm
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from type_values import decimal_type

from tornproof.impl.chunk import statistics
from tornproof.impl.chunk.earlier_bounds import check_bounds_of_pages
from tornproof.impl.chunk.statistics import _min_max, are_exact, check_bounds, check_counts
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import proven_bounds
from tornproof.impl.types.questdb import TypeTag

NAN = float("nan")
ARRAY_OF_DOUBLES = TypeTag.ARRAY | TypeTag.DOUBLE << 8
WIDE_DECIMAL = decimal_type(TypeTag.DECIMAL256, 70, 8)
DECIMAL_OF_INT32 = decimal_type(TypeTag.DECIMAL32, 9, 2)
STORED = {1: pa.int32(), 2: pa.int64(), 4: pa.float32(), 5: pa.float64(), 6: pa.binary()}


def chunk_of(minimum: Statistic | None, maximum: Statistic | None, **counts: Any) -> Chunk:
    return Chunk(
        codec=0,
        encodings=1,
        byte_range_start=77,
        total_compressed=100,
        distinct_count=None,
        minimum=minimum,
        maximum=maximum,
        **counts,
    )


def complaint(
    values: pa.Array,
    column_type: int,
    low: bytes | None = None,
    high: bytes | None = None,
    *,
    physical_type: int = 6,
    fixed_byte_len: int = 0,
    exact: bool = True,
    id: int = 0,
    **counts: int | None,
) -> str | None:
    """The field that is complained about, or None."""
    column = pm.column("x", column_type, physical_type, fixed_byte_len=fixed_byte_len, id=id)
    known: dict[str, Any] = {"num_values": len(values), "null_count": values.null_count} | counts
    bounds = [None if bound is None else Statistic(value=bound, exact=exact) for bound in (low, high)]
    chunk = chunk_of(*bounds, **known)
    try:
        check_counts(values, column, chunk, file="data.parquet")
        check_bounds(values, column, chunk, file="data.parquet")
    except CorruptError as error:
        assert error.problem.offset_bytes == 77
        return error.problem.field.removesuffix(" of column 'x'")
    return None


INTEGERS, FLOATS = st.integers(0, (1 << 31) - 1), st.floats(width=32)
COMPARED = {
    pa.int32(): INTEGERS,
    pa.int64(): INTEGERS,
    pa.uint32(): INTEGERS,
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=5),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(9, 2): st.decimals(-100, 100, places=2),
}


@pytest.mark.parametrize("is_small", [True, False])
@given(of=st.sampled_from(list(COMPARED)), data=st.data())
def test_extremes_are_those_that_arrow_finds(is_small: bool, of: pa.DataType, data: st.DataObject) -> None:
    values = pa.array(data.draw(st.lists(st.none() | COMPARED[of])), of)
    values = values.slice(data.draw(st.integers(0, len(values))))
    plain = pc.min_max(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "FEW_VALUES", len(values) if is_small else -1)
        assert repr(_min_max(values)) == repr((plain["min"].as_py(), plain["max"].as_py()))


@given(
    case=st.sampled_from(
        [
            (TypeTag.INT, 1, pa.int32(), st.integers(-2, 2)),
            (TypeTag.CHAR, 1, pa.int32(), st.integers(-2, 2)),
            (TypeTag.IPV4, 1, pa.int32(), st.sampled_from([-(1 << 31), -1, 0, (1 << 31) - 1])),
            (TypeTag.LONG, 2, pa.int64(), st.sampled_from([-(1 << 63), -1, 0, (1 << 63) - 1])),
            (TypeTag.FLOAT, 4, pa.float32(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, math.inf, NAN])),
            (TypeTag.DOUBLE, 5, pa.float64(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, math.inf, NAN])),
        ]
    ),
    row_count=st.integers(1, 9),
    data=st.data(),
)
def test_chunks_that_are_exact_have_no_complaint_and_honest_ones_are_exact(
    case: tuple[TypeTag, int, pa.DataType, st.SearchStrategy[Any]], row_count: int, data: st.DataObject
) -> None:
    tag, physical_type, of, value = case
    rows = st.lists(st.none() | value, min_size=row_count, max_size=row_count) | st.just([None] * row_count)
    parts = [pa.array(each, of) for each in data.draw(st.lists(rows, min_size=1, max_size=4))]
    chunks, honest = [], []
    for part in parts:
        unsigned = part.view(pa.uint32()) if tag in (TypeTag.CHAR, TypeTag.IPV4) else part
        extremes = pc.min_max(unsigned)
        bounds = [
            None
            if extremes[name].as_py() is None
            else Statistic(pa.array([extremes[name]]).buffers()[1].to_pybytes(), True)
            for name in ("min", "max")
        ]
        counts = part.null_count
        change = data.draw(st.sampled_from(["none", "empty", "missing", "width", "bit", "count", "no count"]))
        if change == "missing":
            bounds[data.draw(st.integers(0, 1))] = None
        elif change == "count":
            counts += 1
        elif change == "empty" and pa.types.is_floating(of):
            bounds = [
                Statistic(pa.array([bound], of).buffers()[1].to_pybytes(), True) for bound in (math.inf, -math.inf)
            ]
        at = data.draw(st.integers(0, 1))
        if change in ("width", "bit") and (old := bounds[at]) is not None:
            new = old.value + b"\0" if change == "width" else bytes([old.value[0] ^ 1]) + old.value[1:]
            bounds[at] = Statistic(new, True)
        null_count = None if change == "no count" else counts
        chunks.append(chunk_of(*bounds, num_values=row_count, null_count=null_count))
        has_value = part.null_count < row_count
        has_nan = pa.types.is_floating(of) and bool(pc.any(pc.is_nan(part)).as_py())
        honest.append(change == "none" and has_value and not has_nan)
    column = pm.column("x", tag, physical_type)
    exact = are_exact(pa.concat_arrays(parts), column, chunks)
    for part, chunk, is_exact, is_honest in zip(parts, chunks, exact, honest, strict=True):
        assert is_exact or not is_honest
        if is_exact:
            check_counts(part, column, chunk, file="data.parquet")
            check_bounds(part, column, chunk, file="data.parquet")


def test_counts_must_be_those_of_the_pages() -> None:
    values = pa.array([1, None], pa.int64())
    assert complaint(values, TypeTag.LONG, physical_type=2) is None
    assert complaint(values, TypeTag.LONG, physical_type=2, num_values=3) == "NUM_VALUES"
    assert complaint(values, TypeTag.LONG, physical_type=2, null_count=0) == "NULL_COUNT"
    assert complaint(values, TypeTag.LONG, physical_type=2, null_count=None) is None


def integer(value: int, width_bytes: int = 4) -> bytes:
    return value.to_bytes(width_bytes, "little", signed=value < 0)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


# Each case: type, physical type, values, true bounds in the type's own order.
ORDERS: list[tuple[int, int, pa.Array, bytes, bytes]] = [
    (TypeTag.BOOLEAN, 0, pa.array([True, False]), b"\0", b"\1"),
    (TypeTag.BYTE, 1, pa.array([-3, 5], pa.int32()), integer(-3), integer(5)),
    (TypeTag.CHAR, 1, pa.array([1, 0xFFFF], pa.int32()), integer(1), integer(0xFFFF)),
    (TypeTag.IPV4, 1, pa.array([-1, 7, None], pa.int32()), integer(7), integer(0xFFFFFFFF)),
    (TypeTag.LONG, 2, pa.array([-(2**40), 2**50]), integer(-(2**40), 8), integer(2**50, 8)),
    (TypeTag.TIMESTAMP, 2, pa.array([-1, 1]), integer(-1, 8), integer(1, 8)),
    (TypeTag.DATE, 1, pa.array([-1, 1], pa.int32()), integer(-1), integer(1)),
    (TypeTag.FLOAT, 4, pa.array([-1.5, 2.5], pa.float32()), struct.pack("<f", -1.5), struct.pack("<f", 2.5)),
    (TypeTag.DOUBLE, 5, pa.array([NAN, 2.0, -1.0]), double(-1.0), double(2.0)),
    (TypeTag.VARCHAR, 6, pa.array([b"a", "ä".encode()]), b"a", "ä".encode()),
    (TypeTag.UUID, 7, pa.array([b"\1" * 16, b"\xff" * 16], pa.binary(16)), b"\1" * 16, b"\xff" * 16),
    (
        DECIMAL_OF_INT32,
        1,
        pa.array([Decimal("-0.05"), Decimal("7.00")], pa.decimal128(9, 2)),
        integer(-5),
        integer(700),
    ),
    (
        WIDE_DECIMAL,
        6,
        pa.array([Decimal("-0.01"), Decimal("1" * 62 + ".00000001")], pa.decimal256(70, 8)),
        (-(10**6)).to_bytes(4, "big", signed=True),
        int("1" * 62 + "00000001").to_bytes(32, "big"),
    ),
]


@pytest.mark.parametrize(("column_type", "physical_type", "values", "low", "high"), ORDERS)
def test_bounds_compare_in_the_order_of_the_type(
    column_type: int, physical_type: int, values: pa.Array, low: bytes, high: bytes
) -> None:
    shape: dict[str, Any] = {"physical_type": physical_type, "fixed_byte_len": 16}
    assert complaint(values, column_type, low, high, **shape) is None
    assert complaint(values, column_type, high, high, **shape) == "MIN_STAT"
    assert complaint(values, column_type, low, low, **shape) == "MAX_STAT"
    assert complaint(values, column_type, high, None, **shape) == "MIN_STAT"
    assert complaint(values, column_type, None, low, **shape) == "MAX_STAT"
    assert complaint(values, column_type, None, high, **shape) is None


def test_exact_bounds_must_occur_and_others_need_not() -> None:
    values = pa.array([5, 6, None], pa.int64())
    for low, high, field in ((4, 6, "MIN_STAT"), (5, 7, "MAX_STAT"), (5, 6, None)):
        bounds = integer(low, 8), integer(high, 8)
        assert complaint(values, TypeTag.LONG, *bounds, physical_type=2) == field
        assert complaint(values, TypeTag.LONG, *bounds, physical_type=2, exact=False) is None
    nulls = pa.array([None], pa.int64())
    assert complaint(nulls, TypeTag.LONG, integer(5, 8), physical_type=2) == "MIN_STAT"
    assert complaint(nulls, TypeTag.LONG, integer(5, 8), physical_type=2, exact=False) is None


@pytest.mark.parametrize("column_type", [TypeTag.BINARY, ARRAY_OF_DOUBLES])
def test_exact_is_not_trusted_for_binary_and_arrays(column_type: int) -> None:
    values = pa.array([b"0123456789", b"5"])
    assert complaint(values, column_type, b"0123", b"6") is None
    assert complaint(values, column_type, b"1", b"6") == "MIN_STAT"
    assert complaint(values, column_type, b"0", b"4") == (None if column_type == TypeTag.BINARY else "MAX_STAT")


@pytest.mark.parametrize("high", [bytes(8), b"\xff" * 8 + b"z", b"\x7f" + b"\xff" * 7])
def test_a_maximum_of_binary_may_be_below_its_values_and_a_minimum_not_above_them(high: bytes) -> None:
    """Servers cut a maximum to 8 or 9 bytes, and could not round up one that begins with eight 0xFF bytes."""
    values = pa.array([b"a" * 12, b"\x7f" + b"\xff" * 11, b"\xff" * 8 + b"zzzz"])
    assert complaint(values, TypeTag.BINARY, b"a" * 9, high) is None
    assert complaint(values, TypeTag.BINARY, None, high) is None
    assert complaint(values, TypeTag.BINARY, b"b", high) == "MIN_STAT"


@pytest.mark.parametrize("column_type", [TypeTag.VARCHAR, TypeTag.STRING, TypeTag.SYMBOL])
def test_bounds_of_texts_of_other_writers_hold_and_need_not_occur(column_type: int) -> None:
    """pyarrow takes the bounds of a categorical from its dictionary, which may have texts that no row has."""
    values, nulls = pa.array([b"b", b"c", None]), pa.array([None, None], pa.binary())
    assert complaint(values, column_type, b"a", b"zz", id=-1) is None
    assert complaint(nulls, column_type, b"a", b"zz", id=-1) is None
    assert complaint(values, column_type, b"bb", b"zz", id=-1) == "MIN_STAT"
    assert complaint(values, column_type, b"a", b"bz", id=-1) == "MAX_STAT"
    assert complaint(values, column_type, b"a", b"c") == "MIN_STAT"
    assert complaint(values, column_type, b"b", b"zz") == "MAX_STAT"
    assert complaint(nulls, column_type, b"a", b"zz") == "MIN_STAT"
    uuids = pa.array([b"b" * 16], pa.binary(16))
    assert complaint(uuids, TypeTag.UUID, b"a" * 16, physical_type=7, fixed_byte_len=16, id=-1) == "MIN_STAT"


def test_bounds_of_long_texts_may_be_cut() -> None:
    values = pa.array([b"Alice Johnson", "Kevin Bÿcker".encode()])
    assert complaint(values, TypeTag.VARCHAR, b"Al", b"Kf") is None
    # The character after ÿ begins with another byte.
    assert complaint(values, TypeTag.VARCHAR, b"Al", "Kevin BĀ".encode()) is None
    assert complaint(values, TypeTag.VARCHAR, b"Ak", b"Kf") == "MIN_STAT"
    assert complaint(values, TypeTag.VARCHAR, b"Al", b"Lf") == "MAX_STAT"
    assert complaint(values, TypeTag.VARCHAR, b"Alice Johnsom", b"Kf") == "MIN_STAT"
    assert complaint(values, TypeTag.VARCHAR, b"Al", "Kevin Bÿckes".encode()) == "MAX_STAT"


def test_a_cut_maximum_may_be_as_long_as_its_value() -> None:
    """Servers cut a text to 64 bytes and raise its last character, which may have one byte more then."""
    values = pa.array([b"a", b"n" * 63 + b"\x7fz", None])
    assert complaint(values, TypeTag.VARCHAR, b"a", b"n" * 63 + "\x80".encode()) is None
    assert complaint(values, TypeTag.VARCHAR, b"a", b"n" * 63 + b"\x7f{") == "MAX_STAT"
    assert complaint(values, TypeTag.VARCHAR, b"a", b"n" * 62 + "o\x80".encode()) == "MAX_STAT"


EARLIER = st.lists(st.lists(st.text("abé", max_size=3).map(str.encode), min_size=1, max_size=3), min_size=1, max_size=4)
ADDRESSES = st.integers(0, 3) | st.integers((1 << 31) - 1, (1 << 31) + 1) | st.just((1 << 32) - 1)


def judged_pages(
    pages: Sequence[Sequence[Any]], column: Column, low: bytes, high: bytes, *, exact: bool = True
) -> bool | str:
    """Whether bounds of pages are wrong as those of earlier servers, or the field that is complained about."""
    of = pa.int32() if column.type == TypeTag.IPV4 else pa.binary()
    values = pa.array(list(chain(*pages)), of)
    bounds = [Statistic(value=bound, exact=exact) if bound else None for bound in (low, high)]
    chunk = chunk_of(*bounds, num_values=len(values), null_count=values.null_count)
    try:
        return check_bounds_of_pages(values, column, chunk, list(map(len, pages)), file="data.parquet")
    except CorruptError as error:
        return error.problem.field.removesuffix(" of column 'x'")


TEXT, BYTES, ADDRESS = (pm.column("x", *of) for of in ((TypeTag.VARCHAR, 6), (TypeTag.BINARY, 6), (TypeTag.IPV4, 1)))
LONG_TEXT = ("é" * 31 + "x").encode()


@pytest.mark.parametrize(
    ("column", "pages", "low", "high", "found"),
    [
        (TEXT, [[b"ETH"], [b"ETHW"]], b"ETH", b"ETH", True),
        (TEXT, [[b"ETH"], [b"ETHW"]], b"ETH", b"ETHW", False),
        (TEXT, [[b"ETHW"], [None, b"ETH"], [None]], b"ETHW", b"ETHW", True),
        (TEXT, [[b"ETHW"], [b"ETH"]], b"ETHW", b"ETHX", "MAX_STAT"),
        # In one page, of others and in another order no server makes these.
        (TEXT, [[b"ETH", b"ETHW"]], b"ETH", b"ETH", "MAX_STAT"),
        (TEXT, [[b"ETHW"], [b"ETH"]], b"ETH", b"ETH", "MAX_STAT"),
        (TEXT, [[b"ETH"], [b"ETHW"]], b"ETH", b"ET", "MAX_STAT"),
        (TEXT, [[LONG_TEXT * 2], [b"\xc3\xa9"]], LONG_TEXT, LONG_TEXT * 2, True),
        (BYTES, [[b"0123456789"], [b"0"]], b"012345678", b"1", True),
        (BYTES, [[b"0"], [b"0123456789"]], b"012345678", b"1", "MIN_STAT"),
        # 1.0.0.1 and 200.0.0.1 in one page, then 2.0.0.1.
        (ADDRESS, [[0x01000001, -0x37FFFFFF], [0x02000001]], b"\1\0\0\1", b"\1\0\0\2", True),
        (ADDRESS, [[0x01000001, -0x37FFFFFF], [0x02000001]], b"\1\0\0\1", b"\1\0\0\3", "MAX_STAT"),
        (ADDRESS, [[0x01000001], [-0x37FFFFFF]], b"\1\0\0\xc8", b"\1\0\0\1", True),
        (ADDRESS, [[0x01000001], [-0x37FFFFFF]], b"\1\0\0\xc8", b"\1\0\0\2", "MAX_STAT"),
        # A dictionary of addresses that are compared as signed numbers.
        (ADDRESS, [[0x01000001, -0x37FFFFFF]], b"\1\0\0\xc8", b"\1\0\0\1", True),
    ],
)
def test_bounds_that_earlier_servers_make_of_pages_are_no_damage_and_all_others_are(
    column: Column, pages: list[list[Any]], low: bytes, high: bytes, found: bool | str
) -> None:
    assert judged_pages(pages, column, low, high) == found


def are_proven(column: Column, low: bytes, high: bytes, values: Sequence[Any]) -> bool:
    """Whether values are within what bounds prove."""
    bounds = [Statistic(value=bound, exact=True) if bound else None for bound in (low, high)]
    proven: tuple[Any, Any] = proven_bounds(column, chunk_of(*bounds, num_values=len(values), null_count=0))
    least, most = (None if bound is None else [bound] for bound in proven)
    return all((least is None or least <= [value]) and (most is None or [value] <= most) for value in values)


@given(pages=EARLIER)
def test_what_is_proven_by_texts_is_true_where_an_earlier_server_compared_pages(pages: list[list[bytes]]) -> None:
    low, high = min(pages[0]), max(pages[0])
    for page in pages[1:]:
        least, most = min(page), max(page)
        low = least if least[: len(low)] < low[: len(least)] else low
        high = most if most[: len(high)] > high[: len(most)] else high
    assert low <= high
    assert isinstance(judged_pages(pages, TEXT, low, high), bool)
    assert are_proven(TEXT, low, high, [*chain(*pages)])


def signed(address: int) -> int:
    return address - (1 << 32) if address >= 1 << 31 else address


@given(
    pages=st.lists(st.lists(ADDRESSES, min_size=1, max_size=3), min_size=1, max_size=4),
    has_dictionary=st.booleans(),
)
def test_what_is_proven_by_addresses_is_true_where_an_earlier_server_compared_pages(
    pages: list[list[int]], has_dictionary: bool
) -> None:
    in_a_page = signed if has_dictionary else int
    low = min((min(page, key=in_a_page) for page in pages), key=signed).to_bytes(4, "little")
    high = max((max(page, key=in_a_page) for page in pages), key=signed).to_bytes(4, "little")
    assert isinstance(judged_pages([list(map(signed, page)) for page in pages], ADDRESS, low, high), bool)
    assert are_proven(ADDRESS, low, high, [*chain(*pages)])


def test_signs_of_zero_are_equal_and_nan_is_no_bound() -> None:
    assert complaint(pa.array([-0.0, 0.0]), TypeTag.DOUBLE, double(0.0), double(-0.0), physical_type=5) is None
    assert complaint(pa.array([1.0]), TypeTag.DOUBLE, double(NAN), double(NAN), physical_type=5) is None
    only_nan = pa.array([NAN, None])
    assert complaint(only_nan, TypeTag.DOUBLE, double(1.0), physical_type=5) == "MIN_STAT"
    assert complaint(only_nan, TypeTag.DOUBLE, double(1.0), physical_type=5, exact=False) is None


def test_bounds_of_another_width_than_the_type_are_corrupt() -> None:
    assert complaint(pa.array([1]), TypeTag.LONG, integer(1), physical_type=2) == "statistics"


def test_columns_without_a_known_order_keep_their_counts_only() -> None:
    assert complaint(pa.array([b"b"]), -1, b"c", b"a") is None
    assert complaint(pa.array([b"b"]), -1, b"c", b"a", null_count=1) == "NULL_COUNT"
    int96 = pa.array([5], pa.timestamp("ns"))
    assert complaint(int96, TypeTag.TIMESTAMP | 1 << 18, bytes(12), bytes(12), physical_type=3) is None
    # 3,000,000,000 as an unsigned integer, of which `_pm` knows nothing.
    unsigned = pa.array([1, -1294967296], pa.int32())
    assert complaint(unsigned, TypeTag.INT, integer(1), integer(-1294967296), physical_type=1) is None


def test_bounds_of_decimals_with_impossible_digits_are_not_compared_with_their_bytes() -> None:
    too_many_digits = decimal_type(TypeTag.DECIMAL8, 53, 4)
    values = pa.array([b"\x01", b"\xff"], pa.binary(1))
    assert complaint(values, too_many_digits, b"\x01", b"\x32", physical_type=7, fixed_byte_len=1) is None
