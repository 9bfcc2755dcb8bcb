"""A server process that has imported what worker processes need, and forks itself for each of them.

Importing takes a process longer than its work does. The server has a single thread, so that forking is safe.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import multiprocess  # type: ignore[import-untyped]
import numpy
import pyarrow
from multiprocess.connection import Connection  # type: ignore[import-untyped]
from multiprocess.reduction import (  # type: ignore[import-untyped]
    ForkingPickler,
    recv_handle,
    send_handle,
)

from tornproof.harness.common.garbage import collect_seldom
from tornproof.harness.common.without_pandas import hide_pandas

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps NumPy and Arrow from starting threads when they are imported."""
PARENT_ALONE = frozenset({signal.SIGINT, signal.SIGTERM})
"""Signals that a terminal or a supervisor sends to all processes; only the parent reacts to them."""


class ForkServer:
    """The parent's handle of the server, which ends with all its processes when the parent closes it or dies."""

    def __init__(self, *modules: str) -> None:
        """Start the server, which imports these modules; it can start processes when it `is_ready`."""
        self._connection, theirs = multiprocess.Pipe()
        self._is_serving = False
        program = (
            f"import sys; sys.path[:] = {sys.path}; from {__name__} import serve; serve({theirs.fileno()}, {modules})"
        )
        # A blocked signal stays blocked in the new process, so that it cannot leave a traceback while that starts.
        with _blocked(PARENT_ALONE):
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                pass_fds=[theirs.fileno()],
            )
        theirs.close()

    def is_ready(self, timeout_seconds: float) -> bool:
        """Return whether it serves, after waiting at most that long; raises EOFError if it has ended."""
        if not self._is_serving and self._connection.poll(timeout_seconds):
            self._is_serving = self._connection.recv() == self._process.pid
        return self._is_serving

    def start(self, run: Callable[..., None], *arguments: object) -> tuple[int, Any]:
        """Run a function in a new process, with one end of a pipe and the arguments; return its process id and our end.

        Raises EOFError or OSError if the server has ended.
        """
        ours, theirs = multiprocess.Pipe()
        with theirs:
            self._connection.send(bytes(ForkingPickler.dumps((run, arguments))))
            send_handle(self._connection, theirs.fileno(), self._process.pid)
        return self._connection.recv(), ours

    def exit_code(self, process: int) -> int | None:
        """Return the exit code of a process that has closed its pipe, or None if the server has ended.

        The process id is not reused before.
        """
        with suppress(EOFError, OSError):
            self._connection.send(process)
            code: int = self._connection.recv()
            return code
        return None

    def close(self) -> None:
        """Kill all processes that are left, and wait until they have ended."""
        self._connection.close()
        if not self._is_serving:
            self._process.kill()
        self._process.wait()


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Run the server: fork for each pickled function, and send the exit code of a process for its id."""
    hide_pandas()
    for module in modules:
        __import__(module)
    # The first use of each of the two imports more modules.
    pyarrow.array(numpy.random.default_rng(0).integers(1, size=1))
    connection = Connection(descriptor)
    collect_seldom()
    processes: set[int] = set()
    with suppress(EOFError, OSError):
        connection.send(os.getpid())
        while True:
            request = connection.recv()
            if isinstance(request, bytes):
                theirs = recv_handle(connection)
                process = os.fork()
                if process == 0:
                    connection.close()
                    _run(request, theirs)
                os.close(theirs)
                processes.add(process)
                connection.send(process)
            else:
                processes.remove(request)
                connection.send(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]))
    for process in processes:
        kill_group(process)
        os.waitpid(process, 0)


def kill_group(process: int) -> None:
    """Kill a process and all that it has started in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):
        # Until it has its own process group it has started nothing.
        os.kill(process, signal.SIGKILL)


def _run(request: bytes, descriptor: int) -> None:
    """Run the function in the new process; never returns."""
    try:
        run, arguments = ForkingPickler.loads(request)
        run(Connection(descriptor), *arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@contextmanager
def _blocked(signals: frozenset[signal.Signals]) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
