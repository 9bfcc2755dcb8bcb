"""Dictionaries of symbols are read as what they say; other hashes, and readers that take more, are noticed."""

from __future__ import annotations

import re
import struct

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.native.symbol_dictionaries import (
    CHARACTERS_BYTES_MAX,
    HEADER_BYTES,
    SYMBOLS_MAX,
    _judged,
    _wrong_unit,
    symbol_dictionaries,
)
from tornproof.impl import limits
from tornproof.impl.table import symbols


def test_dictionaries_are_read_as_what_they_say() -> None:
    assert (SYMBOLS_MAX, CHARACTERS_BYTES_MAX) == (limits.SYMBOL_COUNT_LIMIT, limits.SYMBOL_CHARACTERS_LIMIT_BYTES)
    assert HEADER_BYTES == symbols.HEADER_BYTES


def test_every_kind_of_problem_is_among_them() -> None:
    fields = {
        each[1].partition(" of ")[0].rstrip(" 0123456789")
        for case in symbol_dictionaries()
        for each in _judged(case)[0]
    }
    assert fields >= {"SYMBOL_COLUMN_COUNT", "COUNT", "SYMBOL_CAPACITY", "VALUE_COUNT", "Symbol offsets header"}
    assert fields >= {"size", "offset", "length", "symbol", "position", "Symbol length", "file", ""}


def test_a_half_of_a_character_is_found() -> None:
    assert [_wrong_unit(units) for units in ((), (0xD800, 0xDC00), (0xD7FF, 0xE000))] == [None] * 3
    assert [_wrong_unit(units) for units in ((0xDC00,), (97, 0xD800), (0xD800, 0xDC00, 0xDFFF))] == [0, 1, 2]


def test_each_unit_of_a_symbol_is_changed_where_the_name_says() -> None:
    units = set()
    for case in symbol_dictionaries():
        words = re.fullmatch(r"unit (\d+) of symbol (\d+) is (\d+)", case.name)
        if words is not None:
            unit, key, value = map(int, words.groups())
            units.add(unit)
            (start,) = struct.unpack_from("<q", case.files["s.o"], HEADER_BYTES + 8 * key)
            assert struct.unpack_from("<H", case.files["s.c"], start + 4 + 2 * unit) == (value,)
    assert units >= {0, 1}


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("symbol_hash:HASH_FACTOR", 33),
        ("symbol_hash:BUCKET_COUNT_MIN", 1),
        ("symbols:HAS_NULL", b"\0"),
        ("symbols:suffixed", lambda name, _: name),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("dictionary", replaced(f"tornproof.impl.table.{location}", broken))
