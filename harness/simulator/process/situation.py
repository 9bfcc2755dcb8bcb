"""What is explored: a target and a start state, the commits of one writer's lives, and readers beside them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.client import Client, Program
from tornproof.harness.simulator.process.observer import Judge, Operations, Progress
from tornproof.harness.simulator.process.programs import reader_life, writer_life
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES, Cast, World

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
class _Undisturbed:
    """What comes of operations that nothing disturbs, by number: it follows from the basis, or was handed over."""

    basis: tuple[object, ...]
    kernels: dict[Operations, Kernel] = field(default_factory=dict)
    seen: dict[Operations, Hashable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One situation: `operations` are numbered from 0 on; `first_life` and `second_life` say who commits which.

    The second life is one after a crash. Without `start` the target makes its own start state.
    """

    target: Target
    path: str
    operations: tuple[Any, ...]
    first_life: Operations
    second_life: Operations = ()
    readers: tuple[Readers, ...] = ()
    start: DiskImage | None = None
    rules: TraceRules = NO_RULES
    _undisturbed: _Undisturbed = field(default_factory=lambda: _Undisturbed(()), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep what is known where this replaces a situation that differs in who takes part alone."""
        basis = (self.target, self.path, self.operations, self.start)
        if not self._undisturbed.basis or not all(map(is_, self._undisturbed.basis, basis)):
            object.__setattr__(self, "_undisturbed", _Undisturbed(basis))

    def expecting(self, sound: Situation) -> Situation:
        """Return this situation, which from now on expects what another one, without its fault, has learned so far."""
        self._undisturbed.kernels.update(sound._undisturbed.kernels)
        self._undisturbed.seen.update(sound._undisturbed.seen)
        return self

    def kernel(self) -> Kernel:
        """Return the start state; do not change it. Raises NotExplorableError."""
        if () not in self._undisturbed.kernels:
            kernel = Kernel() if self.start is None else Kernel.of(self.start)
            if self.start is None:
                self._run(kernel, lambda storage, say: self.target.create(storage, self.path))
                kernel = Kernel.of(kernel.image())
            self._undisturbed.kernels[()] = kernel
        return self._undisturbed.kernels[()]

    def oracle(self, operations: Operations) -> Hashable:
        """Return what a reader sees after these commits, each in a life of its own that nothing disturbs.

        Raises NotExplorableError.
        """
        if operations not in self._undisturbed.seen:
            reader = reader_life(self.target, self.path, 1)
            marks = self._run(self._after(operations).fork(), reader)
            kind, value = marks[-1]
            if kind != "seen":
                raise NotExplorableError(f"after operations {list(operations)} a reader is refused: {value}")
            self._undisturbed.seen[operations] = value
        return self._undisturbed.seen[operations]

    def cast(self, operations: Operations | None = None, *, looks: bool = False, fails: bool = False) -> Cast:
        """Return the writer's first life, or one of these operations, and all readers. Close it after use.

        `looks` lets the writer say what it recovered, `fails` tells the judge that calls may fail.
        """
        readers = [each for each in self.readers for _ in range(each.count)]
        return Cast(
            clients=(
                self.writer(self.first_life if operations is None else operations, looks=looks),
                *(
                    Client(f"reader {number}", reader_life(self.target, self.path, each.read_count, each.style))
                    for number, each in enumerate(readers, start=1)
                ),
            ),
            judge=Judge(self.oracle, fails=fails),
            rules=self.rules,
        )

    def writer(self, operations: Operations, *, looks: bool = False) -> Client:
        """Return a life of the writer."""
        commits = [(number, self.operations[number]) for number in operations]
        return Client(WRITER, writer_life(self.target, self.path, commits, looks=looks))

    def begin(self, cast: Cast) -> World:
        """Return the world at the start state."""
        return cast.begin(self.kernel(), Progress())

    def _after(self, operations: Operations) -> Kernel:
        if not operations:
            return self.kernel()
        if operations not in self._undisturbed.kernels:
            kernel = self._after(operations[:-1]).fork()
            number = operations[-1]
            marks = self._run(
                kernel, writer_life(self.target, self.path, [(number, self.operations[number])], looks=False)
            )
            if marks[-1][0] != "acknowledged":
                raise NotExplorableError(f"operation {number} is refused where nothing disturbs it: {marks[-1][1]}")
            self._undisturbed.kernels[operations] = kernel
        return self._undisturbed.kernels[operations]

    def _run(self, kernel: Kernel, program: Program) -> list[tuple[str, Hashable]]:
        """Run one program to its end on a kernel, and return what it said."""
        client = Client("undisturbed", program)
        cast = Cast(clients=(client,), judge=Judge(lambda operations: None))
        world = World(cast, kernel, [client.root], Progress())
        marks = list(client.root.marks)
        while world.nodes[0].call is not None:
            world.step(0)
            marks += world.nodes[0].marks
        outcome = world.nodes[0].outcome
        client.close()
        kernel.kill(0)
        if outcome:
            raise NotExplorableError(f"a process that nothing disturbs ends with {outcome}")
        return [(mark.kind, mark.value) for mark in marks]
