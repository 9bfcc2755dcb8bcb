"""Real files answer as simulated ones; where they do not, that is a small finding that replays, and controls see it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.storage import explorer
from tornproof.harness.explorers.storage.calls import ARGUMENTS, CALLS_MAX
from tornproof.harness.explorers.storage.explorer import CALLS, CONTROLS, STORAGE, difference, explore_storage
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.storage.operating_system_file import _MappedFile

UNUSABLE = ("x" * 256, "\0", "\ud800", "d/\ud800")


def verdict_of(finding: Finding) -> Verdict:
    return replay_finding(finding, DiskImage({}), "/table")


def test_files_of_the_system_answer_as_simulated_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    compared = explorer.difference

    def counted(calls: Any, *arguments: Any) -> str | None:
        made.append(len(calls))
        return compared(calls, *arguments)

    monkeypatch.setattr(explorer, "difference", counted)
    monkeypatch.setattr(explorer, "failed_controls", lambda scratch: iter(()))
    count = 300
    phase = explore_storage(count, 5, str(tmp_path))
    assert (phase.verdict, phase.findings, phase.note) == (Verdict.VALID, (), "")
    made_calls = {"sequences": len(made), "calls": sum(made), "forked processes": 1}
    assert phase.counts == made_calls == {**made_calls, "sequences": count, "calls": count * CALLS_MAX}
    assert phase.explored == count + 1
    assert {*phase.reached} == {*ARGUMENTS} and min(phase.reached.values()) >= 5


def test_a_full_disk_is_no_other_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="no space is left"):
        difference([["open_for_writing", "a", "NEW"], ["pwrite", 0, "00", 0]], str(tmp_path))


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_name_that_cannot_be_used_is_rejected_alike(name: str, tmp_path: Path) -> None:
    for call in ("mkdir", "rmdir", "unlink", "listdir", "kind", "own_kind", "sync_directory", "open_for_reading"):
        assert difference([["mkdir", "d"], [call, name]], str(tmp_path)) is None
    for mode in ("NEW", "EXISTING", "EXISTING_OR_NEW"):
        assert difference([["mkdir", "d"], ["open_for_writing", name, mode]], str(tmp_path)) is None


@pytest.mark.nightly
def test_each_control_is_noticed_and_with_a_blind_comparison_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explore_storage(40, 0, str(tmp_path)).controls == "passed"
    monkeypatch.setattr(explorer, "difference", lambda *_: None)
    phase = explore_storage(40, 0, str(tmp_path))
    assert phase.verdict is Verdict.UNKNOWN and phase.controls.count("were not noticed") == len(CONTROLS) == 5


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "calls_max"), [*zip(CONTROLS, (2, 3, 5, 3, 3), strict=True)])
def test_what_differs_is_a_finding_of_the_calls_that_are_needed(name: str, calls_max: int, tmp_path: Path) -> None:
    place, broken = CONTROLS[name]
    with replaced(f"{STORAGE}:{place}", broken):
        (finding,) = explore_storage(200, 3, str(tmp_path)).findings
        assert verdict_of(finding) is Verdict.INVALID
    calls = finding.evidence[CALLS]
    assert len(calls) <= calls_max and f"After {len(calls) - 1} calls" in finding.sentence
    assert str(tmp_path) not in finding.sentence
    assert verdict_of(finding) is Verdict.VALID


def test_descriptors_that_stay_open_replay() -> None:
    place, broken = CONTROLS["descriptors that stay open"]
    calls = {CALLS: [["open_for_writing", "a", "NEW"], ["close", 0]]}
    finding = Finding(property="", phase="storage", sentence="", evidence=calls)
    with replaced(f"{STORAGE}:{place}", broken), broken.left:
        assert verdict_of(finding) is Verdict.INVALID
    assert verdict_of(finding) is Verdict.VALID


def test_controls_leave_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the controls left some open, so the harness had ever fewer."""
    monkeypatch.setattr(explorer, "CONTROL_SEQUENCES_MAX", 3)
    before = explorer._descriptor_count()
    noticed = {*CONTROLS} - {each.removesuffix(" were not noticed") for each in explorer.failed_controls(str(tmp_path))}
    assert "descriptors that stay open" in noticed
    assert explorer._descriptor_count() == before > 0


@pytest.mark.parametrize(
    "call",
    [
        *(["unlink", "../../victim"], ["rename", "a", "../../victim"], ["open_for_writing", "../../victim", "NEW"]),
        *(["link_symbolically", "../..", "b"], ["counters"], ["__init__", "a"], ["pread", 0], [], "unlink"),
    ],
)
def test_calls_of_a_file_that_would_change_another_folder_are_not_made(call: Any, tmp_path: Path) -> None:
    finding = Finding(property="", phase="storage", sentence="", evidence={CALLS: [["mkdir", "d"], call]})
    assert verdict_of(finding) is Verdict.UNKNOWN
    assert verdict_of(replace(finding, evidence={})) is Verdict.UNKNOWN


@pytest.mark.nightly
def test_a_mistake_below_the_open_file_is_found_too(tmp_path: Path) -> None:
    class Unordered(OperatingSystemStorage):
        def listdir(self, path: str) -> tuple[str, ...]:
            return super().listdir(path)[::-1]

    with replaced("tornproof.harness.explorers.storage.explorer:OperatingSystemStorage", Unordered):
        (finding,) = explore_storage(200, 0, str(tmp_path)).findings
    assert finding.evidence[CALLS][-1][0] == "listdir" and len(finding.evidence[CALLS]) == 3
    assert [*tmp_path.iterdir()] == []


def test_a_view_that_does_not_end_with_its_block_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def view(mapping: _MappedFile, size_bytes: int, offset_bytes: int) -> Iterator[memoryview]:
        mapping._lease_count += 1
        yield mapping._range(size_bytes, offset_bytes)
        mapping._lease_count -= 1

    beginning: list[list[Any]] = [["open_for_writing", "a", "NEW"], ["pwrite", 0, "00" * 8, 0], ["map", 0, 8]]
    answers = {is_failing: [*beginning, ["view", 0, 8, 0, is_failing]] for is_failing in (False, True)}
    assert all(difference(calls, str(tmp_path)) is None for calls in answers.values())
    monkeypatch.setattr(_MappedFile, "view", view)
    assert difference(answers[False], str(tmp_path)) is None
    assert "closed with ['done', 'a bug of the caller']" in str(difference(answers[True], str(tmp_path)))


def test_what_real_files_count_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = OperatingSystemStorage.counters

    def another(storage: OperatingSystemStorage) -> Any:
        found = counters(storage)
        return structs.replace(found, sync_count=found.sync_count + 1)

    monkeypatch.setattr(OperatingSystemStorage, "counters", another)
    assert "the counters are" in str(difference([["mkdir", "d"]], str(tmp_path)))
