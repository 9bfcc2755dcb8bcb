"""Copies of tables in memory, on which explorers work."""

from __future__ import annotations

import os

from tornproof.api.steady import until_stable
from tornproof.harness.check import capture_table, complaint_of, make_table
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.workload import MADE_PATH
from tornproof.impl.storage.operating_system import OperatingSystemStorage


def capture_until_stable(table: str) -> tuple[str, DiskImage]:
    """Return a table's real path and its files, copied into memory, all of one committed version.

    Raises as `until_stable` and `capture_table` do.
    """
    storage = OperatingSystemStorage()
    # An image is keyed by plain text, `link/..` is where a link leads, and POSIX lets a path keep two leading slashes.
    path = "/" + os.path.realpath(table).lstrip("/")
    return path, until_stable(
        storage, path, lambda: capture_table(storage, path), lambda copy: complaint_of(copy, path)
    )


def capture_or_make(path: str | None) -> tuple[str, DiskImage, str]:
    """Return the path and an image of a table, or of a small new one, and the error if that could not be made."""
    if path is None:
        return MADE_PATH, *make_table()
    return *capture_until_stable(path), ""
