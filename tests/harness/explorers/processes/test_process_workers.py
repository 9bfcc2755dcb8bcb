"""How the parent of a run takes the ends of its processes."""

from __future__ import annotations

import errno
import os
import signal
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tornproof.harness.common.history import History
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.processes.explorer import _phase
from tornproof.harness.explorers.processes.messages import Failure, worker
from tornproof.harness.explorers.processes.run import Outcome, Settings
from tornproof.harness.explorers.processes.workers import Member
from tornproof.impl.errors import StorageError


@pytest.mark.parametrize(
    ("ended_by", "failure"),
    [
        (signal.SIGKILL, None),
        (signal.SIGBUS, Failure(text=f"reader-0.0 ended with exit code {-signal.SIGBUS}", is_finding=True)),
    ],
)
def test_a_process_that_dies_of_something_else_just_before_it_is_killed_has_failed(
    ended_by: signal.Signals, failure: Failure | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    # Its end is noticed only now.
    monkeypatch.setattr(os, "kill", lambda process, number: theirs.close())
    server = SimpleNamespace(exit_code=lambda process: -ended_by)
    member = Member("reader-0.0", "reader-0", 1, ours, Path(), server)  # type: ignore[arg-type]  # no more is asked of it
    member.kill()
    assert (member.failure, member.was_killed) == (failure, failure is None)


@pytest.mark.parametrize(("number", "verdict"), [(errno.ENOSPC, Verdict.UNKNOWN), (errno.EIO, Verdict.INVALID)])
def test_a_process_that_a_full_disk_ends_is_no_finding_and_leaves_no_verdict(number: int, verdict: Verdict) -> None:
    """The sound writer was INVALID where the disk of the temporary files was full."""
    sent: list[Failure] = []
    connection: Any = SimpleNamespace(send=sent.append)
    with worker(connection, (), "writer", ()):
        raise StorageError("_pm", "write", os.strerror(number)) from OSError(number, os.strerror(number))
    settings, outcome = Settings(seed=0, reader_count=0, kills=0), Outcome(expected=None)
    phase = _phase(History(events=(), torn_frames=0), outcome, settings, sent, [], [], "", is_cut=False)
    assert phase.verdict is verdict and "_pm: cannot write" in phase.note
