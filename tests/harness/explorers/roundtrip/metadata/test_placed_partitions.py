"""What contradicts a partition is named; comparisons that are not made, or made with something else, are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import (
    failed_controls,
    placed_partitions,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.parts import PLACED_PARTITIONS
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.types.questdb import NANOSECOND

EMPTY = DiskImage.of_files({})


def test_what_contradicts_is_named() -> None:
    assert [problem for each in placed_partitions() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    kinds = {each.kind for each in placed_partitions()}
    assert {each.kind for each in placed_partitions() if each.expected} == kinds


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("check:is_same_type", lambda *_: True),
        ("check:interval_end", lambda *_, **__: None),
        ("check:column_key", lambda index, _: index),
        ("check:DESIGNATED", NANOSECOND),
        ("partition:MAGIC", b"PARE"),
        ("partition:COLUMN_FILE_SUFFIX", ".k"),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.table.{location}", broken):
        findings = [*findings_of(PLACED_PARTITIONS)]
        assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}
