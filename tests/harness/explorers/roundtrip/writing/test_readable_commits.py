"""What is acknowledged is read by readers of little memory; writers that do not think of them are found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import readable_commits as module
from tornproof.harness.explorers.roundtrip.writing.readable_commits import failed_controls, readable_commits


def test_each_type_is_written_for_each_kind_of_reader() -> None:
    assert len(readable_commits()) == len(module.VALUES) * len(module.BOUNDS) * len(module.BOUND_BYTES)


def unlimited(_: Any) -> Any:
    return lambda *_: True


def test_a_writer_that_does_not_think_of_readers_is_found_and_replays() -> None:
    findings = first_that_replays(
        "readable", wrapped("tornproof.impl.write.readable_row_groups:_is_readable", unlimited)
    )
    assert "where readers take" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 6
