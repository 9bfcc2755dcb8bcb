"""What is lost for good when a sync fails: the disk on which all else gets, but not what it was to make durable.

A system may forget that a failed sync has left something to write, so another sync of the same file brings nothing of
it to the disk; only what is written again gets there, and likewise for the names in a directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tornproof.harness.common.system import Target
from tornproof.harness.search.crash_world import fail_call
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import (
    Entry,
    Kernel,
    Rejected,
    apply_entry_change,
    image_of,
    without_loops,
)
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.process.bodies import COMMIT, writer_session
from tornproof.harness.simulator.process.case import WRITER
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError, Process
from tornproof.harness.simulator.process.world import ProcessGroup, World

_LOST = "and where what the sync was to write never gets to the disk"
LOST, LOST_BY_OPENING = (f"the {done}, {_LOST}" for done in ("commit was acknowledged", "writer was opened"))
LOST_EARLIER = f"a sync failed before the commit that was acknowledged, {_LOST}"
"""Each begins a sentence that a violation ends."""


class LostName(NamedTuple):
    """A name as a failed sync of its directory was to make it durable, and as it was before."""

    wanted: Entry
    before: Entry


def names_lost_by(kernel: Kernel, session: int, call: Call) -> tuple[LostName, ...]:
    """Return the names that are lost if a call that is to be made next fails: those of a directory that it syncs."""
    if call.kind is not CallKind.SYNC_DIRECTORY:
        return ()
    synced, before = kernel.fork(), kernel.durable_directories
    apply(synced, session, call)
    return tuple(
        LostName((directory, name, names.get(name)), (directory, name, before.get(directory, {}).get(name)))
        for directory, names in synced.durable_directories.items()
        for name in {*names, *before.get(directory, {})}
        if names.get(name) != before.get(directory, {}).get(name)
    )


def still_lost(kernel: Kernel, lost: tuple[LostName, ...]) -> tuple[LostName, ...]:
    """Return the names that are as the failed sync would have made them durable; one that was changed since is not."""
    directories = kernel.directories
    return tuple(
        each
        for each in lost
        for directory, name, number in (each.wanted,)
        if directories.get(directory, {}).get(name) == number
    )


def disk_without(kernel: Kernel, lost: tuple[LostName, ...]) -> DiskImage:
    """Return the disk when everything is written that a kernel still can write, but not names that are still lost."""
    directories = dict(kernel.directories)
    apply_entry_change(directories, tuple(each.before for each in still_lost(kernel, lost)))
    return image_of(without_loops(directories), {number: state.versions[-1] for number, state in kernel.files.items()})


def disk_after_failed_sync(
    target: Target,
    path: str,
    disk: DiskImage,
    operations: Sequence[Any],
    number: int,
    answer: Rejected,
    *,
    in_opening: bool = False,
) -> DiskImage:
    """Commit operations on a disk while the sync of this number, from 0 on, fails, and return what is then not lost.

    A commit that is rejected is followed by the next one. It is a sync of the first commit, or of the opening before
    it. Raises NotDeterministicError if there is none.
    """
    body = writer_session(target, path, [*enumerate(operations)], reads_first=False, goes_on=True)
    group = ProcessGroup(processes=(Process(WRITER, body),), judge=Judge(lambda operations: None, fails=True))
    world = group.begin(Kernel.of(disk), Progress())
    try:
        for _ in range(number):
            _go_to_sync(world, in_opening=in_opening)
            world.step(0)
        _go_to_sync(world, in_opening=in_opening)
        lost = names_lost_by(world.kernel, 0, world.call(0))
        fail_call(world, 0, answer)
        while world.nodes[0].call is not None:
            lost = still_lost(world.kernel, lost)
            world.step(0)
        return disk_without(world.kernel, lost)
    finally:
        group.close()


def _go_to_sync(world: World, *, in_opening: bool) -> None:
    while not ((in_opening or _is_committing(world)) and world.call(0).kind in BARRIERS):
        if world.nodes[0].call is None:
            raise NotDeterministicError("what is done again makes fewer syncs")
        world.step(0)


def _is_committing(world: World) -> bool:
    node = world.nodes[0]
    return node.call is not None and any(mark.kind == COMMIT for each in path_to(node) for mark in each.marks)
