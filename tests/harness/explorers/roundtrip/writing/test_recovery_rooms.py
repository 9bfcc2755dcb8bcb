"""A commit leaves room for its recovery; one that does not is noticed."""

from __future__ import annotations

import pytest
from planted_faults import planted
from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.writing import recovery_rooms as module
from tornproof.harness.explorers.roundtrip.writing.recovery_rooms import (
    BYTES,
    COMMITS,
    EXCESS,
    FOOTER_BYTES,
    failed_controls,
    recovery_rooms,
)


def test_limits_are_below_and_above_what_a_commit_needs() -> None:
    assert len({case.name for case in recovery_rooms()}) == len(recovery_rooms()) > 20


def test_all_mistakes_are_noticed_and_with_a_blind_look_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*failed_controls()] == []
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 6


@pytest.mark.parametrize(("spared_bytes", "is_found"), [(FOOTER_BYTES, True), (-FOOTER_BYTES, False)])
def test_a_writer_that_is_too_careful_has_no_problem_and_one_that_spares_its_recovery_has(
    spared_bytes: int, *, is_found: bool
) -> None:
    """A control that leaves more room than is needed would try what is no mistake."""
    cases = [case for case in recovery_rooms() if case.kind == f"{next(iter(COMMITS))} {BYTES} {False}"]
    with wrapped(EXCESS, lambda excess: lambda *, pm_bytes, **more: excess(pm_bytes=pm_bytes - spared_bytes, **more)):
        assert any(part_of("rooms").problem_of(case) is not None for case in cases[1::2]) is is_found


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["no room for the footer of a recovery", "room for the first of two footers"])
def test_a_commit_that_leaves_no_room_is_found_and_replays(fault: str) -> None:
    all_that_replay("rooms", planted(fault))
