"""Rows whose keys are null, what servers keep in place of null, or floats of other bits: which of them are one key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.explorers.roundtrip.worked_out.writing.later_keys import PATH, numbers_in
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.model.rows import Row, Rows, with_row

LEAST_LONG, LEAST_BYTES = -(1 << 63), b"\x80" + bytes(7)
FRACTIONS = ((None, math.nan), (math.copysign(math.nan, -1),), (0.0,), (-0.0,), (math.inf,), (-math.inf,))
GEOHASHES = ((None, -1), (0,), (1,))
EQUAL_KEYS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "INT": ((None, -(1 << 31)), (0,), (-1,)),
    **dict.fromkeys(("LONG", "DATE", "TIMESTAMP", "TIMESTAMP_NS"), ((None, LEAST_LONG), (0,), (-1,))),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FRACTIONS),
    **dict.fromkeys(("GEOHASH(5b)", "GEOHASH(9b)", "GEOHASH(20b)", "GEOHASH(60b)"), GEOHASHES),
    "IPv4": ((None, 0), (1,), ((1 << 32) - 1,)),
    "UUID": ((None, LEAST_BYTES * 2), (LEAST_BYTES[::-1] * 2,), (bytes(16),)),
    "LONG128": ((None, LEAST_BYTES[::-1] * 2), (LEAST_BYTES * 2,), (bytes(16),)),
    "LONG256": ((None, LEAST_BYTES[::-1] * 4), (LEAST_BYTES[::-1] * 2 + bytes(16),)),
    "VARCHAR": ((None,), ("",)),
    "SYMBOL": ((None,), ("",)),
    "SHORT": ((0,), (-1,), (-(1 << 15),)),
    "DECIMAL(9, 0)": ((None,), (0,), (-999_999_999,)),
}
"""Of each type some values, those together that are one key."""
Keys: TypeAlias = Sequence[tuple[int, Any]]
"""Values, each with the number of the key that it is."""


def equal_keys() -> Iterator[Question]:
    """Yield which rows there are of all values of a type at one time, in either order, in one or several commits."""
    for of, groups in EQUAL_KEYS.items():
        keys = [(number, value) for number, values in enumerate(groups) for value in values]
        for order, commits in (("", keys), (" backwards", keys[::-1])):
            for words, size in (("at once", len(keys)), ("one after the other", 1)):
                asked = f"which rows there are of keys of {of}{order}, {words}"
                yield ask("equal keys", asked, _left(commits), _written, of, commits, size)


def _left(keys: Keys) -> list[int]:
    """Return the numbers of rows by the model, to which only the number of a key is known."""
    rows: Rows = ()
    for number, (key, _) in enumerate(keys):
        rows = with_row(rows, Row(FIRST_TIME, key, number))
    return [row.values for row in rows]


def _written(of: str, keys: Keys, commit_size: int) -> list[int]:
    """Return the numbers of rows in a new table, so many of which are committed together."""
    storage, code = MemoryStorage(), type_code(of)
    assert code is not None, of
    columns = [
        NewColumn(name="ts", type=TypeTag.TIMESTAMP, is_dedup_key=True),
        NewColumn(name="k", type=code, is_dedup_key=True),
        NewColumn(name="v", type=TypeTag.LONG),
    ]
    create_table(storage, PATH, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    rows = [(FIRST_TIME, value, number) for number, (_, value) in enumerate(keys)]
    with open_writer_of_copy(storage, PATH) as writer:
        for first in range(0, len(rows), commit_size):
            values = zip(*rows[first : first + commit_size], strict=True)
            arrays = [array_of(list(each), field.type) for each, field in zip(values, writer.schema, strict=True)]
            writer.write(pa.Table.from_arrays(arrays, schema=writer.schema))
            writer.commit()
    return numbers_in(storage)
