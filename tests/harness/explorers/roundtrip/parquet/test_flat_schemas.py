"""Footers of FlatBuffers say of columns what pyarrow reads from Thrift; others, and crooked ones, are noticed."""

from __future__ import annotations

import pytest
from planted_faults import planted
from replayed import first_that_replays

from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet.flat_schemas import failed_controls, flat_schemas
from tornproof.harness.explorers.roundtrip.parts import part_of


def test_all_columns_are_as_pyarrow_says() -> None:
    assert [*findings_of(part_of("flat"))] == [] == [*failed_controls()]
    assert {each.is_nullable for each in flat_schemas()} == {True, False} and len(flat_schemas()) > 50


@pytest.mark.parametrize(
    "fault",
    [
        "older annotation goes before logical type",
        "schema facts of zero are left out",
        "wide fields follow the table start",
    ],
)
def test_other_footers_are_noticed_and_their_findings_replay(fault: str) -> None:
    first_that_replays("flat", planted(fault))
