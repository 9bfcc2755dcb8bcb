"""Whether a committed version outlives power cuts while a writer recovers from a commit that only the page cache has.

A sync that fails, or a writeback that nobody waits for, leaves pages that count as clean and never reach the disk
([Rebello et al. 2020](https://www.usenix.org/conference/atc20/presentation/rebello)). Here a killed commit has left its
generation in such pages. The calls of the recovery are made one after the other, and after each of them all disks are
looked at on which a file is what it was at one time. On disks that mix blocks no recovery is safe: the header that says
how much metadata there is, and was not on disk either, shares a page with what has to be written again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import errors_as_problems, needed
from tornproof.harness.explorers.roundtrip.writing.kills import (
    Rows,
    disks_of_power_cuts,
    left_by_last_kill,
    reported,
    rows_in,
    spoil,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition import PM_FILE, ResolvedPartition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.write.recovery import recover_for_writing
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "a committed version outlives power cuts in the recovery from a commit that never reached the disk"
PATH = "lost"
RECOVERY, APPLY = "tornproof.impl.write.recovery", f"{disks_of_power_cuts.__module__}:apply"
STORED = f"store a word of {PATH}/2024-01-01.0/_pm, "
"""After which call a disk is wrong where the size is published before what it counts."""
OPTIONS = WriterOptions(row_group_row_count_max=1, rewrite_unused_ratio=1_000.0)
"""No partition is rewritten because of what is no longer used."""
FIRST: Rows = [(FIRST_TIME, 0)]
LOST_COUNTS = (1, 30, 70)
"""Rows, and row groups, whose metadata takes one page or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOrphan:
    """A recovery, in which the power is cut, from a commit of so many rows."""

    count: int
    kind: str = "recoveries"

    @property
    def name(self) -> str:
        """It in words."""
        return f"a recovery from a commit of {self.count} row groups"


@functools.cache
def lost_orphans() -> tuple[LostOrphan, ...]:
    """Return all recoveries, always in the same order."""
    return tuple(LostOrphan(count=count) for count in LOST_COUNTS)


def problem_of(case: LostOrphan) -> str | None:
    """Say after which call the committed version cannot be read; None if there is none."""
    committed, left = _images(case.count)
    storage = FaultyStorage(MemoryStorage.of(left))
    recover_for_writing(storage, open_table(storage, PATH))
    for number, call, disk in disks_of_power_cuts(_cached(committed, left), storage.calls):
        problem = _problem_of_disk(disk)
        if problem is not None:
            return f"if the power fails after call {number}, {call.kind} of {call.path}, {problem}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of recoveries that write only what is new, sync no data, or write in another order."""
    apply_call = original_of(APPLY)
    recover = original_of(f"{__name__}:recover_for_writing")
    publish, restate = original_of(f"{RECOVERY}:publish"), original_of(f"{RECOVERY}:_restate")

    def without_syncs(kernel: Kernel, session: int, call: Call) -> None:
        if call.kind is not CallKind.FDATASYNC:
            apply_call(kernel, session, call)

    def only_behind(kernel: Kernel, session: int, call: Call) -> None:
        if call.kind is CallKind.PWRITE:
            known_bytes = max(0, len(kernel.files[kernel.entry(call.path)].content) - call.offset_bytes)
            call = call._replace(content=call.content[known_bytes:], offset_bytes=call.offset_bytes + known_bytes)
        apply_call(kernel, session, call)

    def publish_before(storage: Storage, resolved: ResolvedPartition) -> None:
        start, content = resolved.resolved.position.end_bytes, resolved.published.content
        again = content[start:] + restate(resolved)
        with ExitStack() as opened:
            handle = opened.enter_context(storage.open_for_writing(f"{resolved.files.path}/{PM_FILE}"))
            publish(handle, start + len(again), opened)
            handle.pwrite(again, start)
            # All of it is sound after the sync, and only a disk between the two stores is not.
            handle.fdatasync()

    def recover_and_spoil(storage: Storage, table: Table) -> None:
        recover(storage, table)
        spoil(storage, PATH)

    controls: Controls = (
        ("only what is new is written", APPLY, only_behind),
        ("no data are synced", APPLY, without_syncs),
        ("what is published is written later, before one sync", f"{RECOVERY}:_republish", publish_before, STORED),
        ("the name is lost", f"{__name__}:recover_for_writing", recover_and_spoil, "verify reports"),
        ("rows are lost", f"{__name__}:rows_in", lambda *_: [], "the rows are"),
    )
    return not_noticed(controls, problem_of, lost_orphans())


@errors_as_problems
def _problem_of_disk(image: DiskImage) -> str | None:
    storage = MemoryStorage.of(image)
    if (rows := rows_in(storage, PATH)) != FIRST:
        return f"the rows are {rows} instead of {FIRST}"
    return reported(storage, PATH)


@functools.cache
def _images(count: int) -> tuple[DiskImage, DiskImage]:
    """Return what is on disk, and what processes see: the killed commit, too."""
    committed = table_of_rows(PATH, FIRST, options=OPTIONS)
    rows = [(FIRST_TIME + number, number) for number in range(1, count + 1)]
    return committed, left_by_last_kill(committed, PATH, rows, options=OPTIONS)


def _cached(disk: DiskImage, seen: DiskImage) -> Kernel:
    """Return a kernel whose page cache has files that count as clean, and are others than those on disk."""
    needed(disk.files.keys() == seen.files.keys(), "the commit has made another file")
    kernel = Kernel.of(disk)
    for path, number in kernel.paths():
        if path in seen.files:
            kernel.files[number] = FileState(seen.files[path], (disk.files[path],))
    return kernel
