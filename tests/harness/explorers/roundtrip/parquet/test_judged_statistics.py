"""Statistics are judged by the values of their pages; other orders, and judges that believe more, are noticed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parquet.judged_statistics import (
    MANY,
    _is_beginning,
    failed_controls,
    judged_statistics,
    problem_of,
    types,
)
from tornproof.harness.explorers.roundtrip.parts import JUDGED_STATISTICS
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.chunk import statistics


def test_statistics_are_believed_where_they_fit() -> None:
    assert [problem for each in judged_statistics() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    assert MANY * 3 > statistics.FEW_VALUES
    assert {each.field for each in judged_statistics()} == {
        *("", "NUM_VALUES", "NULL_COUNT", "MIN_STAT", "MAX_STAT", "statistics"),
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
        ("_is_nan", lambda _: False),
    ],
)
def test_other_judges_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.chunk.statistics:{location}", broken):
        findings = [*findings_of(JUDGED_STATISTICS)]
        assert {replay_roundtrip(each, DiskImage.of_files({}), "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, DiskImage.of_files({}), "/table") for each in findings} == {Verdict.VALID}
