"""Processes for explorers of schedules that are small enough to try every interleaving: they share a file of cells."""

from collections.abc import Sequence
from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Body, Process, Say
from tornproof.harness.simulator.process.world import ProcessGroup, World
from tornproof.impl.storage.interface import LockMode, OpenMode, Storage

CELLS = "cells"
CELL_COUNT = 3


@dataclass(frozen=True)
class Step:
    """What a process does with a cell: read, write a value, add to what it read last, try to lock."""

    kind: str
    cell: int
    value: int = 0


def process(steps: Sequence[Step]) -> Body:
    """Return a body that reports all its answers at its end."""

    def run(storage: Storage, say: Say) -> None:
        answers: list[object] = []
        last = 0
        file = storage.open_for_writing(CELLS, OpenMode.EXISTING)
        for step in steps:
            match step.kind:
                case "read":
                    last = file.pread(1, step.cell)[0]
                    answers.append(last)
                case "write":
                    file.pwrite(bytes([step.value]), step.cell)
                case "add":
                    file.pwrite(bytes([(last + step.value) % 256]), step.cell)
                case "lock":
                    mode = LockMode.EXCLUSIVE if step.value else LockMode.SHARED
                    answers.append(file.try_lock(mode, offset_bytes=step.cell, size_bytes=1))
        say("answered", tuple(answers))

    return run


def read_only_calls(name: str, count: int) -> Body:
    """Return a body of `count` calls that no other process depends on."""

    def run(storage: Storage, say: Say) -> None:
        for _ in range(count):
            storage.kind(name)

    return run


def world_of(bodies: Sequence[Body], files: dict[str, bytes] | None = None) -> World:
    """Return processes on a disk of a few files."""
    image = DiskImage(files or {CELLS: bytes(CELL_COUNT)}, frozenset({"/", "."}))
    processes = tuple(Process(f"process {number}", body) for number, body in enumerate(bodies))
    return ProcessGroup(processes=processes, judge=Judge(lambda operations: None)).begin(Kernel.of(image), Progress())
