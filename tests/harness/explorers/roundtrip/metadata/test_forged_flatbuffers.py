"""FlatBuffers of which any byte is another one are rejected; a reader whose own errors come through is found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.forms import opened
from tornproof.harness.explorers.roundtrip.metadata import forged_flatbuffers as forged
from tornproof.harness.explorers.roundtrip.metadata.forged_flatbuffers import failed_controls, problem_of
from tornproof.impl.errors import CorruptError

INDEXES = "tornproof.impl.extension.decode:_indexes"


def test_each_byte_is_changed_and_nothing_else() -> None:
    cases = forged.forged_flatbuffers()
    before, flat = forged._file()
    whole, length = before + flat, len(cases) // len(forged.BYTES)
    assert {case.at for case in cases} == {*range(length)} and length == len(flat)
    for case in cases[:: length // 7]:
        content = case.content()
        assert [at for at in range(len(whole)) if content[at] != whole[at]] in ([len(before) + case.at], [])
        assert len(content) == len(whole) + 16 and content[-4:] == b"PAR3"


@pytest.mark.nightly
def test_some_bytes_mean_nothing_and_most_are_rejected() -> None:
    taken = 0
    for case in forged.forged_flatbuffers()[::5]:
        assert problem_of(case) is None
        try:
            opened(case.content()).thrift()
        except CorruptError:
            continue
        taken += 1
    assert 0 < taken < len(forged.forged_flatbuffers()) / 5 / 3


def shorter(indexes_of: Any) -> Any:
    """Return what gives too few indexes, as a file could, and raises what no caller expects."""

    def indexes(vector: Any) -> list[int]:
        found: list[int] = indexes_of(vector)
        if len(found) != 4:
            return found
        raise RuntimeError("generator raised StopIteration")

    return indexes


def test_another_error_is_found_and_replays() -> None:
    assert forged.forged_flatbuffers()
    findings = first_that_replays("flatbuffers", wrapped(INDEXES, shorter))
    assert findings[0].sentence.startswith("FlatBuffers with one ") and "RuntimeError" in findings[0].sentence


def test_an_error_that_keeps_the_files_from_being_made_is_found_and_replays() -> None:
    """It was called a defect of tornproof, and nothing was found."""
    forged._file.cache_clear()
    forged.forged_flatbuffers.cache_clear()
    (finding,) = first_that_replays("flatbuffers", wrapped(INDEXES, shorter))
    assert "none can be made: RuntimeError" in finding.sentence and finding.evidence == {"unmade": "flatbuffers"}


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forged, "problem_of", lambda case: None)
    assert len([*failed_controls()]) == 2
