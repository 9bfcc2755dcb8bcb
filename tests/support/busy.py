"""A machine that has more to do than the tests."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_machine(process_count: int = 1) -> Iterator[None]:
    """Keep so many processes busy while the block runs."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(process_count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
