"""A server whose tables are in a directory, of the newest release that Maven resolves; as a program it tells which."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tornproof.harness.systems.server import process
from tornproof.harness.systems.server.release import UnavailableError, find_release

PAGE_BYTES = 16 << 10


@contextlib.contextmanager
def served(directory: str, commit_mode: str) -> Iterator[process.Server]:
    """Start a server, whose settings and log are elsewhere; files grow by small pages."""
    process.SETTINGS |= {
        "cairo.commit.mode": commit_mode,
        "cairo.iouring.enabled": "false",
        "cairo.writer.data.append.page.size": str(PAGE_BYTES),
        "cairo.system.writer.data.append.page.size": str(PAGE_BYTES),
    }
    with tempfile.TemporaryDirectory() as outside:
        Path(outside, "db").symlink_to(Path(directory).resolve())
        with process.Server(find_release(), Path(outside)) as server:
            yield server


if __name__ == "__main__":
    try:
        print(find_release().version)
    except UnavailableError as error:
        sys.exit(str(error))
