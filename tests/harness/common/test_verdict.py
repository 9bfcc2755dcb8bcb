"""The lattice of verdicts."""

import itertools
from typing import Any

import pytest

from tornproof.harness.common.verdict import PASSED, Finding, Phase, Verdict, worst


def test_nothing_explored_is_unknown() -> None:
    assert worst([]) is Verdict.UNKNOWN


def test_invalid_dominates_unknown_dominates_valid() -> None:
    assert Verdict.VALID < Verdict.UNKNOWN < Verdict.INVALID


@pytest.mark.parametrize("verdicts", list(itertools.product(Verdict, repeat=3)), ids=str)
def test_a_whole_is_valid_only_where_every_part_is(verdicts: tuple[Verdict, ...]) -> None:
    whole = worst(iter(verdicts))
    assert (whole is Verdict.VALID) == (set(verdicts) == {Verdict.VALID})
    assert (whole is Verdict.INVALID) == (Verdict.INVALID in verdicts)


def phase(verdict: Verdict = Verdict.VALID, **more: Any) -> Phase:
    return Phase(name="a phase", explored=1, complete=True, bound="a bound", verdict=verdict, **more)


@pytest.mark.parametrize("failed", [["a toy was not detected"], None])
def test_a_phase_whose_controls_failed_or_were_not_tried_is_unknown(failed: list[str] | None) -> None:
    doubted = phase().with_controls(failed)
    assert doubted.verdict is Verdict.UNKNOWN and doubted.note and doubted.controls != PASSED
    assert phase(Verdict.INVALID).with_controls(failed).verdict is Verdict.INVALID
    assert phase().with_controls([]) == phase(controls=PASSED)


def test_a_phase_that_has_not_reached_a_coverage_goal_is_unknown() -> None:
    assert phase(reached={"one": 1}).with_coverage_goals(["one"]).verdict is Verdict.VALID
    for reached in ({"one": 1}, {"one": 1, "other": 0}):
        doubted = phase(reached=reached).with_coverage_goals(["one", "other"])
        assert doubted.verdict is Verdict.UNKNOWN and doubted.note == "never reached: other"


def test_a_replay_that_violates_another_property_is_unknown() -> None:
    finding = Finding(property="one", phase="a phase", sentence="It is broken.", evidence={})
    found = {name: finding.verdict_of(violated) for name, violated in (("none", []), ("other", ["other"]))}
    assert found == {"none": Verdict.VALID, "other": Verdict.UNKNOWN}
    assert finding.verdict_of(["other", "one"]) is Verdict.INVALID
