"""A server that forks the processes of a run has one thread, and leaves neither a process nor output behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tornproof.harness.explorers.processes.workers import MODULES
from tornproof.harness.parallel.fork_server import ForkServer

RUN = """
import os, signal, sys
from pathlib import Path
from tornproof.harness.explorers.processes.explorer import explore_processes
# A handler of its own, because signals that a process ignores are ignored in its children too.
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
print("started", flush=True)
phase = explore_processes(
    None,
    "/trades",
    directory=Path(sys.argv[1]),
    seed=1,
    kills=int(sys.argv[2]),
    readers=2,
    on_progress=lambda done, total: print("killed", done, flush=True),
)
print(phase.verdict.name, phase.note, flush=True)
# While Python exits, signals have their default effect again.
os._exit(0)
"""
HANG_SECONDS = 600.0


def start_run(directory: Path, kills: int) -> subprocess.Popen[str]:
    """Start a run as a process in a group of its own, and wait until it has printed that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(directory), str(kills)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    return process


def serving() -> ForkServer:
    server = ForkServer(*MODULES)
    while not server.is_ready(HANG_SECONDS):
        pass
    return server


def end(connection: Any, code: int) -> None:
    os._exit(code)


def wait(connection: Any) -> None:
    connection.recv()


def hang(connection: Any) -> None:
    while True:
        time.sleep(HANG_SECONDS)


def test_a_process_that_ends_is_distinguished_from_one_that_is_killed() -> None:
    server = serving()
    try:
        ends = {}
        for name, run, arguments in (("ended", end, (3,)), ("killed", hang, ()), ("asked", wait, ())):
            process, connection = server.start(run, *arguments)
            if name == "killed":
                os.kill(process, signal.SIGKILL)
            if name == "asked":
                connection.send("end")
            with pytest.raises(EOFError):
                connection.recv()
            ends[name] = server.exit_code(process)
        assert ends == {"ended": 3, "killed": -signal.SIGKILL, "asked": 0}
    finally:
        server.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists the threads of a process")
@pytest.mark.parametrize("is_set", [False, True], ids=["nothing is set", "threads are set"])
def test_the_server_has_one_thread(is_set: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_set:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
        monkeypatch.setenv("JE_ARROW_MALLOC_CONF", "background_thread:true")
    server = serving()
    try:
        server.start(wait)
        assert len(list(Path(f"/proc/{server._process.pid}/task").iterdir())) == 1
    finally:
        server.close()


def test_a_process_that_hangs_ends_with_the_server() -> None:
    server = serving()
    process, connection = server.start(hang)
    server.close()
    with pytest.raises(EOFError):
        connection.recv()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_server_that_is_closed_while_it_starts_is_gone() -> None:
    server = ForkServer(*MODULES)
    server.close()
    assert server._process.returncode == -signal.SIGKILL


def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    run = start_run(tmp_path, kills=1_000)
    assert run.stdout is not None and run.stdout.readline() == "killed 1\n"
    run.kill()
    # All of them share the parent's outputs, which therefore end with the last process.
    _, errors = run.communicate(timeout=HANG_SECONDS)
    assert (run.returncode, errors) == (-signal.SIGKILL, "")


def test_signals_to_all_processes_are_handled_by_the_parent_at_any_time(tmp_path: Path) -> None:
    run = start_run(tmp_path, kills=1)
    while run.poll() is None:
        for number in (signal.SIGINT, signal.SIGTERM):
            # Some systems reject a signal to a group whose last process has just ended.
            with suppress(PermissionError):
                os.killpg(run.pid, number)
        time.sleep(0.01)
    output, errors = run.communicate()
    assert (output.splitlines()[-1], errors, run.returncode) == ("VALID ", "", 0)
