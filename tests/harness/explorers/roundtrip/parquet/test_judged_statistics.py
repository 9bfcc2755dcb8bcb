"""Statistics are judged by the values of their pages; other orders, and judges that believe more, are noticed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet.judged_statistics import (
    MANY,
    _is_beginning,
    judged_statistics,
    types,
)
from tornproof.impl.chunk import statistics


def test_statistics_are_believed_where_they_fit() -> None:
    assert MANY * 3 > statistics.FEW_VALUES
    assert {each.field for each in judged_statistics()} == {
        *("", "NUM_VALUES", "NULL_COUNT", "MIN_STAT", "MAX_STAT", "statistics")
    }


def test_the_types_are_in_order_and_beginnings_are_those_of_texts() -> None:
    for of in types():
        keys = [of.key(value) for value in of.values]
        assert keys == sorted(keys)
    assert _is_beginning(b"gr", b"gras") and _is_beginning(b"gs", b"gras") and not _is_beginning(b"ga", b"gras")


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("UNSIGNED_TAGS", frozenset()),
        ("_NUMBERS", {pa.int32(): "<u4"}),
        ("UTF8_CONTINUATION", b""),
        ("is_nan", lambda _: False),
    ],
)
def test_other_judges_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("judged", replaced(f"tornproof.impl.chunk.statistics:{location}", broken))
