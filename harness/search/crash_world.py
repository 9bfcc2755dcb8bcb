"""The world after a crash: a second session of the writer, beside readers that survived or are new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, FileState
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.written import part_of
from tornproof.harness.simulator.persistence.legal_files import file_content
from tornproof.harness.simulator.persistence.models import C_4096, FileChoice
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Absent, Operations, Progress
from tornproof.harness.simulator.process.simulated_process import DEAD, Node, Process
from tornproof.harness.simulator.process.world import NOBODY_WATCHES, ProcessGroup, Watches, World
from tornproof.impl.storage.interface import StorageReason
from tornproof.model.trace import Event, Kind, Known, follow

Action: TypeAlias = tuple[Any, ...]
Disks: TypeAlias = Callable[[Kernel], Iterable[tuple[Kernel, Any]]]
"""Returns the kernels that a power cut may leave, each with the choice that gives it."""
WRITER_INDEX, READER_INDEX = 0, 1
FAILING = BARRIERS - {CallKind.SYNC_DIRECTORY}
FAILED_SYNC = Rejected(StorageReason.INPUT_OUTPUT)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The processes before and after a crash; those after it are shared by all crashes, so that each runs only once."""

    case: TestCase
    first: ProcessGroup
    second: ProcessGroup

    @classmethod
    def of(cls, case: TestCase, *, fails: bool = False) -> Sessions:
        """Make the processes of both sessions; the readers are the same in both, and go on or begin anew."""
        first = case.process_group(fails=fails)
        writer = case.writer(case.second_session, reads_first=True)
        second = ProcessGroup(processes=(writer, *first.processes[1:]), judge=first.judge, rules=case.rules)
        return cls(case, first, second)

    @property
    def processes(self) -> tuple[Process, ...]:
        """All processes of both sessions."""
        return (*self.first.processes, self.second.processes[WRITER_INDEX])

    def close(self) -> None:
        """End all greenlets."""
        for process in self.processes:
            process.close()

    def after_kill(self, world: World) -> World:
        """Return the world after the writer was killed: what it wrote stays, and readers go on."""
        left = after_kill_of(world, WRITER_INDEX)
        return self._second(left.kernel, left.nodes[1:], left.progress, left.known, left.watches)

    def after_power_cut(self, world: World, kernel: Kernel) -> World:
        """Return the world after a power cut: a commit that was seen but not acknowledged need not have survived."""
        survived = world.progress._replace(seen=len(world.progress.committed), readings=())
        known = follow(world.known, Event(Kind.POWER_CUT))
        return self._second(kernel, [process.root for process in self.second.processes[1:]], survived, known)

    def after_failed_sync(self, world: World) -> World:
        """Return the world in which the writer's next call, a sync, failed: its pages are clean and unwritten."""
        failed = world.fork()
        fail_call(failed)
        return failed

    def crashes(self, world: World, model: str, disks: Disks) -> Iterator[tuple[Action, World]]:
        """Yield the worlds after a crash of the writer before its next call, under "A", "D", or the model of `disks`.

        Under "D" the call is a sync that fails, and the writer goes on.
        """
        if model == "A":
            yield ("kill",), self.after_kill(world)
        elif model == "D":
            if world.call(WRITER_INDEX).kind in FAILING:
                yield ("fail",), self.after_failed_sync(world)
        else:
            for kernel, choice in disks(world.kernel):
                yield ("power", model, choice), self.after_power_cut(world, kernel)

    def _second(
        self, kernel: Kernel, readers: list[Node], progress: Progress, known: Known, watches: Watches = NOBODY_WATCHES
    ) -> World:
        nodes = [self.second.processes[WRITER_INDEX].root, *readers]
        return World(self.second, kernel, nodes, progress, known, watches)


def after_kill_of(world: World, index: int) -> World:
    """Return the world after a writer was killed: what it wrote stays, and others go on."""
    left = world.fork()
    left.kernel.kill(index)
    left.nodes[index] = DEAD
    # Who waits may wait for what the writer had locked.
    left.watches = {other: each._replace(is_changed=True) for other, each in world.watches.items() if other != index}
    left.known = follow(world.known, Event(Kind.STOPPED))
    return left


def begun_with(begun: Operations, low: int, absences: tuple[Absent, ...]) -> tuple[Progress, Known]:
    """Return what is remembered and known when the first `low` of the operations begun are there, and others may be."""
    *rejected, pending = begun[low:] or (None,)
    progress = Progress(committed=begun[:low], rejected=tuple(rejected), pending=pending, absences=absences)
    return progress, Known(low=low, high=len(begun), durable=low, is_open=False)


def with_process(world: World, process: Process) -> World:
    """Return the world with one more process, the last one, which begins now."""
    group = replace(world.process_group, processes=(*world.process_group.processes, process))
    nodes = [*world.nodes, process.root]
    left = World(group, world.kernel.fork(), nodes, world.progress, world.known, world.watches)
    left.report(len(world.nodes))
    return left


def write_part(world: World, index: int, written_bytes: int) -> None:
    """Let only the first bytes of a process's next call, a write, get into the file."""
    if written_bytes:
        apply(world.kernel, index, part_of(world.call(index), 0, written_bytes))


def fail_call(
    world: World, index: int = WRITER_INDEX, answer: Rejected = FAILED_SYNC, written: FileChoice | None = None
) -> None:
    """Let a process's next call fail; the pages of a sync then count as clean, but only those `written` are on disk.

    Raises IndexError where what it syncs has no such pages.
    """
    kernel, call = world.kernel, world.call(index)
    file = kernel.file_of(index, call) if call.kind in BARRIERS else None
    if file is not None:
        state, end_bytes = kernel.files[file], _synced_bytes(kernel, index, call)
        content = None if written is None else file_content(state.until(end_bytes), C_4096, written)
        kernel.files[file] = state.failed(content, end_bytes)
    world.answer(index, answer)


def synced_by(world: World, index: int) -> FileState | None:
    """Return what a process's next call, a sync, is to write: a file or its first pages; None if it is of no file."""
    kernel, call = world.kernel, world.call(index)
    file = kernel.file_of(index, call)
    return None if file is None else kernel.files[file].until(_synced_bytes(kernel, index, call))


def _synced_bytes(kernel: Kernel, index: int, call: Call) -> int | None:
    """Return how many first bytes of its file a sync writes, in whole pages; None for all of it and its size."""
    if call.kind is not CallKind.MSYNC:
        return None
    file, size_bytes = kernel.mappings[index, call.mapping]
    end_bytes = -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
    return None if end_bytes >= len(kernel.files[file].content) else end_bytes
