"""Chains of generations are counted and checked as a whole; verifications that leave some out are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.chains import chains


def test_chains_are_counted_and_checked() -> None:
    assert {bool(each.field) for each in chains()} == {True, False}


@pytest.mark.parametrize(
    ("location", "broken"),
    [("pm.chain:_check_restated", lambda *_: None), ("pm.extent:find_generation", lambda *_, **__: None)],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("chain", replaced(f"tornproof.impl.{location}", broken))
