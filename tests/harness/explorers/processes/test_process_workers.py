"""How the parent of a run takes the ends of its processes."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tornproof.harness.common.history import History
from tornproof.harness.common.verdict import Verdict, always
from tornproof.harness.explorers.processes import workers
from tornproof.harness.explorers.processes.explorer import _phase
from tornproof.harness.explorers.processes.messages import Failure, worker
from tornproof.harness.explorers.processes.reader import Style
from tornproof.harness.explorers.processes.run import Outcome, Settings
from tornproof.harness.explorers.processes.workers import Member, Workers
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


FAILURE = Failure(text="it failed", is_finding=True)


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda run, member: run.failures(), lambda has_ended: [FAILURE]),
        (lambda run, member: member.has_ended, lambda has_ended: has_ended),
        (lambda run, member: member.was_killed, lambda has_ended: has_ended),
        (lambda run, member: (member.has_message(0.0), member.next_message()), lambda has_ended: (True, "done")),
    ],
    ids=["failures", "has_ended", "was_killed", "has_message"],
)
def test_who_asks_about_a_process_first_receives_all_that_it_has_sent(
    ask: Callable[[Workers, Member], object],
    answer: Callable[[bool], object],
    has_ended: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure of a process that nobody waited for was lost where the run ended by its time limit."""
    ours, theirs = Pipe()
    server = SimpleNamespace(
        is_ready=lambda _: True, start=lambda *_: (1, ours), exit_code=lambda process: -signal.SIGKILL
    )
    monkeypatch.setattr(workers, "ForkServer", lambda *_: server)
    run = Workers(SimpleNamespace(), Path(), (), always)  # type: ignore[arg-type]  # the server alone would use it
    member = run.start_reader("reader-0", Style.FOREIGN)
    for message in ("done", FAILURE):
        theirs.send(message)
    if has_ended:
        theirs.close()
    assert (ask(run, member), member.failure) == (answer(has_ended), FAILURE)


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
