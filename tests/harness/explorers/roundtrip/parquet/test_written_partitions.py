"""Partitions have what was asked for, however they are written; writers that leave something out are noticed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parquet.written_partitions import (
    GROUP_BYTES_MAX,
    _differences_of_sizes,
    written_partitions,
)


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
    findings = all_that_replay("written", wrapped(location, broken))
    assert findings and all(words in each.sentence for each in findings)


def test_a_later_row_group_that_is_too_large_is_noticed() -> None:
    groups = {"small": [""] * 2, "large": ["x" * GROUP_BYTES_MAX, "x"], "single": ["x" * GROUP_BYTES_MAX * 2]}
    for kinds in itertools.product(groups, repeat=3):
        texts = [groups[kind] for kind in kinds]
        rows = pa.table({"text": [text for group in texts for text in group]})
        contents = SimpleNamespace(footer={"row_groups": [{"num_rows": len(group)} for group in texts]})
        found = [*_differences_of_sizes(contents, SimpleNamespace(rows=rows))]  # type: ignore[arg-type]  # what is looked at of them
        assert [int(each.split()[2]) for each in found] == [at for at, kind in enumerate(kinds) if kind == "large"]
