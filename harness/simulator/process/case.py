"""What is explored: a target and a start state, the commits of one writer's lives, and readers beside them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import is_
from typing import Any, ClassVar

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.bodies import reader_session, writer_session
from tornproof.harness.simulator.process.observer import Judge, Operations, Progress
from tornproof.harness.simulator.process.simulated_process import Body, Process
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES, ProcessGroup, World

WRITER = "writer"


class NotExplorableError(Exception):
    """The target fails by itself, where nothing disturbs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Readers of one style, each of which looks so often."""

    count: int = 1
    read_count: int = 1
    style: str = "fresh"


@dataclass(slots=True)
class _FaultFree:
    """What comes of operations that nothing disturbs, by number: it follows from the basis, or was handed over."""

    basis: tuple[object, ...]
    kernels: dict[Operations, Kernel] = field(default_factory=dict)
    seen: dict[Operations, Hashable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """One situation: `operations` are numbered from 0 on; `first_session` and `second_session` say who commits which.

    The second life is one after a crash. Without `start` the target makes its own start state.
    """

    __test__: ClassVar[bool] = False
    """Keeps pytest from collecting the class."""

    target: Target
    path: str
    operations: tuple[Any, ...]
    first_session: Operations
    second_session: Operations = ()
    readers: tuple[Readers, ...] = ()
    start: DiskImage | None = None
    rules: TraceRules = NO_RULES
    __test__ = False
    """pytest is not to take it for a class of tests."""
    _fault_free: _FaultFree = field(default_factory=lambda: _FaultFree(()), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep what is known where this replaces a situation that differs in who takes part alone."""
        basis = (self.target, self.path, self.operations, self.start)
        if not self._fault_free.basis or not all(map(is_, self._fault_free.basis, basis)):
            object.__setattr__(self, "_fault_free", _FaultFree(basis))

    def expecting(self, sound: TestCase) -> TestCase:
        """Return this situation, which from now on expects what another one, without its fault, has learned so far."""
        self._fault_free.kernels.update(sound._fault_free.kernels)
        self._fault_free.seen.update(sound._fault_free.seen)
        return self

    def kernel(self) -> Kernel:
        """Return the start state; do not change it. Raises NotExplorableError."""
        if () not in self._fault_free.kernels:
            kernel = Kernel() if self.start is None else Kernel.of(self.start)
            if self.start is None:
                self._run(kernel, lambda storage, say: self.target.create(storage, self.path))
                kernel = Kernel.of(kernel.image())
            self._fault_free.kernels[()] = kernel
        return self._fault_free.kernels[()]

    def oracle(self, operations: Operations) -> Hashable:
        """Return what a reader sees after these commits, each in a life of its own that nothing disturbs.

        Raises NotExplorableError.
        """
        if operations not in self._fault_free.seen:
            reader = reader_session(self.target, self.path, 1)
            marks = self._run(self._after(operations).fork(), reader)
            kind, value = marks[-1]
            if kind != "seen":
                raise NotExplorableError(f"after operations {list(operations)} a reader is refused: {value}")
            self._fault_free.seen[operations] = value
        return self._fault_free.seen[operations]

    def process_group(
        self, operations: Operations | None = None, *, looks: bool = False, fails: bool = False
    ) -> ProcessGroup:
        """Return the writer's first life, or one of these operations, and all readers. Close it after use.

        `looks` lets the writer say what it recovered, `fails` tells the judge that calls may fail.
        """
        readers = [each for each in self.readers for _ in range(each.count)]
        return ProcessGroup(
            processes=(
                self.writer(self.first_session if operations is None else operations, looks=looks),
                *(
                    Process(f"reader {number}", reader_session(self.target, self.path, each.read_count, each.style))
                    for number, each in enumerate(readers, start=1)
                ),
            ),
            judge=Judge(self.oracle, fails=fails),
            rules=self.rules,
        )

    def writer(self, operations: Operations, *, looks: bool = False) -> Process:
        """Return a life of the writer."""
        commits = [(number, self.operations[number]) for number in operations]
        return Process(WRITER, writer_session(self.target, self.path, commits, looks=looks))

    def begin(self, process_group: ProcessGroup) -> World:
        """Return the world at the start state."""
        return process_group.begin(self.kernel(), Progress())

    def _after(self, operations: Operations) -> Kernel:
        if not operations:
            return self.kernel()
        if operations not in self._fault_free.kernels:
            kernel = self._after(operations[:-1]).fork()
            number = operations[-1]
            marks = self._run(
                kernel, writer_session(self.target, self.path, [(number, self.operations[number])], looks=False)
            )
            if marks[-1][0] != "acknowledged":
                raise NotExplorableError(f"operation {number} is refused where nothing disturbs it: {marks[-1][1]}")
            self._fault_free.kernels[operations] = kernel
        return self._fault_free.kernels[operations]

    def _run(self, kernel: Kernel, body: Body) -> list[tuple[str, Hashable]]:
        """Run one program to its end on a kernel, and return what it said."""
        process = Process("undisturbed", body)
        process_group = ProcessGroup(processes=(process,), judge=Judge(lambda operations: None))
        world = World(process_group, kernel, [process.root], Progress())
        marks = list(process.root.marks)
        while world.nodes[0].call is not None:
            world.step(0)
            marks += world.nodes[0].marks
        outcome = world.nodes[0].outcome
        process.close()
        kernel.kill(0)
        if outcome:
            raise NotExplorableError(f"a process that nothing disturbs ends with {outcome}")
        return [(mark.kind, mark.value) for mark in marks]
