"""What is explored: a target and a start state, the commits of a writer's sessions, and readers beside them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, ClassVar

from tornproof.harness.common.model_check import ModelCheck
from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED, COMMIT, SEEN, reader_session, writer_session
from tornproof.harness.simulator.process.observer import (
    Judge,
    NoVersionError,
    Operations,
    Progress,
    RejectedLaterError,
)
from tornproof.harness.simulator.process.simulated_process import Body, Process
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES, ProcessGroup, World

WRITER = "writer"


class NotExplorableError(NoVersionError):
    """The target fails in a fault-free run."""


class _RejectedLaterError(RejectedLaterError, NotExplorableError):
    """It rejects an operation that comes after a crash, where one that it needs is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """`count` readers of one style, each of which reads `read_count` times."""

    count: int = 1
    read_count: int = 1
    style: str = "fresh"


@dataclass(slots=True)
class _FaultFree:
    """What operations give in a fault-free run, by their numbers; valid for any test case with the same `basis`."""

    basis: tuple[object, ...]
    kernels: dict[Operations, Kernel] = field(default_factory=dict)
    seen: dict[Operations, Hashable] = field(default_factory=dict)
    differences: dict[Operations, str] = field(default_factory=dict)
    rejections: dict[Operations, str] = field(default_factory=dict)
    check: ModelCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """A target, its start state and processes; the sessions name operations by their index in `operations`.

    The second session comes after a crash. Without `start` the target makes its own start state.
    """

    __test__: ClassVar[bool] = False
    """Keeps pytest from collecting the class."""

    target: Target
    path: str
    operations: Sequence[Any]
    first_session: Operations
    second_session: Operations = ()
    readers: tuple[Readers, ...] = ()
    start: DiskImage | None = None
    rules: TraceRules = NO_RULES
    judge: type[Judge] = Judge
    goes_on: bool = False
    """Whether a writer that rejected a commit because a call failed is given the next one."""
    _fault_free: _FaultFree = field(default_factory=lambda: _FaultFree(()), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the fault-free results when this was made by `replace` from a test case with the same basis."""
        basis = (self.target, self.path, self.operations, self.start)
        if not self._fault_free.basis or not all(map(is_, self._fault_free.basis, basis)):
            object.__setattr__(self, "_fault_free", _FaultFree(basis))

    def expecting(self, sound: TestCase) -> TestCase:
        """Expect what `sound`, the same test case without the fault, has shown so far; returns this test case."""
        self._fault_free.kernels.update(sound._fault_free.kernels)
        self._fault_free.seen.update(sound._fault_free.seen)
        self._fault_free.differences.update(sound._fault_free.differences)
        self._fault_free.rejections.update(sound._fault_free.rejections)
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
        """Return what a reader sees after these commits, each in a fault-free session; raises NotExplorableError."""
        if operations not in self._fault_free.seen:
            reader = reader_session(self.target, self.path, 1)
            marks = self._run(self._after(operations).fork(), reader)
            kind, value = marks[-1]
            if kind != SEEN:
                raise NotExplorableError(f"after operations {list(operations)} a reader is rejected: {value}")
            self._fault_free.seen[operations] = value
        return self._fault_free.seen[operations]

    def rejection(self, operations: Operations) -> str:
        """Return the error that rejects the last of these in a fault-free session after a crash, "" if none does.

        A target rejects a key that is there, or the removal of one that is not; that must leave what was there.
        """
        try:
            self._after(operations)
        except RejectedLaterError:
            pass
        except NotExplorableError:
            return ""
        return self._fault_free.rejections.get(operations, "")

    def difference(self, operations: Operations) -> str:
        """Say how what these commits leave, each in a fault-free session, differs from the model; "" if it does not.

        There is none without a model, nor where the fault-free run is rejected, which `oracle` says.
        """
        known = self._fault_free.differences
        if operations not in known:
            try:
                known[operations] = self._model_check().difference(operations, self._after(operations).image())
            except NotExplorableError:
                known[operations] = ""
            except self.target.rejections:
                known[operations] = ""
        return known[operations]

    def process_group(
        self, operations: Operations | None = None, *, reads_first: bool = False, fails: bool = False
    ) -> ProcessGroup:
        """Return a writer of `operations`, else of the first session, and all readers. Close it after use.

        With `reads_first` the writer reports what it recovered; with `fails` calls may fail.
        """
        return ProcessGroup(
            processes=(
                self.writer(
                    self.first_session if operations is None else operations,
                    reads_first=reads_first,
                    goes_on=fails and self.goes_on,
                ),
                *self.reader_processes(),
            ),
            judge=self.judge(self.oracle, difference=self.difference, rejection=self.rejection, fails=fails),
            rules=self.rules,
        )

    def writer(
        self, operations: Operations, *, name: str = WRITER, reads_first: bool = False, goes_on: bool = False
    ) -> Process:
        """Return a writer process that commits these operations."""
        commits = [(number, self.operations[number]) for number in operations]
        body = writer_session(self.target, self.path, commits, reads_first=reads_first, goes_on=goes_on)
        return Process(name, body)

    def reader_processes(self) -> list[Process]:
        """Return all readers."""
        readers = [each for each in self.readers for _ in range(each.count)]
        return [
            Process(f"reader {number}", reader_session(self.target, self.path, each.read_count, each.style))
            for number, each in enumerate(readers, start=1)
        ]

    def begin(self, process_group: ProcessGroup) -> World:
        """Return the world at the start state."""
        return process_group.begin(self.kernel(), Progress())

    def _model_check(self) -> ModelCheck:
        known = self._fault_free
        if known.check is None:
            known.check = ModelCheck(self.target, self.operations, self.kernel().image(), self.path)
        return known.check

    def _after(self, operations: Operations) -> Kernel:
        if not operations:
            return self.kernel()
        if operations not in self._fault_free.kernels:
            kernel = self._after(operations[:-1]).fork()
            number = operations[-1]
            marks = self._run(
                kernel, writer_session(self.target, self.path, [(number, self.operations[number])], reads_first=False)
            )
            if marks[-1][0] != ACKNOWLEDGED:
                error = str(marks[-1][1])
                rejected = f"operation {number} is rejected in a fault-free run: {error}"
                if not self._comes_later(operations) or marks[-2:-1] != [(COMMIT, number)]:
                    raise NotExplorableError(rejected)
                self._fault_free.rejections[operations] = error
                if number not in operations[:-1]:
                    raise _RejectedLaterError(rejected)
                kernel = self._after(operations[:-1])
            self._fault_free.kernels[operations] = kernel
        return self._fault_free.kernels[operations]

    def _comes_later(self, operations: Operations) -> bool:
        """Say whether the last one can only come after a crash: it is done again, or in another state than at first."""
        *others, number = operations
        is_repeated = number in self.first_session and number in self.second_session
        return number in others or (is_repeated and operations != self.first_session[: len(operations)])

    def _run(self, kernel: Kernel, body: Body) -> list[tuple[str, Hashable]]:
        """Run one body to its end on a kernel, and return what it reported."""
        process = Process("fault-free", body)
        process_group = ProcessGroup(processes=(process,), judge=Judge(lambda operations: None))
        world = World(process_group, kernel, [process.root], Progress())
        marks = list(process.root.marks)
        while world.nodes[0].call is not None:
            world.step(0)
            marks += world.nodes[0].marks
        end = world.nodes[0]
        process.close()
        kernel.kill(0)
        if end.outcome:
            ends = "does not end" if end.is_endless else "ends with"
            raise NotExplorableError(f"a fault-free process {ends}: {end.outcome}")
        return [(mark.kind, mark.value) for mark in marks]
