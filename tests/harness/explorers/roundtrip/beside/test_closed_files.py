"""What operations open is closed when they end; a reader that leaves a file open is found, and the finding replays."""

import pytest
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.beside import closed_files
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.read import counters


def test_readers_that_close_nothing_are_noticed() -> None:
    assert [*closed_files.failed_controls()] == []


@pytest.mark.nightly
def test_a_reader_that_leaves_files_open_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters._WatchedFile, "close", lambda _: None)
    findings = [*findings_of(part_of("closed"))]
    assert "a read given up" in str(findings) and replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}
