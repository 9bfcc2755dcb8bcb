"""The trace of the writer's first session as the points at which a crash can come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tornproof.harness.explorers.power_cuts.examination import Bounds
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.models import Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Progress, Violation
from tornproof.harness.simulator.process.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """The state after `step` calls; `before` is the last one that can change what a crash leaves, `next` the next.

    `since` are the calls like `before` since the operation began, or since the last acknowledgement.
    """

    step: int
    kernel: Kernel
    bounds: Bounds
    before: Call | None
    next: Call | None
    since: tuple[Call, ...] = ()

    @property
    def operation(self) -> int | None:
        """The number of the operation that is under way."""
        return self.bounds.operations[-1] if self.bounds.low < len(self.bounds.operations) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All crash points of a session, the number of its calls, and the violations of the fault-free run."""

    points: tuple[CrashPoint, ...]
    step_count: int
    violations: tuple[Violation, ...]


def bounds_of(progress: Progress) -> Bounds:
    """Return which commits a crash may leave, by what was acknowledged and what was begun."""
    return Bounds(progress.begun, len(progress.committed), progress.absences)


class Traces:
    """The first session of a test case as traced under each model."""

    def __init__(self, case: TestCase) -> None:
        """Run nothing yet."""
        self.case = case
        self._known: dict[bool, Trace] = {}

    def of(self, model: Model) -> Trace:
        """Return the trace under a model; raises NotExplorableError."""
        key = model.syncs_whole_files
        if key not in self._known:
            self._known[key] = trace_of(self.case, model)
        return self._known[key]


def trace_of(case: TestCase, model: Model) -> Trace:
    """Trace the first session; raises NotExplorableError."""
    process_group = case.process_group()
    try:
        world = case.begin(process_group)
        points = tuple(points_of(world, model))
        return Trace(points=points, step_count=world.nodes[0].depth, violations=world.progress.violations)
    finally:
        process_group.close()


def points_of(world: World, model: Model) -> Iterator[CrashPoint]:
    """Let the writer go on to its end, and yield every state from which a crash may leave different disks."""
    bounds = bounds_of(world.progress)
    before: Call | None = None
    since: list[Call] = []
    yield _point(world, bounds, None, since)
    while world.nodes[0].call is not None:
        call = world.call(0)
        world.step(0)
        sync_whole_file(world.kernel, call, model)
        following = bounds_of(world.progress)
        # A writer that waits or only repeats itself has been where it is.
        matters = call.kind in STEPS and (world.nodes[0].goes_on or world.nodes[0].call is None)
        if matters:
            before = call
            since.append(call)
        if matters or following != bounds:
            if following != bounds:
                since = []
            bounds = following
            yield _point(world, bounds, before, since)


def sync_whole_file(kernel: Kernel, call: Call, model: Model) -> None:
    """After a sync of a part of a file, sync all of it where the model says so."""
    if call.kind is CallKind.MSYNC and model.syncs_whole_files:
        file = kernel.mappings[0, call.mapping].file
        kernel.files[file] = kernel.files[file].synced()


def _point(world: World, bounds: Bounds, before: Call | None, since: list[Call]) -> CrashPoint:
    node = world.nodes[0]
    return CrashPoint(
        step=node.depth,
        kernel=world.kernel.fork(),
        bounds=bounds,
        before=before,
        next=node.call,
        since=tuple(since),
    )
