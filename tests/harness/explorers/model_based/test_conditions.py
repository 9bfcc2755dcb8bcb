"""Texts of conditions select the rows of which the conditions are true, whatever the values are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of, extreme_values, value_maker
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.explorers.model_based.conditions import condition_of
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.plain_rows import RowShape, plain_rows
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.table import open_table
from tornproof.impl.types.arrow import is_nullable
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag

DECIMALS = ("DECIMAL(2,1)", "DECIMAL(9,9)", "DECIMAL(18,0)", "DECIMAL(18,10)", "DECIMAL(38,7)", "DECIMAL(76,40)")
OTHERS = ("GEOHASH(3b)", "GEOHASH(60b)", "TIMESTAMP_NS", "DOUBLE[]")
LITERAL_FORMS = (0, 4, 6)
"""The literal of a value, those of two, and another one."""
PLAIN = tuple(each.name for each in TypeTag if type_code(each.name) is not None)


def values_of(name: str) -> list[Any]:
    """Return the least and greatest values of a type, some others, and those of decimals that are next to zero."""
    code = type_code(name) or 0
    make = value_maker(code, is_ascii=False)
    assert make is not None
    found = [*extreme_values(code), *map(make, range(4))]
    if name in DECIMALS:
        scale = int(name.rstrip(")").partition(",")[2])
        found += [Decimal(number).scaleb(-scale) for number in (0, 1, -1)]
    return [*found, *[None] * is_nullable(code)]


@pytest.mark.parametrize("name", [*PLAIN, *DECIMALS, *OTHERS])
def test_the_text_of_a_condition_selects_the_rows_of_which_it_is_true(name: str) -> None:
    """Literals of decimals near zero had exponents, so whether that was noticed depended on the rows drawn."""
    storage = MemoryStorage()
    new_table(storage, "t", {"ts": "TIMESTAMP", "v": name})
    with open_writer_of_copy(storage, "t") as writer:
        values = values_of(name)
        times = range(FIRST_TIME, FIRST_TIME + len(values))
        columns = [array_of([*each], field.type) for each, field in zip((times, values), writer.schema, strict=True)]
        writer.write(pa.Table.from_arrays(columns, schema=writer.schema))
        writer.commit()
    snapshot = open_snapshot(open_table(storage, "t"))
    rows = [row for batch in snapshot.batches() for row in plain_rows(batch)]
    for number, row in enumerate(rows):
        for form in LITERAL_FORMS:
            condition = condition_of(RowShape.of(snapshot), row, rows[number - 1], column=1, symbol="=", form=form)
            selected = snapshot.batches(where=snapshot.condition(condition.text))
            assert [each for batch in selected for each in plain_rows(batch)] == [
                each for each in rows if condition.truth(each)
            ], condition.text
