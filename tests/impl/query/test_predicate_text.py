import math
from fractions import Fraction
from typing import Any

import pytest
import type_values as tv

from tornproof.impl.query.comparison import DOUBLE_MAX, FLOAT_MAX, always, nearest_float, never
from tornproof.impl.query.predicate import And, Comparison, IsIn, IsNull, Not, Operator, Or, Predicate
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.query.predicate_text import TEXT_CHARACTERS_MAX, parse_predicate
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.questdb import TypeTag


def columns() -> dict[str, SnapshotColumn]:
    """A column of each type, named after it, and one whose name is no word."""
    types = {name.replace(" ", "_"): each[0] for name, each in tv.TYPES.items()} | {
        "two words": TypeTag.INT,
        "geo5": tv.geohash_type(TypeTag.GEOBYTE, 5),
    }
    forms = {name: physical_form(column_type) for name, column_type in types.items()}
    return {
        name: SnapshotColumn(id=position, name=name, type=types[name], physical_type=form[0], fixed_byte_len=form[1])
        for position, (name, form) in enumerate(forms.items())
        if form is not None
    }


COLUMNS = columns()


def parsed(text: str) -> Predicate:
    return parse_predicate(text, tuple(COLUMNS.values()))


def equal(name: str, value: Any) -> Predicate:
    return Comparison(column=COLUMNS[name], operator=Operator.EQUAL, value=value)


def at_most(name: str, value: Any) -> Predicate:
    return Comparison(column=COLUMNS[name], operator=Operator.LESS_OR_EQUAL, value=value)


def at_least(name: str, value: Any) -> Predicate:
    return Comparison(column=COLUMNS[name], operator=Operator.GREATER_OR_EQUAL, value=value)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("int = 5", equal("int", 5)),
        ("int == 5", equal("int", 5)),
        ("5 = INT", equal("int", 5)),
        ("int != 5", Not(part=equal("int", 5))),
        ("int <> 5", Not(part=equal("int", 5))),
        ("int < 5", at_most("int", 4)),
        ("int <= 5", at_most("int", 5)),
        ("int > 5", at_least("int", 6)),
        ("int >= 5", at_least("int", 5)),
        ("5 < int", at_least("int", 6)),
        ("5 >= int", at_most("int", 5)),
        ('"two words" = -1', equal("two words", -1)),
        ("boolean", equal("boolean", 1)),
        ("NOT boolean", Not(part=equal("boolean", 1))),
        ("int BETWEEN 1 AND 3", And(parts=(at_least("int", 1), at_most("int", 3)))),
        ("int NOT BETWEEN 1 AND 3", Not(part=And(parts=(at_least("int", 1), at_most("int", 3))))),
        ("int IN (1, 2, -3)", IsIn(column=COLUMNS["int"], values=frozenset([1, 2, -3]))),
        ("int NOT IN (1)", Not(part=IsIn(column=COLUMNS["int"], values=frozenset([1])))),
        ("array IS NULL", IsNull(column=COLUMNS["array"])),
        ("int IS NOT NULL", Not(part=IsNull(column=COLUMNS["int"]))),
        (
            "int = 1 AND (int = 2 OR NOT int = 3) -- why",
            And(parts=(equal("int", 1), Or(parts=(equal("int", 2), Not(part=equal("int", 3)))))),
        ),
        ("int = 1 OR int = 2 OR int = 3", Or(parts=tuple(equal("int", value) for value in (1, 2, 3)))),
    ],
)
def test_condition_means(text: str, predicate: Predicate) -> None:
    assert parsed(text) == predicate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("boolean = true", 1),
        ("boolean = FALSE", 0),
        ("char = 'é'", 0xE9),
        ("char = 65", 65),
        ("long = 0xFF", 255),
        ("long = 1e3", 1000),
        ("long = '7'", 7),
        ("date = '2024-01-31T12:30:00.5Z'", 1_706_704_200_500),
        ("timestamp = '2024-01-31'", 1_706_659_200_000_000),
        ("timestamp = '1970'", 0),
        ("timestamp = '1970-02'", 31 * 86_400_000_000),
        ("timestamp = '1970-01-01 00:00:00.000001'", 1),
        ("timestamp = '1970-01-01T02:00+02:00'", 0),
        ("timestamp = '1969-12-31T22:30-01:30'", 0),
        ("timestamp = -5", -5),
        ("nanoseconds = '1970-01-01T00:00:00.123456789Z'", 123_456_789),
        ("nanoseconds = '1970-01-01T00:00:00.1234567890000'", 123_456_789),
        ("float = 0.1", 0.10000000149011612),
        ("double = 0.1", 0.1),
        ("double = '-Infinity'", -math.inf),
        ("double = 1e-999999999", 0.0),
        ("varchar = 'it''s \\n'", b"it's \\n"),
        ("string = 'größe'", "größe".encode()),
        ("binary = x'00ff'", b"\x00\xff"),
        ("uuid = '11111111-2222-3333-4444-555555555555'", bytes.fromhex("11111111222233334444555555555555")),
        ("long128 = x'000102030405060708090a0b0c0d0e0f'", bytes(range(16))),
        ("long256 = '0x1F'", 31),
        ("long256 = 0x1F", 31),
        ("ipv4 = '10.0.1.2'", 0x0A000102),
        ("geobyte = '0101'", 5),
        ("geo5 = '01010'", 10),
        ("geo5 = 'z'", 31),
        ("geolong = 'zzzzzzzzzz'", (1 << 50) - 1),
        ("geolong = '000000000z'", 31),
        ("decimal8 = 1.1", 11),
        ("decimal128 = -12345678901234567890123456789012.345678", -12345678901234567890123456789012345678),
        ("decimal256 = '0.00000001'", 1),
    ],
)
def test_literal_is_the_columns_value_exactly(text: str, value: Any) -> None:
    name = text.partition(" ")[0]
    assert parsed(text) == equal(name, value)
    assert isinstance(parsed(text), Comparison)


@pytest.mark.parametrize(
    ("text", "is_always"),
    [
        ("byte = 300", False),
        ("byte < 300", True),
        ("byte <= 127", True),
        ("byte > 127", False),
        ("byte >= -128.5", True),
        ("byte < -128", False),
        ("char <= 65536", True),
        ("ipv4 > -1", True),
        ("long = 9223372036854775808", False),
        ("int = 1.5", False),
        ("decimal8 = 1.11", False),
        ("decimal8 < 10", True),
        ("decimal256 > 1e999999999999", False),
        ("long256 < 0", False),
        ("nanoseconds < '9999-01-01'", True),
        ("timestamp = '1970-01-01T00:00:00.0000001'", False),
        ("double = 1e400", False),
        ("boolean > true", False),
    ],
)
def test_number_beyond_the_column_matches_always_or_never(text: str, is_always: bool) -> None:
    column = COLUMNS[text.partition(" ")[0]]
    assert parsed(text) == (always(column) if is_always else never(column))


def test_number_takes_the_float_that_is_nearest_to_itself_not_to_a_double() -> None:
    """The number was rounded to a double first, which is in the midst of two floats, and then to the even one."""
    column = COLUMNS["float"]
    assert nearest_float(column, Fraction((1 << 24) + 1, 1 << 24) + Fraction(1, 1 << 60)) == 1 + 2**-23
    assert nearest_float(column, Fraction((1 << 128) - (1 << 103) - 1)) == FLOAT_MAX
    assert nearest_float(column, Fraction(DOUBLE_MAX)) is None


def test_value_that_no_row_can_have_is_left_out_of_a_list() -> None:
    assert parsed("byte IN (1, 300, 2.5)") == IsIn(column=COLUMNS["byte"], values=frozenset([1]))


def test_fraction_rounds_towards_the_rows_that_match() -> None:
    assert parsed("int < 1.5") == at_most("int", 1) == parsed("int <= 1.5")
    assert parsed("int > -1.5") == at_least("int", -1) == parsed("int >= -1.5")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("price > 1", "there is no column 'price'; the table has boolean, byte"),
        ("int LIKE 'x'", "int LIKE 'x'. is not supported"),
        ("abs(int) = 1", "is not supported"),
        ("int + 1 = 2", "'int \\+ 1 = 2' is not supported"),
        ("int = long", "'int = long' is not supported"),
        ("1 = 1", "'1 = 1' is not supported"),
        ("int IN (SELECT 1)", "is not supported"),
        ("int IN ()", "is not supported"),
        ("int BETWEEN SYMMETRIC 2 AND 1", "is not supported"),
        ("other.int = 1", "is not supported"),
        ("int IS TRUE", "is not supported"),
        ("int IS DISTINCT FROM 1", "is not supported"),
        ("int = 1::int", "is not supported"),
        ("int = ?", "is not supported"),
        ("5", "'5' is not supported"),
        ("int = NULL", "ask IS NULL"),
        ("int IN (1, NULL)", "ask IS NULL"),
        ("", "cannot be read"),
        ("int = ", "cannot be read at '='"),
        ("int = 1; DROP TABLE x", "cannot be read"),
        ("select = 1", "'select' \\(a column of that name needs double quotes\\)"),
        ("varchar = 'x", "a quote or a comment does not end"),
        ("(" * 3000 + "int = 1" + ")" * 3000, "nested too deeply"),
        ("int = 1 OR " * 150_000 + "int = 1", f"longer than {TEXT_CHARACTERS_MAX}"),
        ("int = 'x'", "column 'int' of type INT cannot be compared with 'x'; write a number"),
        ("int = true", "column 'int' of type INT cannot be compared with true"),
        ("int", "column 'int' of type INT cannot be compared with true"),
        ("int = 1e", "INT cannot be compared with 1e"),
        (f"int = {'1' * 1001}", "INT cannot be compared with 1{40}\\.\\.\\."),
        ("double = 'NaN'", "DOUBLE cannot be compared with 'NaN'"),
        ("double = x'00'", "DOUBLE cannot be compared with x'00'"),
        ("decimal8 = x'00'", "DECIMAL\\(2,1\\) cannot be compared"),
        ("boolean = 1", "write true or false"),
        ("char = 'ab'", "write one character"),
        ("char = '\U0001f600'", "write one character"),
        ("timestamp = 'soon'", "write a time such as"),
        ("timestamp = '2024-02-30'", "write a time such as"),
        ("varchar = 5", "write a text in single quotes"),
        ("varchar = '\ud800'", "write a text in single quotes"),
        ("binary = 'x'", "write bytes as x"),
        ("binary = x'f'", "write bytes as x"),
        ("long128 = x'00'", "write 16 bytes as x"),
        ("uuid = 'x'", "write it such as"),
        ("ipv4 = '10.0.0.256'", "write an address"),
        ("long256 = 'ff g'", "write it such as '0x1f'"),
        ("geobyte = '01'", "GEOHASH\\(4b\\) cannot be compared with '01'; write a text of 4 bits"),
        ("geolong = 'aaaaaaaaaa'", "base 32"),
        ("array = 1", "only IS NULL can be asked of it"),
    ],
)
def test_what_makes_no_sense_is_rejected_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(PredicateError, match=words) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)


def test_names_are_found_in_any_case_but_only_if_one_is_meant() -> None:
    lower, upper = (
        SnapshotColumn(id=position, name=name, type=TypeTag.INT, physical_type=1)
        for position, name in enumerate(["a", "A"])
    )
    assert parse_predicate("A IS NULL", [lower]) == IsNull(column=lower)
    assert parse_predicate("A IS NULL", [lower, upper]) == IsNull(column=upper)


def test_long_lists_and_chains_are_no_problem() -> None:
    chain = parsed(" OR ".join(f"int = {value}" for value in range(2000)))
    assert isinstance(chain, Or)
    assert len(chain.parts) == 2000
    listed = parsed(f"int IN ({', '.join(map(str, range(2000)))})")
    assert isinstance(listed, IsIn)
    assert listed.values == frozenset(range(2000))
