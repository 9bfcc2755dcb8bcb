"""Python programs beside the tests, which find this checkout, and what this process has open."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tornproof import impl


def started(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a program with pipes for what it reads and prints."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(impl.__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@contextmanager
def holding(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program that first does what `script` says and then waits until it is killed."""
    waiting = f"{script}\nimport sys\nprint('done', flush=True)\nsys.stdin.read()\n"
    with started(waiting, *arguments) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "done\n"
            yield process
        finally:
            process.kill()


def forked(work: Callable[[], object]) -> str:
    """Return what `work` returns in a forked process, or its error, in words; it must use no threads."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 about threads that the fork does not have
        pid = os.fork()
    if not pid:
        try:
            answer = repr(work())
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def descriptor_count() -> int:
    """Return how many file descriptors this process has open."""
    return len(list(Path("/dev/fd").iterdir()))
