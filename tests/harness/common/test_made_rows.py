"""Rows are generated for every known type, and for no other; new tables have the columns that they were asked for."""

import decimal
from functools import reduce
from itertools import permutations
from operator import and_, or_
from typing import Any

import pytest
from type_values import TYPES, array_type, decimal_type
from written_tables import PATH, alter, new_table

from tornproof.harness.common import new_tables
from tornproof.harness.common.made_rows import EXACT, extreme_values, rows_for, value_maker
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag


@pytest.mark.parametrize(
    "column_type", [127, (1 << 31) - 129, decimal_type(TypeTag.DECIMAL8, 9, 1), array_type(1) - (TypeTag.DOUBLE << 8)]
)
def test_a_type_that_a_damaged_table_claims_is_rejected(column_type: int) -> None:
    storage, _ = new_table()
    alter(
        storage,
        TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),
        TableColumn(id=1, name="v", type=column_type),
    )
    with pytest.raises(RowsRejectedError, match="column 'v': expected a type that is known, found"):
        rows_for(open_table(storage, PATH), [0, 1], seed=0)


def is_a_range(extremes: tuple[Any, ...]) -> bool:
    return len(extremes) == 2 and not isinstance(extremes[0], str) and b"" not in extremes


def number_of(value: int | bytes | decimal.Decimal) -> int:
    """Return a value as an integer, a decimal without its point."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "little")
    return int(value.scaleb(-int(value.as_tuple().exponent), EXACT)) if isinstance(value, decimal.Decimal) else value


@pytest.mark.parametrize("name", [name for name, (code, *_) in TYPES.items() if is_a_range(extreme_values(code))])
def test_generated_values_reach_all_bits_of_their_range(name: str) -> None:
    code, *_ = TYPES[name]
    make = value_maker(code, is_ascii=True)
    assert make is not None
    least, greatest = map(number_of, extreme_values(code))
    numbers = [number_of(make(number)) - least for number in range(1_000)]
    ones = (1 << (greatest - least).bit_length()) - 1
    assert max(numbers) <= greatest - least and min(numbers) >= 0
    assert (reduce(or_, numbers), reduce(and_, numbers)) == (ones, 0)


@pytest.mark.parametrize("names", [*permutations(("ts", "a", "b")), ("b", "a")])
def test_a_new_table_has_its_columns_in_the_order_in_which_they_were_asked_for(names: tuple[str, ...]) -> None:
    types = {"ts": TypeTag.TIMESTAMP, "a": TypeTag.LONG, "b": TypeTag.TIMESTAMP}
    storage = MemoryStorage()
    new_tables.new_table(storage, "t", {name: types[name].name for name in names})
    metadata = open_table(storage, "t").metadata
    assert metadata is not None
    assert [(each.name, each.type) for each in metadata.columns] == [(name, types[name]) for name in names]
    assert names[metadata.timestamp_id] == ("ts" if "ts" in names else names[0])
