"""Python programs beside the tests, which find this checkout, and what this process has open."""

import os
import subprocess
import sys
from collections.abc import Iterator
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


def descriptor_count() -> int:
    """Return how many file descriptors this process has open."""
    return len(list(Path("/dev/fd").iterdir()))
