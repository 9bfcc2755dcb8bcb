"""Files that are written atomically and durably, even if several processes write the same one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file, and rename it to `path` once it is durable; an error removes it.

    Its name ends with PARTIAL, and Spark and pyarrow treat it as hidden.
    """
    partial = path.with_name(partial_name(path.name))
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def partial_name(name: str) -> str:
    """Return the temporary name of a file, different each time."""
    return f".{name}.{uuid.uuid4().hex}{PARTIAL}"


def is_partial(found: str, name: str | None = None) -> bool:
    """Return whether a name is a temporary one, of the file `name` if it is given, as a killed process leaves it."""
    return found.startswith("." if name is None else f".{name}.") and found.endswith(PARTIAL)
