"""A commit leaves room for its recovery; one that does not is noticed."""

from __future__ import annotations

import pytest
from planted_faults import planted
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import RECOVERY_ROOMS
from tornproof.harness.explorers.roundtrip.writing.recovery_rooms import recovery_rooms


def test_limits_are_below_and_above_what_a_commit_needs() -> None:
    assert len({case.name for case in recovery_rooms()}) == len(recovery_rooms()) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["no room for the footer of a recovery", "room for the first of two footers"])
def test_a_commit_that_leaves_no_room_is_found_and_replays(fault: str) -> None:
    with planted(fault):
        findings = [*findings_of(RECOVERY_ROOMS)]
        assert findings and replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
