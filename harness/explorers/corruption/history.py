"""Earlier versions of a table: our own writer commits to a copy of it, so that its files have older content."""

from __future__ import annotations

from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import Answer, read_answer
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import crash_operations
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.table import open_table


@dataclass(frozen=True, slots=True)
class Version:
    """A table after a commit, and what a reader read of it."""

    image: DiskImage
    answer: Answer


def grow(image: DiskImage, path: str) -> tuple[Version, ...]:
    """Return the table at `path` as it is and after each of some commits that make its files longer, oldest first.

    Raises RowsRejectedError where no writer may write to it, and what reading and writing raise.
    """
    storage = MemoryStorage.of(image)
    versions = [_version(image, path)]
    with TableTarget().open_writer(storage, path) as commits:
        for operation in crash_operations(image, path):
            if operation.rewritten:
                # Files in a new directory have no older content.
                continue
            commits.commit(operation)
            versions.append(_version(storage.image(), path))
    return tuple(versions)


def _version(image: DiskImage, path: str) -> Version:
    return Version(image, read_answer(open_snapshot(open_table(image, path))))
