"""The guard of a run: a small process that forwards signals, kills what does not end in time, and cleans up.

The work is done by its child, in a process group of its own. So a Ctrl-C of the terminal reaches only the guard, which
forwards it to the worker alone; and cleaning up works whatever the worker is doing, and even if it is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tornproof.cli import interruption
from tornproof.cli.interruption import SIGNAL_BASE
from tornproof.harness.common.signals import signal_name

ORDERLY_SECONDS = 1.8
"""How long an interrupted worker has to save and report its results."""
LEAVE_SECONDS, POLL_SECONDS = 0.2, 0.01
"""How long processes that the worker started may take to end by themselves, and how often that is checked."""
SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_VARIABLE = "TORNPROOF_SHARED_MEMORY"
SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


def begin() -> bool:
    """Fork: the worker returns from here; the guard ends with the worker's exit code at the end of the run.

    Returns False where fork fails: the work is done without a guard then.
    """
    ending = interruption.ending_signals()
    # Blocked until both processes are ready for them.
    forwarded = {*ending, signal.SIGTSTP}
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    # If SIGCHLD is ignored, the exit status of a child is lost, and some systems do not queue the signal.
    signal.signal(signal.SIGCHLD, interruption.ignore)
    folders = _make_folders()
    guarded, guarding = os.pipe()
    try:
        worker = os.fork()
    except OSError:
        _remove(folders)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
        return False
    if worker:
        os.close(guarded)
        os._exit(_guard(worker, ending, folders))
    os.close(guarding)
    _become_worker(guarded, folders)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    return True


def _become_worker(guarded: int, folders: list[Path]) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # With `stty tostop`, the terminal would stop a background process that writes to it.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def end_with_guard() -> None:
        os.read(guarded, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_guard, daemon=True).start()
    for folder, variable in zip(folders, ("TMPDIR", SHARED_MEMORY_VARIABLE), strict=False):
        os.environ[variable] = str(folder)
    if folders:
        tempfile.tempdir = str(folders[0])
        interruption.use_folder(folders[0])


def _make_folders() -> list[Path]:
    """Make a folder for the temporary files of the run, and one in shared memory where that exists.

    Those of a run within another run are in the other's, whose guard removes them even if this one is killed.
    """
    folders, prefix = [], f"tornproof-{os.getpid()}-"
    with suppress(OSError):
        folders.append(Path(tempfile.mkdtemp(prefix=prefix)))
        above = os.environ.get(SHARED_MEMORY_VARIABLE) or SHARED_MEMORY
        folders.append(Path(tempfile.mkdtemp(prefix=prefix, dir=above)))
    return folders


def _guard(worker: int, ending: tuple[signal.Signals, ...], folders: list[Path]) -> int:
    """Wait for the end of the worker, clean up behind it, and return the exit code of the run."""
    with suppress(OSError):
        # The worker does so too; the first one succeeds.
        os.setpgid(worker, worker)
    code, first = _wait(worker, ending)
    # Who is interrupted may have killed what was to end its processes: each checker has a session of its own.
    if (_end_group(worker) or first) and folders:
        _end_strays(str(folders[0]))
    if code < 0:
        _report_kill(-code, first, folders)
    _remove(folders)
    return code if code >= 0 else SIGNAL_BASE + (first or -code)


def _wait(worker: int, ending: tuple[signal.Signals, ...]) -> tuple[int, int]:
    """Return the worker's exit code as `subprocess` has it, and the first signal that was to end it, or 0."""
    awaited = {signal.SIGCHLD, signal.SIGALRM, *ending}
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        awaited.add(signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    first = 0
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), first
        number = signal.sigwait(awaited)
        if number == signal.SIGALRM:
            os.kill(worker, signal.SIGKILL)
        elif number == signal.SIGTSTP:
            _pause(worker)
        elif number != signal.SIGCHLD and not first:
            first = number
            signal.setitimer(signal.ITIMER_REAL, ORDERLY_SECONDS)
            os.kill(worker, number)


def _pause(worker: int) -> None:
    """Stop together with the worker's group, as Ctrl-Z demands, until SIGCONT."""
    with suppress(OSError):
        os.killpg(worker, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    with suppress(OSError):
        os.killpg(worker, signal.SIGCONT)


def _end_group(worker: int) -> bool:
    """End the processes that remain in the worker's group, and return whether there were any.

    The resource tracker of multiprocessing ignores SIGTERM: it removes semaphores when all others have ended.
    """

    def signalled(number: int) -> bool:
        with suppress(OSError):
            os.killpg(worker, number)
            return True
        return False

    if not signalled(signal.SIGTERM):
        return False
    if not _becomes_true(lambda: not signalled(0)):
        signalled(signal.SIGKILL)
        _becomes_true(lambda: not signalled(0))
    return True


def _end_strays(folder: str) -> None:
    """End processes that have left the group, as Spark's Python workers do; /proc shows which have our folder.

    They end by themselves when their Java is gone; until then they may still write.
    """

    def strays() -> list[int]:
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, folder.encode())]

    if not _becomes_true(lambda: not strays()):
        for process in strays():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _becomes_true(lambda: not strays())


def _has(path: Path, text: bytes) -> bool:
    with suppress(OSError):
        return text in path.read_bytes()
    return False


def _becomes_true(condition: Callable[[], bool]) -> bool:
    """Wait at most LEAVE_SECONDS for a condition, and return whether it became true."""
    end = time.monotonic() + LEAVE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _report_kill(killer: int, first: int, folders: list[Path]) -> None:
    """Print, on behalf of a killed worker, what happened to it."""
    said = f"ended by {signal_name(killer)}"
    if killer == signal.SIGKILL:
        said += ", which is also what the system does when it is out of memory"
    if first:
        if any((folder / interruption.SAID).exists() for folder in folders):
            return
        said = interruption.sentence()
        with suppress(OSError, IndexError):
            said += f": {(folders[0] / interruption.SENTENCE).read_text(encoding='utf-8', errors='replace')}"
    shown = (SHOW_CURSOR if os.isatty(2) else b"") + f"tornproof: {said}\n".encode()
    with suppress(OSError):
        os.write(2, shown)


def _remove(folders: list[Path]) -> None:
    """Remove the folders of a run, and the partial outputs listed in them."""
    for folder in folders:
        with suppress(OSError):
            named = (folder / interruption.TO_REMOVE).read_text(encoding="utf-8", errors="surrogateescape").split("\0")
            for directory, pattern in zip(named[::2], named[1::2], strict=False):
                for path in Path(directory).glob(pattern):
                    path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
