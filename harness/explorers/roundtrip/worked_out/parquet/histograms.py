"""How many entries a footer's histograms of levels must have: one for each level, or none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tornproof.harness.explorers.model_based.other_footers import CHUNK_FACTS, with_fields_of
from tornproof.harness.explorers.roundtrip.forms import opened, parquet_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.impl.parquet.footer import check_for_others
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct

SIZE_STATISTICS = 16
"""The field of a chunk's facts that has histograms."""
REPETITION, DEFINITION = 2, 3
"""Its fields, and those of a list of them."""
COLUMNS = {
    "a required column": (pa.field("a", pa.int64(), nullable=False), [1], {REPETITION: 0, DEFINITION: 0}),
    "a column": (pa.field("a", pa.int64()), [1], {REPETITION: 0, DEFINITION: 1}),
    "a column of lists": (pa.field("a", pa.list_(pa.int64())), [[1]], {REPETITION: 1, DEFINITION: 3}),
}
"""Columns with a value, and their highest levels."""


def histograms() -> Iterator[Question]:
    """Yield numbers of entries, and whether other readers take them."""
    for (words, (field, values, highest)), kind, count in itertools.product(
        COLUMNS.items(), (REPETITION, DEFINITION), range(6)
    ):
        of = "repetition" if kind == REPETITION else "definition"
        name = f"{count} entries for the levels of {of} of {words}"
        expected = "taken" if count in (0, highest[kind] + 1) else "CorruptError"
        yield ask("histograms", name, expected, _judged, field, values, kind, count)


def _judged(field: pa.Field, values: list[Any], kind: int, count: int) -> Any:
    content = parquet_of(pa.table([pa.array(values, field.type)], pa.schema([field])))
    counts = Struct((Field(kind, Kind.LIST, Items(Kind.I64, (1,) * count)),))
    content = with_fields_of(content, CHUNK_FACTS, Field(SIZE_STATISTICS, Kind.STRUCT, counts))

    def found() -> str:
        check_for_others(opened(content).decoded(), file="data.parquet")
        return "taken"

    return outcome_of(found)
