"""What a killed commit left in the page cache is lost, and nothing else; a careless recovery is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import kills
from tornproof.harness.explorers.roundtrip.writing import lost_orphans as module
from tornproof.harness.explorers.roundtrip.writing.kills import rows_in
from tornproof.harness.explorers.roundtrip.writing.lost_orphans import FIRST, PATH, failed_controls, lost_orphans
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage


def test_processes_see_a_generation_that_is_not_on_disk() -> None:
    sizes = []
    for case in lost_orphans():
        committed, left = module._images(case.count)
        (path,) = (path for path in left.files if path.endswith("_pm"))
        sizes.append((len(left.files[path]) - len(committed.files[path])) // PAGE_BYTES)
        for image in (committed, left):
            assert rows_in(MemoryStorage.of(image), PATH) == FIRST
        kernel = module._cached(committed, left)
        assert kernel.image().files == left.files
        assert {state.versions for state in kernel.files.values()} == {(each,) for each in committed.files.values()}
    assert sizes == [0, 1, 2]


def stored_again(restate: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda resolved: restate(resolved)[:-1] + b"?"


def test_a_recovery_that_states_something_else_is_found_and_replays() -> None:
    findings = first_that_replays("orphan", wrapped("tornproof.impl.write.recovery:_restate", stored_again))
    assert "if the power fails after call" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_problem_of_disk", lambda _: None)
    assert len([*failed_controls()]) == 5


def test_a_look_only_after_syncs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "STEPS", frozenset({CallKind.FDATASYNC, CallKind.FSYNC, CallKind.MSYNC}))
    assert "what is published is written later, before one sync: not noticed" in [*failed_controls()]
