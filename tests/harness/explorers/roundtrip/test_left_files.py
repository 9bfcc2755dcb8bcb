"""Calls leave on a disk what they should; those that leave other files, locks or names are found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import kinds_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip import left_files as module
from tornproof.harness.explorers.roundtrip.left_files import failed_controls


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("location", "broken", "kinds"),
    [
        ("table.indexed_columns:indexed_columns", lambda _: (), {"dry runs"}),
        ("repair.kept:_is_copy", lambda *_: True, {"kept"}),
    ],
)
def test_what_is_left_otherwise_is_found_and_replays(location: str, broken: Any, kinds: set[str]) -> None:
    assert kinds_that_replay("left", replaced(f"tornproof.impl.{location}", broken)) == kinds


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 2
