"""Processes for explorers of schedules that are small enough to try every interleaving."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Body, Process, Say
from tornproof.harness.simulator.process.world import ProcessGroup, World
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, Mapping, OpenMode, Storage

CELLS = "cells"
CELL_COUNT = 4
PATHS = (CELLS, "new", "d", "d/file", "new/file")
STARTS: tuple[tuple[str, ...], ...] = ((CELLS,), (CELLS, "d/file"), (CELLS, "new"), ("d/file",))
"""The files that may be there at first, besides the empty directory `d`."""
CALL_COUNTS = ((4, 4), (5, 5), (6, 4), (3, 2, 2), (3, 3, 2), (3, 3, 3))
"""How many calls the processes of a random world make at most: 70 to 1,680 schedules."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call on paths, or on cells (bytes) of what the process has opened, mapped or leased last."""

    kind: str
    cell: int = 0
    value: int = 0
    size: int = 1
    path: str = CELLS
    target: str = CELLS


class _Session:
    """What a process has open, and the cell that it read last."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.last = 0
        self._files: list[File] = []
        self._mappings: list[Mapping] = []
        self._leases: list[AbstractContextManager[memoryview]] = []

    def open(self, step: Step, mode: OpenMode | None = None) -> None:
        storage = self.storage
        file: Any = storage.open_for_reading(step.path) if mode is None else storage.open_for_writing(step.path, mode)
        self._files.append(file)

    @property
    def file(self) -> File:
        return self._files[-1]

    def read(self, step: Step) -> bytes:
        content = self.file.pread(step.size, step.cell)
        self.last = content[0] if content else 0
        return content

    def write(self, step: Step, value: int) -> None:
        self.file.pwrite(bytes([value % 256] * step.size), step.cell)

    def lock(self, step: Step) -> bool:
        mode = LockMode.EXCLUSIVE if step.value else LockMode.SHARED
        return self.file.try_lock(mode, offset_bytes=step.cell, size_bytes=step.size)

    def map(self) -> None:
        self._mappings.append(self.file.map(CELL_COUNT))

    @property
    def mapping(self) -> Mapping:
        return self._mappings[-1]

    def unmap(self) -> None:
        if not self._leases:
            self._mappings.pop().unmap()

    def view(self, step: Step) -> bytes:
        lease = self.mapping.view(*_mapped(step))
        leased = bytes(lease.__enter__())
        self._leases.append(lease)
        return leased

    def end_view(self) -> None:
        self._leases.pop().__exit__(None, None, None)


_Actions: TypeAlias = dict[str, Callable[[_Session, Step], object]]


def _mapped(step: Step) -> tuple[int, int]:
    """Return size and offset of a range inside a mapping."""
    return min(step.size, CELL_COUNT - step.cell), step.cell


_ON_NAMES: _Actions = {
    "open to read": lambda session, step: session.open(step),
    "open": lambda session, step: session.open(step, OpenMode.EXISTING),
    "open new": lambda session, step: session.open(step, OpenMode.NEW),
    "open or make": lambda session, step: session.open(step, OpenMode.EXISTING_OR_NEW),
    "rename": lambda session, step: session.storage.rename(step.path, step.target),
    "link": lambda session, step: session.storage.link(step.path, step.target),
    "unlink": lambda session, step: session.storage.unlink(step.path),
    "kind": lambda session, step: session.storage.kind(step.path).value,
    "list": lambda session, step: session.storage.listdir("d" if step.value else "new"),
    "mkdir": lambda session, step: session.storage.mkdir(step.path),
    "rmdir": lambda session, step: session.storage.rmdir(step.path),
    "sync directory": lambda session, step: session.storage.sync_directory(step.path),
}
_ON_BYTES: _Actions = {
    "read": lambda session, step: session.read(step),
    "write": lambda session, step: session.write(step, step.value),
    "add": lambda session, step: session.write(step, session.last + step.value),
    "size": lambda session, step: session.file.size_bytes(),
    "truncate": lambda session, step: session.file.truncate(step.cell),
    "sync": lambda session, step: session.file.fsync(),
    "map": lambda session, step: session.map(),
}
_ON_LOCKS: _Actions = {
    "lock": lambda session, step: session.lock(step),
    "unlock": lambda session, step: session.file.unlock(offset_bytes=step.cell, size_bytes=step.size),
    "close": lambda session, step: session.file.close(),
}
_ON_MAPPINGS: _Actions = {
    "load": lambda session, step: session.mapping.load_u32(0),
    "store": lambda session, step: session.mapping.store_u32(0, step.value),
    "read mapped": lambda session, step: session.mapping.read(*_mapped(step)),
    "sync mapped": lambda session, step: session.mapping.msync(),
    "view": lambda session, step: session.view(step),
    "end view": lambda session, step: session.end_view(),
    "unmap": lambda session, step: session.unmap(),
}
_ACTIONS = _ON_NAMES | _ON_BYTES | _ON_LOCKS | _ON_MAPPINGS
_THEMES: tuple[tuple[tuple[str, ...], _Actions], ...] = (
    ((), _ON_NAMES),
    ((), _ON_NAMES | _ON_BYTES | _ON_LOCKS),
    (("open",), _ON_BYTES),
    (("open",), _ON_LOCKS),
    (("open", "map", "view"), _ON_BYTES | _ON_MAPPINGS),
    (("open",), _ACTIONS),
)
"""What random processes do at first, one after the other, and what they do then in every order."""


def program(steps: Sequence[Step]) -> Body:
    """Return a body that reports every answer; a step on what is not open is left out."""

    def run(storage: Storage, say: Say) -> None:
        session = _Session(storage)
        for step in steps:
            try:
                answer = _ACTIONS[step.kind](session, step)
            except IndexError:
                continue
            except StorageError as error:
                answer = error.reason
            if answer is not None:
                say("answered", answer)

    return run


def process(steps: Sequence[Step]) -> Body:
    """Return a body that opens the file of cells first."""
    return program([Step("open"), *steps])


def read_only_calls(name: str, count: int) -> Body:
    """Return a body of `count` calls that no other process depends on."""

    def run(storage: Storage, say: Say) -> None:
        for _ in range(count):
            storage.kind(name)

    return run


def world_of(bodies: Sequence[Body], files: dict[str, bytes] | None = None) -> World:
    """Return processes on a disk of a few files and the directory `d`."""
    image = DiskImage(files or {CELLS: bytes(CELL_COUNT)}, frozenset({"/", ".", "d"}))
    processes = tuple(Process(f"process {number}", body) for number, body in enumerate(bodies))
    return ProcessGroup(processes=processes, judge=Judge(lambda operations: None)).begin(Kernel.of(image), Progress())


@dataclass(frozen=True)
class Toys:
    """The files that are there at first, the steps that each process does in turn, and those that it does then."""

    start: tuple[str, ...]
    begin: tuple[Step, ...]
    programs: tuple[tuple[Step, ...], ...]

    def world(self) -> World:
        """Return the world after the processes have begun."""
        files = dict.fromkeys(self.start, bytes(CELL_COUNT))
        world = world_of([program((*self.begin, *steps)) for steps in self.programs], files)
        for process_index in world.enabled:
            for _ in self.begin:
                world.step(process_index)
        return world


def drawn_toys(seed: int) -> Toys:
    """Return random processes on a random disk: they share some paths and cells, and make calls of some kinds."""
    draw = random.Random(seed)
    start = draw.choice(STARTS)
    begin, actions = draw.choice(_THEMES)
    used = draw.sample([*actions], draw.randint(2, len(actions)))
    paths = [start[0], *draw.sample(PATHS, draw.randint(0, 2))]
    cells = draw.sample(range(CELL_COUNT), draw.randint(1, 2))
    value_max = draw.randint(1, 2)

    def step() -> Step:
        return Step(
            kind=draw.choice(used),
            cell=draw.choice(cells),
            value=draw.randint(0, value_max),
            size=draw.randint(1, 2),
            path=draw.choice(paths),
            target=draw.choice(paths),
        )

    programs = tuple(tuple(step() for _ in range(count)) for count in draw.choice(CALL_COUNTS))
    return Toys(start, tuple(Step(kind, path=start[0]) for kind in begin), programs)
