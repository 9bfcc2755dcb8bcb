"""A forked process reads as the one before it; one that waits for threads of another one, or reads more, is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from depth import sampled

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.storage import explorer, forked
from tornproof.harness.explorers.storage.explorer import explore_storage
from tornproof.harness.explorers.storage.forked import (
    CONTROL_SECONDS,
    FORK,
    NEVER_INHERITED,
    NEVER_UNLOCKED,
    WITHOUT_HOOKS,
    failed_controls,
    problem,
)
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage

pytestmark = pytest.mark.skipif(not forked.IS_POSSIBLE, reason="processes cannot be forked here")


def test_a_forked_process_reads_the_same_and_one_that_waits_for_ever_is_noticed() -> None:
    assert problem() is None
    assert [*failed_controls()] == []
    assert problem(f"{WITHOUT_HOOKS}; {FORK}", CONTROL_SECONDS) == "it does not end"


@pytest.mark.parametrize(
    ("change", "expected"),
    sampled(
        1,
        [
            ("forked._answers = lambda: os.getpid()", "it reads something else, or dies (exit code 1)"),
            ("forked._answers = lambda: (_ for _ in ()).throw(OSError) if os.getppid() == me else 0", "dies"),
            ("os.fork = lambda: 1 / 0", "it has not begun"),
        ],
    ),
)
def test_what_a_fork_does_otherwise_is_said(change: str, expected: str) -> None:
    code = (
        f"import os; me = os.getpid(); from tornproof.harness.explorers.storage import forked; {change}; forked.fork()"
    )
    assert expected in (problem(f"import sys; sys.stderr.close(); {code}") or "")


def test_a_finding_replays_while_the_mistake_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "failed_controls", lambda _: ())
    monkeypatch.setattr(forked, "failed_controls", lambda: ())
    monkeypatch.setattr(forked, "problem", lambda: "it does not end")
    (finding,) = explore_storage(1, 0, str(tmp_path)).findings
    assert "forked" in finding.sentence and replay_finding(finding, DiskImage({}), "/table") is Verdict.INVALID
    monkeypatch.setattr(forked, "problem", lambda: None)
    assert replay_finding(finding, DiskImage({}), "/table") is Verdict.VALID


def test_a_lock_that_a_forked_process_ends_is_found() -> None:
    """Only the process before it closed its files, so that nobody saw that the forked one unlocks them, too."""
    assert problem(f"{NEVER_INHERITED}; {FORK}") == "what it closes is not locked any more for the one before it"


def test_a_lock_that_a_forked_process_keeps_is_found() -> None:
    assert problem(f"{NEVER_UNLOCKED}; {FORK}") == "what is closed stays locked as long as it lives"
