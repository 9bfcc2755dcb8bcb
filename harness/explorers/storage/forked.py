"""Whether a process that was forked reads as the one before it, which has used threads that the fork does not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa

from tornproof.harness.common.patch import replaced
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.checksum import large_crc32
from tornproof.impl.table.table import open_table

PROPERTY = "a forked process reads as the one that it was forked from"
FORKED = "forked"
"""The key of the evidence."""
IS_POSSIBLE = hasattr(os, "fork")
SECONDS_MAX, CONTROL_SECONDS = 30.0, 1.0
"""After these a process hangs that otherwise takes some milliseconds."""
FORK = f"from {__name__} import fork; fork()"
WITHOUT_HOOKS = "import os; os.register_at_fork = lambda **_: None"
BEGUN = b"."


def problem(code: str = FORK, seconds_max: float = SECONDS_MAX) -> str | None:
    """Say what is wrong with a forked process, in a new process that executes `code`; None if nothing is."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        if process.stdout.read(1) != BEGUN:
            return "it has not begun"
        status = process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        return "it does not end"
    finally:
        _end(process)
    return f"it reads something else, or dies (exit code {status})" if status else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process and of what it has forked."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.communicate()


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of pools whose threads a forked process takes for its own."""
    if IS_POSSIBLE and problem(f"{WITHOUT_HOOKS}; {FORK}", CONTROL_SECONDS) is None:
        yield "a forked process that waits for threads of another one was not noticed"


def fork() -> None:
    """Read, fork, and read again there; the exit code is 0 if both have read the same."""
    before = _answers()
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    status = 1
    try:
        os.write(sys.stdout.fileno(), BEGUN)
        status = int(_answers() != before)
    finally:
        os._exit(status)


def _answers() -> tuple[int, str]:
    with (
        replaced("tornproof.impl.storage.checksum:HALF_BYTES_MIN", 1),
        replaced("tornproof.impl.read.decoding:SMALL_BYTES", 1),
        by_threads() as decoding,
    ):
        batches = [*open_snapshot(open_table(made_image(), MADE_PATH)).batches(decoding=decoding)]
        return large_crc32(FORK.encode()), repr(pa.Table.from_batches(batches).to_pydict())
