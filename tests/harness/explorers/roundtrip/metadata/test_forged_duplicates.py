"""Forged records are doubted, rejected or reported; readers that say nothing of them are found, blind looks noticed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.metadata import forged_duplicates as module
from tornproof.harness.explorers.roundtrip.metadata.forged_duplicates import Outcome, failed_controls, forged_duplicates


def test_each_record_is_forged_in_each_way() -> None:
    assert len(module._records()) == 6
    counts = Counter(each.outcome for each in forged_duplicates())
    assert counts[Outcome.REJECTED] == 6
    # Of two row groups that are as long, each has the values of the other one, in each of two columns.
    assert counts[Outcome.BELIEVED] == 4
    assert {each.kind for each in forged_duplicates()} >= {"another column", "more or less values", "nothing"}


def test_a_record_that_is_made_again_is_the_same() -> None:
    assert {module._with_record(number) for number in range(6)} == {module._file()}
    assert module._with_record(0, former_end=1) != module._file()


def silent(values: Any) -> Any:
    return lambda **fields: values(**fields | {"doubt": None})


def test_a_reader_that_tells_no_doubts_is_found_and_replays() -> None:
    findings = first_that_replays("forged", wrapped("tornproof.impl.chunk.duplicate_values:ChunkValues", silent))
    assert "there are 0 doubts" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 6
