"""Processes that have files of a table open are seen; looks that see others are found, and a blind look is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.beside import open_files as module
from tornproof.harness.explorers.roundtrip.beside.open_files import failed_controls, problem_of, processes
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parts import OPEN_FILES
from tornproof.harness.simulator.filesystem.image import DiskImage

EMPTY = DiskImage.of_files({})


def test_whoever_has_a_file_open_is_seen() -> None:
    assert [(each.name, problem) for each in processes() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []


def paths_alone(process: Path, name: bytes = b"") -> Iterator[tuple[str, tuple[int, int]]]:
    for descriptor in (process / "fd").iterdir():
        yield str(descriptor.readlink()), (0, 0)


def test_a_look_at_paths_alone_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.storage.holders._open_files", paths_alone)
    findings = [*findings_of(OPEN_FILES)]
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    monkeypatch.undo()
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}


def test_a_look_at_one_process_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3
