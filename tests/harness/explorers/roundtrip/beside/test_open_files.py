"""Processes that have files of a table open are seen; looks that see others are found, and a blind look is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from replayed import first_findings, replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.beside import open_files as module
from tornproof.harness.explorers.roundtrip.beside.open_files import failed_controls


def paths_alone(process: Path, name: bytes = b"") -> Iterator[tuple[str, tuple[int, int]]]:
    for descriptor in (process / "fd").iterdir():
        yield str(descriptor.readlink()), (0, 0)


def test_a_look_at_paths_alone_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.storage.holders._open_files", paths_alone)
    findings = first_findings("open")
    assert replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}


def test_a_look_at_one_process_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3
