"""How a writer prepares rows, and which ones it rejects with a message."""

import decimal
import math
import re
from collections.abc import Callable
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from real_tables import snapshot_of
from written_tables import DAY, DAY_LENGTH, PATH, new_table

from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.incoming_rows import (
    POSITION,
    cast_exactly,
    conform,
    in_time_order,
    portions,
    without_duplicates,
)

TYPES = {
    "b": TypeTag.BOOLEAN,
    "s": TypeTag.SHORT,
    "i": TypeTag.INT,
    "d": TypeTag.DATE,
    "u": TypeTag.UUID,
    "l": TypeTag.LONG256,
    "a": TypeTag.ARRAY | TypeTag.DOUBLE << 8,
}
EXACT = decimal.Context(prec=100)
EMPTY = new_table(*(NewColumn(name=name, type=type_) for name, type_ in TYPES.items()))
SCHEMA = snapshot_of(PATH, EMPTY[0]).schema


def conformed(**columns: Any) -> pa.Table:
    return conform(pa.table({"ts": pa.array([DAY]), **columns}), SCHEMA, "ts")


def test_columns_come_in_the_order_and_types_of_the_table() -> None:
    found = conformed(v=[7], i=pa.array(["12"]), n=pa.array(["x"]).dictionary_encode())
    assert found.schema == SCHEMA
    assert found.select(["v", "i", "n"]).to_pylist() == [{"v": 7, "i": 12, "n": "x"}]


@pytest.mark.parametrize(
    "made",
    [lambda table: table.to_batches()[0], pa.Table.to_reader, polars.DataFrame, pa.Table.to_pandas],
    ids=["batch", "reader", "Polars", "pandas"],
)
def test_rows_of_any_library_are_as_good_as_a_table(made: Callable[[pa.Table], Any]) -> None:
    times = pa.array([DAY, DAY + 1], pa.timestamp("us", "UTC"))
    table = pa.table({"v": [1, 2], "n": ["a", None], "a": pa.array([[0.5], None]), "ts": times})
    assert conform(made(table), SCHEMA, "ts").equals(conform(table, SCHEMA, "ts"))


@pytest.mark.parametrize("rows", [None, 3, [{"ts": DAY}], {"ts": [DAY]}, "ts"])
def test_what_is_no_rows_of_arrow_is_rejected_in_words(rows: Any) -> None:
    with pytest.raises(RowsRejectedError, match=f"expected rows .*, found: {type(rows).__name__}$"):
        conform(rows, SCHEMA, "ts")


def test_missing_columns_hold_nulls_or_zero_where_there_are_none() -> None:
    found = conformed().to_pylist()[0]
    assert (found["b"], found["s"]) == (False, 0)
    assert [found[name] for name in ("v", "n", "i", "d", "u", "l", "a")] == [None] * 7
    assert conformed(u=pa.nulls(1)).equals(conformed())


CASTS: dict[str, tuple[pa.Array, Any]] = {
    "i": (pa.array([2**31 - 1]), 2**31 - 1),
    "n": (pa.array(["x"], pa.large_string()), "x"),
    "a": (pa.array([[1, 2]]), [1.0, 2.0]),
    "l": (pa.array([b"x" * 32]), b"x" * 32),
    "b": (pa.array([True]), True),
}


@pytest.mark.parametrize("name", CASTS)
def test_value_is_cast_where_nothing_of_it_is_lost(name: str) -> None:
    given, expected = CASTS[name]
    assert conformed(**{name: given})[name].to_pylist() == [expected]


@pytest.mark.parametrize("text", ["0xFF", "0x0", "0XFFFFFFFF"])
@pytest.mark.parametrize("name", ["s", "i", "v"])
def test_hexadecimal_text_is_not_taken_for_the_bits_of_an_integer(name: str, text: str) -> None:
    with pytest.raises(RowsRejectedError, match=f"column '{name}', row 1: .* found {text}$"):
        conform(pa.table({"ts": [DAY, DAY], name: ["12", text]}), SCHEMA, "ts")


LOSSY: dict[str, tuple[str, pa.Array]] = {
    "integer that is too large": ("i", pa.array([2**31])),
    "fraction": ("i", pa.array([1.5])),
    "bytes that are no text": ("n", pa.array([b"\xff"])),
    "bytes of another length": ("l", pa.array([b"x" * 31])),
    "text for a UUID": ("u", pa.array(["x"])),
    "list for a number": ("i", pa.array([[1]])),
    "nanoseconds": ("ts", pa.array([1], pa.timestamp("ns"))),
    # Arrow raises a TypeError for it.
    "map for an array": ("a", pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64()))),
}


@pytest.mark.parametrize("what", LOSSY)
def test_value_that_does_not_fit_its_column_is_rejected(what: str) -> None:
    name, given = LOSSY[what]
    with pytest.raises(
        RowsRejectedError, match=f"^column '{name}': expected {re.escape(str(SCHEMA.field(name).type))}"
    ):
        conformed(**{name: given})


def test_number_that_a_float_holds_only_as_infinity_is_rejected_and_infinity_is_not() -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("f", pa.float32())])
    kept = [1.5, None, float("inf"), 2.0**127]
    conformed_rows = conform(pa.table({"ts": [DAY] * 4, "f": pa.array(kept)}), schema, "ts")
    assert conformed_rows["f"].to_pylist() == kept
    with pytest.raises(
        RowsRejectedError, match=r"^column 'f', row 1: expected a number that float holds, found 1e\+39$"
    ):
        conform(pa.table({"ts": [DAY] * 2, "f": pa.array([1.5, 1e39])}), schema, "ts")


@pytest.mark.parametrize(
    ("of", "given", "shown"),
    [
        (pa.bool_(), pa.array([1, None, 2]), "2"),
        (pa.bool_(), pa.array([0.0, 1.0, math.nan]), "nan"),
        (pa.bool_(), pa.array([1, 0, 7]).dictionary_encode(), "7"),
        (pa.decimal128(4, 2), pa.array([0.1, None, 0.125]), "0.125"),
        (pa.float32(), pa.array(map(decimal.Decimal, (0, 1, 10**39)), pa.decimal256(76, 0)), str(10**39)),
    ],
)
def test_number_that_only_a_cast_takes_is_rejected(of: pa.DataType, given: pa.Array, shown: str) -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("x", of)])
    times = pa.array([DAY] * 3)
    with pytest.raises(
        RowsRejectedError, match=rf"^column 'x', row 2: expected a number that .* holds, found {shown}$"
    ):
        conform(pa.table({"ts": times, "x": given}), schema, "ts")
    kept = conform(pa.table({"ts": times[:2], "x": given[:2]}), schema, "ts")
    assert kept["x"].null_count == given[:2].null_count


def as_type(of: pa.DataType, given: pa.Array) -> pa.Array:
    return cast_exactly(given, pa.field("x", of))


DECIMAL_TYPES = (
    pa.decimal128(2, 2),
    pa.decimal128(10, 2),
    pa.decimal128(18, 4),
    pa.decimal128(38, 18),
    pa.decimal256(38, 10),
    pa.decimal256(76, 40),
)


def drawn_decimals(of: pa.DataType, count: int = 1_000) -> list[decimal.Decimal]:
    draw = Random(str(of))
    digits = [draw.randrange(10 ** draw.randint(1, of.precision)) * draw.choice((1, -1)) for _ in range(count)]
    # As large ones without a fraction may be no floats, which is another test's.
    return [EXACT.scaleb(decimal.Decimal(each), -of.scale) for each in digits if abs(each) < 10 ** (of.scale + 7)]


@pytest.mark.parametrize("of", DECIMAL_TYPES, ids=str)
@pytest.mark.parametrize("narrow", [np.float32, np.float64], ids=["float", "double"])
def test_decimal_is_the_nearest_float(of: pa.DataType, narrow: type[Any]) -> None:
    """Arrow rounds twice, so that 0.35 became 0.35000000000000003, and every fourth number another float."""
    decimals = drawn_decimals(of)
    *found, null = as_type(pa.from_numpy_dtype(narrow), pa.array([*decimals, None], of)).to_pylist()
    assert null is None
    for given, value in zip(decimals, found, strict=True):
        neighbours = np.nextafter(narrow(value), narrow([-np.inf, np.inf])).tolist()
        assert all(
            abs(Fraction(value) - Fraction(given)) <= abs(Fraction(each) - Fraction(given)) for each in neighbours
        )


@pytest.mark.parametrize("of", DECIMAL_TYPES, ids=str)
@pytest.mark.parametrize("narrow", [np.float32, np.float64], ids=["float", "double"])
def test_float_is_taken_for_a_decimal_whose_nearest_float_it_is(of: pa.DataType, narrow: type[Any]) -> None:
    """One of eight was refused, such as 0.35 for a DECIMAL(10,2), because Arrow cast it back to another float."""
    digits = np.finfo(narrow).precision
    short = [each for each in drawn_decimals(of) if len(each.as_tuple().digits) <= digits]
    floats = [narrow(str(each)) for each in short]
    assert as_type(of, pa.array(floats)).to_pylist() == [
        decimal.Decimal(float(each)).quantize(decimal.Decimal(1).scaleb(-of.scale), context=EXACT) for each in floats
    ]


@pytest.mark.parametrize(("of", "digits"), [(pa.float32(), 24), (pa.float64(), 53)], ids=str)
@pytest.mark.parametrize("decimal_of", [pa.decimal128(18, 0), pa.decimal128(38, 4), pa.decimal256(76, 4)], ids=str)
def test_whole_decimal_that_a_float_does_not_hold_is_rejected_as_an_integer_is(
    of: pa.DataType, digits: int, decimal_of: pa.DataType
) -> None:
    """It lost a unit without a word."""
    held = [1 << digits, -1 << digits, (1 << digits) + 2, None]
    assert as_type(of, pa.array(held, decimal_of)).to_pylist() == held
    beyond = (1 << digits) + 1
    for given in (pa.array([0, beyond]), pa.array([0, beyond], decimal_of), pa.array([[0, beyond]])):
        target = pa.list_(of) if pa.types.is_list(given.type) else of
        with pytest.raises(RowsRejectedError, match=f"'x'.* {of}.*{beyond}"):
            as_type(target, given)
    assert as_type(of, pa.array([decimal.Decimal(f"{beyond}.25")])).to_pylist() in ([beyond + 1], [beyond - 1])


TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))


@pytest.mark.parametrize("of", [*TEXTS, pa.binary_view()])
def test_text_of_a_number_that_a_float_holds_only_as_infinity_is_rejected(of: pa.DataType) -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("f", pa.float64())])
    texts = pa.array(["1e308", "-Inf", None], pa.string()).cast(of)
    kept = conform(pa.table({"ts": [DAY] * 3, "f": texts}), schema, "ts")
    assert kept["f"].to_pylist() == [1e308, -math.inf, None]
    texts = pa.array(["1", "1e400"], pa.string()).cast(of)
    with pytest.raises(RowsRejectedError, match=r"'f', row 1: expected a number that double holds, found .*1e400"):
        conform(pa.table({"ts": [DAY] * 2, "f": texts}), schema, "ts")


@pytest.mark.parametrize("of", TEXTS)
@pytest.mark.parametrize("make", [pa.list_, pa.large_list, pa.list_view, lambda of: pa.list_(of, 1)])
def test_text_of_a_number_that_only_infinity_stands_for_is_rejected_in_a_list(
    of: pa.DataType, make: Callable[[pa.DataType], pa.DataType]
) -> None:
    """It was taken as infinity in lists of any kind, at any depth."""
    schema = pa.schema([SCHEMA.field("ts"), pa.field("x", list_type(2))])
    texts = pa.array([[["1e308"]], None, [["-inf"]], [["1e400"]]], make(make(of)))
    kept = conform(pa.table({"ts": [DAY] * 3, "x": texts[:3]}), schema, "ts")
    assert kept["x"].to_pylist() == [[[1e308]], None, [[-math.inf]]]
    with pytest.raises(RowsRejectedError, match=r"'x', row 3: expected a number that list<.* holds, found .*1e400"):
        conform(pa.table({"ts": [DAY] * 4, "x": texts}), schema, "ts")


def test_list_views_keep_their_elements_behind_a_null() -> None:
    """Arrow's cast to lists makes the third one empty, and lets those of a part begin behind their memory."""
    schema = pa.schema([SCHEMA.field("ts"), pa.field("x", list_type(1))])
    given = pa.array([[1.5], None, [2.5, None]], pa.list_view(pa.float64()))
    for part in (given, given[1:], pa.array([[1.0], [2.0]], given.type)):
        kept = conform(pa.table({"ts": [DAY] * len(part), "x": part}), schema, "ts")
        assert kept["x"].to_pylist() == part.to_pylist()


@pytest.mark.parametrize(("size_bits", "of"), [(3, pa.int8()), (12, pa.int16()), (20, pa.int32()), (60, pa.int64())])
def test_geohash_of_more_bits_than_its_column_has_is_rejected_and_null_of_servers_is_not(
    size_bits: int, of: pa.DataType
) -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("g", of)])
    column = TableColumn(id=1, name="g", type=type_code(f"GEOHASH({size_bits}b)") or 0)
    most = (1 << size_bits) - 1
    kept = conform(pa.table({"ts": [DAY] * 4, "g": [0, None, most, -1]}), schema, "ts", [column])
    assert kept["g"].to_pylist() == [0, None, most, -1]
    for wrong in (-2, most + 1):
        with pytest.raises(RowsRejectedError, match=f"row 1: expected a geohash of {size_bits} bits, found {wrong}$"):
            conform(pa.table({"ts": [DAY] * 2, "g": [0, wrong]}), schema, "ts", [column])


def geohash(size_bits: int, of: pa.DataType, given: pa.Array) -> pa.Array:
    return cast_exactly(given, pa.field("x", of), type_code(f"GEOHASH({size_bits}b)"))


TEXT_KINDS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view())


@pytest.mark.parametrize("of", TEXT_KINDS, ids=str)
def test_text_for_a_char_is_its_utf_16_unit_and_never_a_number(of: pa.DataType) -> None:
    """The digit 7 was stored as U+0007, and letters were refused."""
    field = pa.field("c", pa.uint16(), nullable=False)
    texts = pa.array(["7", "", None, "A", "ä", "\uffff", "7"], pa.string()).cast(of)
    assert cast_exactly(texts, field).to_pylist() == [55, 0, 0, 65, 228, 65_535, 55]
    for wrong in ("12", "a\u0308", "\U0001f600"):
        with pytest.raises(RowsRejectedError, match=r"'c', row 1: expected a text of one UTF-16 unit, found"):
            cast_exactly(pa.array(["a", wrong, wrong], pa.string()).cast(of), field)


@pytest.mark.parametrize("of", TEXT_KINDS, ids=str)
def test_text_for_an_address_is_one_and_never_a_number(of: pa.DataType) -> None:
    """The text 12 was stored as 0.0.0.12, and 10.0.0.1 was refused."""
    assert as_type(pa.uint32(), pa.array(["10.0.0.1", None], pa.string()).cast(of)).to_pylist() == [0x0A000001, None]
    for wrong in ("12", "", "10.0.0.256"):
        with pytest.raises(RowsRejectedError, match=r"row 1: expected an address such as 10.0.0.1, found"):
            as_type(pa.uint32(), pa.array(["1.1.1.1", wrong], pa.string()).cast(of))


def test_text_for_a_geohash_is_digits_of_base_32_of_exactly_its_bits_and_never_a_number() -> None:
    """The text 12 was stored as the number 12, and not as the geohash 12, which is 34."""
    assert geohash(10, pa.int16(), pa.array(["12", None, "zz"])).to_pylist() == [34, None, 1023]
    assert geohash(60, pa.int64(), pa.array([b"s" * 12])).to_pylist() == [int("11000" * 12, 2)]
    for wrong in ("1", "123", "", "1a", "ZZ"):
        with pytest.raises(RowsRejectedError, match=f"row 1: expected a geohash of 10 bits: 2 digits .* found {wrong}"):
            geohash(10, pa.int16(), pa.array(["12", wrong]))
    for text in ("1", "0101"):
        with pytest.raises(RowsRejectedError, match="expected a geohash of 4 bits: a number, because base 32 has 5"):
            geohash(4, pa.int8(), pa.array([text]))
    schema = pa.schema([SCHEMA.field("ts"), pa.field("g", pa.int16()), pa.field("s", pa.int16())])
    column = TableColumn(id=1, name="g", type=type_code("GEOHASH(10b)") or 0)
    kept = conform(pa.table({"ts": [DAY], "g": ["12"], "s": ["12"]}), schema, "ts", [column])
    assert kept.select(["g", "s"]).to_pylist() == [{"g": 34, "s": 12}]


@pytest.mark.parametrize("of", [pa.uuid(), pa.binary(16), pa.binary(32)], ids=str)
def test_text_for_bytes_of_a_fixed_number_is_rejected(of: pa.DataType) -> None:
    """One of as many characters was stored as its own bytes."""
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        with pytest.raises(RowsRejectedError, match=r"^column 'x': expected .*, found .*string"):
            as_type(of, pa.array(["a" * (32 if of == pa.binary(32) else 16)], kind))


def test_whole_numbers_are_decimals_if_these_have_the_digits() -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("d", pa.decimal128(4, 2))])
    kept = conform(pa.table({"ts": [DAY] * 3, "d": [1, None, -99]}), schema, "ts")
    assert kept["d"].to_pylist() == [decimal.Decimal("1.00"), None, decimal.Decimal("-99.00")]
    with pytest.raises(RowsRejectedError, match="column 'd': expected decimal128"):
        conform(pa.table({"ts": [DAY], "d": [100]}), schema, "ts")


def test_dictionaries_of_several_chunks_may_be_too_many_for_one() -> None:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("s", pa.string())])
    texts = [[f"{first + number}" for number in range(100)] for first in (0, 100)]
    parts = [pa.array(each).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())) for each in texts]
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
    given = pa.table({"ts": [DAY] * 202, "s": pa.chunked_array([*parts, with_null])})
    assert conform(given, schema, "ts")["s"].to_pylist() == [*texts[0], *texts[1], "x", None]


@pytest.mark.parametrize("kind", [polars.Categorical, polars.Enum(["x", "y", "z"])], ids=str)
def test_categories_of_polars_are_texts(kind: Any) -> None:
    """Their dictionaries are of views, which ended a commit with an error of Arrow's."""
    texts = ["x", None, "y", "x"]
    parts = [
        polars.DataFrame({"ts": [DAY, DAY], "n": polars.Series(each, dtype=kind)}) for each in (texts[:2], texts[2:])
    ]
    assert conform(polars.concat(parts, rechunk=False), SCHEMA, "ts")["n"].to_pylist() == texts
    assert conform(parts[0].clear(), SCHEMA, "ts").num_rows == 0


@pytest.mark.parametrize("of", [pa.string_view(), pa.binary_view()], ids=str)
def test_dictionaries_of_views_are_the_values_that_they_have(of: pa.DataType) -> None:
    given = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), pa.array(["1.5", "-2"]).cast(of))
    assert conformed_to(pa.string(), given) == ["-2", None, "1.5"]
    assert conformed_to(pa.binary(), given) == [b"-2", None, b"1.5"]
    assert conformed_to(pa.float64(), given) == [-2.0, None, 1.5]
    lists = pa.ListArray.from_arrays([0, 1, 3], given)
    assert conformed_to(pa.list_(pa.string()), lists) == [["-2"], [None, "1.5"]]


def conformed_to(of: pa.DataType, given: pa.Array) -> list[Any]:
    schema = pa.schema([SCHEMA.field("ts"), pa.field("x", of)])
    rows = conform(pa.table({"ts": [DAY] * len(given), "x": given}), schema, "ts")
    return list(rows["x"].to_pylist())


@pytest.mark.parametrize(
    "given",
    [
        pa.chunked_array([], pa.sparse_union([pa.field("a", pa.int64())])),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.RunEndEncodedArray.from_arrays([1], ["a"])),
    ],
    ids=["no rows of a union", "dictionary of runs"],
)
def test_values_that_arrow_cannot_put_together_are_rejected(given: pa.Array | pa.ChunkedArray) -> None:
    with pytest.raises(RowsRejectedError, match=f"column 'n': expected string, found {re.escape(str(given.type))}: "):
        conform(pa.table({"ts": pa.array([DAY] * len(given), pa.int64()), "n": given}), SCHEMA, "ts")


def test_text_that_is_none_is_rejected() -> None:
    """It ended a commit with an error of Python's."""
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(RowsRejectedError, match=r"^column 'n': expected sound values of type"):
        conform(pa.table({"ts": pa.array([DAY]), "n": text}), SCHEMA, "ts")


def test_null_is_rejected_where_the_type_has_none() -> None:
    rows = pa.table({"ts": [DAY, DAY], "s": pa.array([1, None], pa.int16())})
    with pytest.raises(RowsRejectedError, match=r"^column 's', row 1: .* as int16 is never null, found null$"):
        conform(rows, SCHEMA, "ts")
    with pytest.raises(RowsRejectedError, match=r"^column 'ts', row 0"):
        conformed(ts=pa.nulls(1))
    assert conformed(i=pa.nulls(1))["i"].null_count == 1


def test_columns_that_are_unknown_twice_there_or_lack_the_time_are_rejected() -> None:
    with pytest.raises(RowsRejectedError, match="there is no column 'w'; the table has ts, v, n,"):
        conformed(w=[1])
    twice = pa.Table.from_arrays([pa.array([DAY]), pa.array([1]), pa.array([2])], names=["ts", "v", "v"])
    with pytest.raises(RowsRejectedError, match="two columns of one name"):
        conform(twice, SCHEMA, "ts")
    with pytest.raises(RowsRejectedError, match="lack 'ts', the designated timestamp"):
        conform(pa.table({"v": [1]}), SCHEMA, "ts")


def test_rows_of_one_time_keep_their_order() -> None:
    rows = pa.table({"ts": pa.array([5, 3, 5, 3, 4], pa.timestamp("us")), "v": range(5)})
    assert in_time_order(rows, "ts")["v"].to_pylist() == [1, 3, 4, 0, 2]
    ordered = rows.take([1, 3, 4, 0, 2])
    assert in_time_order(ordered, "ts") is ordered


def test_last_row_of_a_key_stands_where_the_first_one_stood_and_nulls_are_equal() -> None:
    rows = pa.table({"k": [1, 2, None, 1, None], "j": ["a", "a", None, "a", None], "v": range(5)})
    keys = {"k": int(TypeTag.LONG), "j": int(TypeTag.VARCHAR)}
    assert without_duplicates(rows, keys)["v"].to_pylist() == [3, 1, 4]
    assert without_duplicates(rows.slice(0, 3), keys).equals(rows.slice(0, 3))


def test_a_key_may_have_any_name() -> None:
    for name in (POSITION, f"{POSITION}_min", f"{POSITION}_max", "0"):
        rows = pa.table({name: [1, 2, 1], "v": range(3)})
        assert without_duplicates(rows, {name: TypeTag.LONG})["v"].to_pylist() == [2, 1]


def test_keys_that_cannot_be_compared_are_rejected() -> None:
    with pytest.raises(RowsRejectedError, match="cannot be told apart by the keys a"):
        without_duplicates(pa.table({"a": [[1.0], [1.0]]}), {"a": TypeTag.ARRAY})


@pytest.mark.parametrize(
    ("of", "type_", "in_place"),
    [
        (TypeTag.INT, pa.int32(), -(1 << 31)),
        (TypeTag.LONG, pa.int64(), -(1 << 63)),
        (TypeTag.DATE, pa.timestamp("ms", "UTC"), -(1 << 63)),
        (TypeTag.FLOAT, pa.float32(), math.nan),
        (TypeTag.DOUBLE, pa.float64(), math.nan),
        (TypeTag.IPV4, pa.uint32(), 0),
        (TypeTag.GEOBYTE, pa.int8(), -1),
        (TypeTag.LONG128, pa.binary(16), (bytes(7) + b"\x80") * 2),
        (TypeTag.LONG256, pa.binary(32), (bytes(7) + b"\x80") * 4),
    ],
)
def test_null_and_the_value_that_servers_keep_in_its_place_are_one_key(
    of: TypeTag, type_: pa.DataType, in_place: object
) -> None:
    """They were two, so that a server found two rows of one key."""
    null, value = pa.array([None], type_), pa.scalar(in_place, type_)
    for keys in ([null, pa.array([value])], [pa.array([value]), null]):
        rows = pa.table({"k": pa.chunked_array(keys), "v": range(2)})
        kept = without_duplicates(rows, {"k": of})
        assert (kept["v"].to_pylist(), kept["k"].null_count) == ([1], keys[1].null_count)
    rows = pa.table({"k": pa.array([None, 0], pa.int16())})
    assert without_duplicates(rows, {"k": TypeTag.SHORT}) is rows


def test_keys_of_floats_are_equal_if_all_of_their_bits_are() -> None:
    floats = [0.0, -0.0, math.nan, math.copysign(math.nan, -1), None, -0.0]
    rows = pa.table({"k": pa.array(floats, pa.float64()), "v": range(6)})
    assert without_duplicates(rows, {"k": TypeTag.DOUBLE})["v"].to_pylist() == [0, 5, 4, 3]


def test_uuid_can_be_a_key() -> None:
    storage = pa.array([b"x" * 16, b"y" * 16, b"x" * 16], pa.binary(16))
    rows = pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), storage), "v": range(3)})
    assert without_duplicates(rows, {"u": TypeTag.UUID})["v"].to_pylist() == [2, 1]


def test_rows_fall_into_the_partitions_of_their_days() -> None:
    metadata = EMPTY[1].metadata
    assert metadata is not None
    times = [DAY, DAY + DAY_LENGTH - 1, DAY + DAY_LENGTH, DAY + 3 * DAY_LENGTH + 5]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us"))})
    found = list(portions(rows, "ts", metadata, []))
    assert [portion.timestamp for portion in found] == [DAY, DAY + DAY_LENGTH, DAY + 3 * DAY_LENGTH]
    assert [portion.timestamps.tolist() for portion in found] == [times[:2], times[2:3], times[3:]]
    assert pa.concat_tables([portion.rows for portion in found]).equals(rows)


def test_each_row_falls_into_the_last_partition_of_its_day_that_starts_before_it() -> None:
    metadata = EMPTY[1].metadata
    assert metadata is not None
    random = Random(0)
    for _ in range(1_000):
        starts = random.sample(range(DAY, DAY + 3 * DAY_LENGTH, DAY_LENGTH // 8), random.randrange(8))
        times = sorted(random.randrange(DAY, DAY + 3 * DAY_LENGTH) for _ in range(random.randrange(12)))
        partitions: Any = [SimpleNamespace(timestamp=start) for start in starts]
        found = list(portions(pa.table({"ts": pa.array(times, pa.timestamp("us"))}), "ts", metadata, partitions))
        of_each = [(time, portion.timestamp) for portion in found for time in portion.timestamps.tolist()]
        days = [time - time % DAY_LENGTH for time in times]
        expected = [
            max([day, *(at for at in starts if day <= at <= time)]) for day, time in zip(days, times, strict=True)
        ]
        assert of_each == list(zip(times, expected, strict=True))
        assert len({portion.timestamp for portion in found}) == len(found)


@pytest.mark.parametrize("time", [-1, np.iinfo(np.int64).max, 253_402_300_800_000_000])
def test_time_before_1970_or_behind_the_last_year_is_rejected(time: int) -> None:
    metadata = EMPTY[1].metadata
    assert metadata is not None
    rows = pa.table({"ts": pa.array([time], pa.timestamp("us"))})
    with pytest.raises(RowsRejectedError, match=f"a row at {time} lies in no partition"):
        list(portions(rows, "ts", metadata, []))
    assert [each.timestamp for each in portions(pa.table({"ts": pa.array([0])}), "ts", metadata, [])] == [0]
