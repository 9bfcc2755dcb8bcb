"""The guard of a run: a small process that passes signals on, ends what does not end in time, and removes what is left.

The work is done by its child, in a process group of its own. So a Ctrl-C of the terminal reaches the guard alone, which
passes it on to the worker and to nobody else; and it does not matter what the worker is busy with, or killed by.
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

ORDERLY_SECONDS = 1.8
"""How long a worker that was interrupted has to save and tell what it found."""
LEAVE_SECONDS, POLL_SECONDS = 0.2, 0.01
"""How long what a worker has started may take to end by itself, and how often that is looked at."""
SHARED_MEMORY = Path("/dev/shm")
SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


def begin() -> bool:
    """Fork: the worker returns from here, and the guard ends with the worker's exit code when all is over.

    False where there is no room for two processes: the work can be done without a guard.
    """
    ending = interruption.ending_signals()
    # Until both are ready for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    # Where the end of a child is ignored nobody learns how it ended, and some systems do not let the signal wait.
    signal.signal(signal.SIGCHLD, interruption.ignore)
    folders = _make_folders()
    guarded, guarding = os.pipe()
    try:
        worker = os.fork()
    except OSError:
        _remove(folders)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
        return False
    if worker:
        os.close(guarded)
        os._exit(_guard(worker, ending, folders))
    os.close(guarding)
    _become_worker(guarded, folders)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
    return True


def _become_worker(guarded: int, folders: list[Path]) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # The terminal would stop a process in the background that writes to it, where somebody has set it so.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def end_with_guard() -> None:
        os.read(guarded, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_guard, daemon=True).start()
    for folder, variable in zip(folders, ("TMPDIR", "TORNPROOF_SHARED_MEMORY"), strict=False):
        os.environ[variable] = str(folder)
    if folders:
        tempfile.tempdir = str(folders[0])
        interruption.use_folder(folders[0])


def _make_folders() -> list[Path]:
    """Make the folder of the run for temporary files, and one in shared memory where there is such a thing."""
    folders, prefix = [], f"tornproof-{os.getpid()}-"
    with suppress(OSError):
        folders.append(Path(tempfile.mkdtemp(prefix=prefix)))
        folders.append(Path(tempfile.mkdtemp(prefix=prefix, dir=SHARED_MEMORY)))
    return folders


def _guard(worker: int, ending: tuple[signal.Signals, ...], folders: list[Path]) -> int:
    """Wait for the end of the worker, clean up behind it, and return the exit code of the run."""
    with suppress(OSError):
        # The worker does so too; whoever comes first.
        os.setpgid(worker, worker)
    code, first = _wait(worker, ending)
    if _end_group(worker) and folders:
        _end_strays(str(folders[0]))
    if code < 0:
        _report_progress(-code, first, folders)
    _remove(folders)
    return code if code >= 0 else SIGNAL_BASE + (first or -code)


def _wait(worker: int, ending: tuple[signal.Signals, ...]) -> tuple[int, int]:
    """Return how the worker ended, as `subprocess` says it, and the first signal that was to end it, or 0."""
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
    """Stop as the terminal demands, with all that the worker has started, until somebody says to go on."""
    with suppress(OSError):
        os.killpg(worker, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    with suppress(OSError):
        os.killpg(worker, signal.SIGCONT)


def _end_group(worker: int) -> bool:
    """End what the worker has left in its group, and return whether there was anything.

    The process in which multiprocessing keeps book of semaphores ignores SIGTERM: it removes them when all others have
    ended.
    """

    def signalled(number: int) -> bool:
        with suppress(OSError):
            os.killpg(worker, number)
            return True
        return False

    if not signalled(signal.SIGTERM):
        return False
    if not _comes(lambda: not signalled(0)):
        signalled(signal.SIGKILL)
        _comes(lambda: not signalled(0))
    return True


def _end_strays(folder: str) -> None:
    """End what has left the group, as Spark's Python processes do, where the system tells who was given our folder.

    They see for themselves that their Java has gone; until then they may still write.
    """

    def strays() -> list[int]:
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, folder.encode())]

    if not _comes(lambda: not strays()):
        for process in strays():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _comes(lambda: not strays())


def _has(path: Path, text: bytes) -> bool:
    with suppress(OSError):
        return text in path.read_bytes()
    return False


def _comes(is_there: Callable[[], bool]) -> bool:
    """Wait a moment for something, and return whether it came."""
    end = time.monotonic() + LEAVE_SECONDS
    while not is_there():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _report_progress(killer: int, first: int, folders: list[Path]) -> None:
    """Say in the place of a worker that was killed what became of it."""
    said = f"ended by {signal.Signals(killer).name}"
    if killer == signal.SIGKILL:
        said += ", which is how a system without memory ends processes, too"
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
    """Remove the folders of a run, and the partial outputs that it has named."""
    for folder in folders:
        with suppress(OSError):
            named = (folder / interruption.TO_REMOVE).read_text(encoding="utf-8", errors="surrogateescape").split("\0")
            for position, pattern in zip(named[::2], named[1::2], strict=False):
                for path in Path(position).glob(pattern):
                    path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
