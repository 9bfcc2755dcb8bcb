"""Chains of generations are counted and checked as a whole; verifications that leave some out are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata.chains import (
    chains,
    failed_controls,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.parts import CHAINS
from tornproof.harness.simulator.filesystem.image import DiskImage

EMPTY = DiskImage.of_files({})


def test_chains_are_counted_and_checked() -> None:
    assert [problem for each in chains() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    assert {bool(each.field) for each in chains()} == {True, False}


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("pm.chain:_check_restated", lambda *_: None),
        ("pm.extent:find_generation", lambda *_, **__: None),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.{location}", broken):
        findings = [*findings_of(CHAINS)]
        assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}
