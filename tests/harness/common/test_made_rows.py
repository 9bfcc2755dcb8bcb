"""Rows are generated for every known type, and for no other; new tables have the columns that they were asked for."""

from itertools import permutations

import pytest
from type_values import array_type, decimal_type
from written_tables import PATH, alter, new_table

from tornproof.harness.common import new_tables
from tornproof.harness.common.made_rows import rows_for
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


@pytest.mark.parametrize("names", [*permutations(("ts", "a", "b")), ("b", "a")])
def test_a_new_table_has_its_columns_in_the_order_in_which_they_were_asked_for(names: tuple[str, ...]) -> None:
    types = {"ts": TypeTag.TIMESTAMP, "a": TypeTag.LONG, "b": TypeTag.TIMESTAMP}
    storage = MemoryStorage()
    new_tables.new_table(storage, "t", {name: types[name].name for name in names})
    metadata = open_table(storage, "t").metadata
    assert metadata is not None
    assert [(each.name, each.type) for each in metadata.columns] == [(name, types[name]) for name in names]
    assert names[metadata.timestamp_id] == ("ts" if "ts" in names else names[0])
