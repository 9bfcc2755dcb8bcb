"""A run of the command line that somebody interrupts, and what it leaves: processes, folders, files, semaphores."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import quick_java
from command_line import TIMEOUT_SECONDS, environment

BEGUN = "begun"
"""The file that is as old as a run."""
PROCESSES, SHARED_MEMORY = Path("/proc"), Path("/dev/shm")
POLL_SECONDS = 0.002


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it; `state` T is a stopped one."""

    pid: int
    state: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended that may have been interrupted, and what there was of it afterwards."""

    code: int
    out: str
    err: str
    processes: tuple[Process, ...]
    files: tuple[str, ...]


def start(arguments: Sequence[object], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command as the only one of a new session, with a folder of its own for temporary files."""
    temporary = made_temporary(folder)
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "tornproof", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment() | {"TMPDIR": str(temporary), quick_java.VARIABLE: quick_java.OPTIONS},
            start_new_session=True,
        )


def made_temporary(folder: Path) -> Path:
    """Make the folder for temporary files of a run, and note when it was."""
    (folder / BEGUN).touch()
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return temporary


def left_in_shared_memory(process: int, folder: Path) -> list[Path]:
    """Return what a run has left there, and not what a killed one with the same number had left before it."""
    begun = (folder / BEGUN).stat().st_mtime_ns
    return [each for each in SHARED_MEMORY.glob(f"tornproof-{process}-*") if each.stat().st_mtime_ns >= begun]


def interrupt(process: subprocess.Popen[bytes], after_seconds: float, number: int = signal.SIGINT) -> None:
    """Send a signal to the process group, as a terminal does, so long after tornproof's own first line has run."""
    while process.poll() is None and not _has_begun(process.pid):
        time.sleep(POLL_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_seconds)
    if process.poll() is None:
        os.killpg(process.pid, number)


def ended(process: subprocess.Popen[bytes], folder: Path) -> Ended:
    """Wait for the end of a run, and look for what it has left; a hang is ended, and is an error."""
    before = _semaphores()
    try:
        code = process.wait(TIMEOUT_SECONDS)
    finally:
        process.kill()
    # Semaphores of other tests come and go.
    wait_until(lambda: not _semaphores() - before)
    wait_until(lambda: not processes_of(process.pid))
    out, err = ((folder / name).read_bytes().decode() for name in ("stdout", "stderr"))
    left = [*(folder / "temporary").iterdir(), *left_in_shared_memory(process.pid, folder)]
    left += folder.rglob(".*.partial")
    return Ended(code=code, out=out, err=err, processes=processes_of(process.pid), files=tuple(map(str, left)))


def run_whole(arguments: Sequence[object], folder: Path) -> tuple[int, float]:
    """Run a command to its end, and return its exit code and how long it took after its first line."""
    process = start(arguments, folder)
    while process.poll() is None and not _has_begun(process.pid):
        time.sleep(POLL_SECONDS)
    begin = time.monotonic()
    return process.wait(TIMEOUT_SECONDS), time.monotonic() - begin


def _has_begun(process: int) -> bool:
    """Whether a process has a handler for SIGTERM, as Python itself has none."""
    with suppress(OSError):
        for line in (PROCESSES / str(process) / "status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def processes_of(session: int) -> tuple[Process, ...]:
    """Return what still runs in a session, or is stopped."""
    found = []
    for position in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            # The name may hold anything; after it come state, parent, group and session.
            fields = (position / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(Process(int(position.name), fields[0], (position / "cmdline").read_text()))
    return tuple(found)


def _semaphores() -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob("sem.*")}


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, or for so long that it hangs."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not is_so() and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
