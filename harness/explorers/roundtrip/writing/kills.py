"""Commits of processes that are killed at a call."""

from __future__ import annotations

import bisect
from collections.abc import Callable

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.explorers.model_based.files import Process
from tornproof.harness.simulator.filesystem.faulty import Fault
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import STEPS, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage

CALLS = STEPS - {CallKind.STORE}
"""Where stores are cut off is asked elsewhere: they are most of a commit's steps."""
CALL_COUNT_MAX = 1 << 8


def is_killed(storage: MemoryStorage, path: str, rows: Callable[[pa.Schema], pa.Table], at: int) -> bool:
    """Commit rows in a process that dies at a call, and return whether there are so many."""
    process = Process(storage)
    writer = open_writer_of_copy(process, path)
    writer.write(rows(writer.schema))
    process.arm(Fault(at=at, reason=None, among=CALLS))
    try:
        writer.commit()
    except Killed:
        return True
    finally:
        process.arm()
        process.end()
    return False


def left_by_last_kill(
    image: DiskImage, path: str, rows: Callable[[pa.Schema], pa.Table], is_there: Callable[[MemoryStorage], bool]
) -> DiskImage:
    """Return what the last kill leaves after which the commit is not there, or the table if there is no such kill."""

    def is_late(at: int) -> bool:
        storage = MemoryStorage.of(image)
        return not is_killed(storage, path, rows, at) or is_there(storage)

    storage = MemoryStorage.of(image)
    late = bisect.bisect_left(range(CALL_COUNT_MAX), True, key=is_late)
    if late:
        is_killed(storage, path, rows, late - 1)
    return storage.image()
