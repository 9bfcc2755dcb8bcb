"""Whether a process that was forked reads as the one before it, which has used threads that the fork does not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa

from tornproof.harness.common.patch import replaced
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.checksum import large_crc32
from tornproof.impl.storage.interface import File, LockMode, OpenMode, Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import Pin

PROPERTY = "a forked process reads as the one that it was forked from, and neither locks, unlocks nor pins for it"
FORKED = "forked"
"""The key of the evidence."""
IS_POSSIBLE = hasattr(os, "fork")
SECONDS_MAX, CONTROL_SECONDS = 30.0, 1.0
"""After these a process hangs that otherwise takes some milliseconds."""
FORK = f"from {__name__} import fork; fork()"
WITHOUT_HOOKS = "import os; os.register_at_fork = lambda **_: None"
NEVER_UNLOCKED = (
    "from tornproof.impl.storage.operating_system_file import OpenFile; "
    "OpenFile._was_locked = property(lambda file: False, lambda file, was_locked: None)"
)
NEVER_INHERITED = (
    "from tornproof.impl.storage.operating_system_file import OpenFile; "
    "OpenFile.is_inherited = property(lambda file: False)"
)
TAKEN_FOR_ITS_OWN = "from tornproof.impl.txn.pins import Pin; Pin.is_held = property(lambda pin: pin._file is not None)"
BEGUN = b"."
LOCKED, UNLOCKED, HELD = 3, 4, 5
PROBLEMS = {
    LOCKED: "what is closed stays locked as long as it lives",
    UNLOCKED: "what it closes is not locked any more for the one before it",
    HELD: "it says that it holds a pin of the one before it",
}
"""What is wrong with locks, by the exit code that says so."""


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
    return PROBLEMS.get(status, f"it reads something else, or dies (exit code {status})") if status else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process and of what it has forked."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.communicate()


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed: threads that a forked process takes for its own, and locks that end late or early."""
    if IS_POSSIBLE and problem(f"{WITHOUT_HOOKS}; {FORK}", CONTROL_SECONDS) is None:
        yield "a forked process that waits for threads of another one was not noticed"
    if IS_POSSIBLE and problem(f"{NEVER_UNLOCKED}; {FORK}") is None:
        yield "a forked process that keeps a lock was not noticed"
    if IS_POSSIBLE and problem(f"{NEVER_INHERITED}; {FORK}") is None:
        yield "a forked process that unlocks what it closes was not noticed"
    if IS_POSSIBLE and problem(f"{TAKEN_FOR_ITS_OWN}; {FORK}") is None:
        yield "a forked process that takes a pin for its own was not noticed"


def fork() -> None:
    """Read, lock, fork, and read again there; the exit code is 0 if both read the same, and locks are as they were.

    The other process closes some of the files, and lives until it was seen which ones are locked.
    """
    before, storage = _answers(), OperatingSystemStorage()
    (told, telling), (heard, saying) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        left, closed = ({f"{folder}/{mode.name} {name}": mode for mode in LockMode} for name in ("left", "closed"))
        files = {path: _locked(storage, path, mode) for path, mode in (left | closed).items()}
        pin = Pin(open_table(made_image(), MADE_PATH).transaction(), files[next(iter(left))])
        pid = os.fork()
        if not pid:
            os.close(telling)
            _read_again(before, [files[path] for path in closed], pin, told, saying)
        os.close(saying)
        os.read(heard, 1)
        is_kept = not any(_is_free(storage, path) for path in files)
        for file in files.values():
            file.close()
        is_free = all(_is_free(storage, path) for path in files)
    os.close(telling)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    # A process that takes files for its own says that it holds a pin, and unlocks them, which is worse.
    read, held = (0, status) if status == HELD else (status, 0)
    sys.exit(read or (0 if is_kept else UNLOCKED) or (0 if is_free else LOCKED) or held)


def _locked(storage: Storage, path: str, mode: LockMode) -> File:
    """Return a new file of which one range is locked, and another was."""
    file = storage.open_for_writing(path, OpenMode.NEW)
    for byte in range(2):
        file.try_lock(mode, offset_bytes=byte, size_bytes=1)
    file.unlock(offset_bytes=0, size_bytes=1)
    return file


def _is_free(storage: Storage, path: str) -> bool:
    with storage.open_for_writing(path) as file:
        return file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=2)


def _read_again(before: tuple[int, str], files: Sequence[File], pin: Pin, told: int, saying: int) -> NoReturn:
    status = 1
    try:
        os.write(sys.stdout.fileno(), BEGUN)
        status = int(_answers() != before) or (HELD if pin.is_held else 0)
        for file in files:
            file.close()
        os.close(saying)
        os.read(told, 1)
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
