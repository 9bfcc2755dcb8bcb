"""Partitions have what was asked for, however they are written; writers that leave something out are noticed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from replayed import replayed

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet.written_partitions import (
    GROUP_BYTES_MAX,
    _differences_of_sizes,
    written_partitions,
)
from tornproof.harness.explorers.roundtrip.parts import WRITTEN_PARTITIONS


def test_partitions_have_what_was_asked_for() -> None:
    assert len({each.name for each in written_partitions()}) == len(written_partitions())


def without_first(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda options, *more: make(options, *more) and None


@pytest.mark.parametrize(
    ("location", "broken", "words"),
    [
        (
            "tornproof.impl.write.partition_build:encode_options",
            without_first,
            "after the preparation of a partition row group 0 has",
        ),
        (
            "tornproof.impl.write.partition_writer:updated_json",
            lambda _: lambda text, *, unused_bytes: text,
            "the JSON says that 0 bytes are unused",
        ),
    ],
)
def test_what_is_left_out_is_a_finding_that_replays(
    location: str, broken: Callable[[Callable[..., Any]], Callable[..., Any]], words: str
) -> None:
    with wrapped(location, broken):
        findings = [*findings_of(WRITTEN_PARTITIONS)]
        assert findings and all(words in each.sentence for each in findings)
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}


def test_a_later_row_group_that_is_too_large_is_noticed() -> None:
    large = GROUP_BYTES_MAX // 8 + 1
    rows = pa.table({"v": pa.array(range(large + 4), pa.int64())})
    for counts, wrong in (((2, 2, large), [2]), ((2, large, 2), [1]), ((large, 2, 2), [0]), ((2, 2), [])):
        contents = SimpleNamespace(footer={"row_groups": [{"num_rows": count} for count in counts]})
        found = [*_differences_of_sizes(contents, SimpleNamespace(rows=rows))]  # type: ignore[arg-type]  # what is looked at of them
        assert [each.split()[2] for each in found] == [str(number) for number in wrong]
