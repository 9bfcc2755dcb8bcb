"""How the parent of a run takes the ends of its processes."""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from tornproof.harness.explorers.processes.messages import Failure
from tornproof.harness.explorers.processes.workers import Member


@pytest.mark.parametrize(
    ("ended_by", "failure"),
    [
        (signal.SIGKILL, None),
        (signal.SIGBUS, Failure(text=f"reader-0.0 ended with exit code {-signal.SIGBUS}", is_rejection=False)),
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
