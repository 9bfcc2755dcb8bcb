"""Which single sync would close a finding: one is put into the trace after each later call, and tried."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tornproof.harness.common.verdict import HasTime
from tornproof.harness.explorers.recorded.effects import Effect, lost_effects
from tornproof.harness.explorers.recorded.states import State, enumerate_points, points_of
from tornproof.harness.recording.replaying import Machine
from tornproof.harness.recording.steps import NotFollowedError, Step, StepKind, Trace, insert, parts_of
from tornproof.harness.simulator.persistence.legal_disks import Disk, allows_disk, chosen_disk
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import model_named

POSITIONS_MAX = 32
STATES_MAX = 64
OF_CONTENT = frozenset({StepKind.WRITE, StepKind.TRUNCATE})
Accepts = Callable[[Disk, Machine], bool]
"""Says whether the checker accepts a disk with what a machine has acknowledged."""


class Mend(NamedTuple):
    """A sync that closes a finding: what it syncs, after which step, and how many states were then checked."""

    sync: Step
    after: int
    checked: int


def mend(
    trace: Trace,
    state: State,
    disk: Disk,
    lost: Sequence[Effect],
    accepts: Accepts,
    limits: Limits,
    has_time: HasTime,
) -> tuple[Mend | None, int]:
    """Return the first sync after which the state cannot be left any more and no state of its kind is rejected.

    Also returns how many syncs were tried.
    """
    tried = 0
    for sync, after in _candidates(trace.steps, state, lost):
        if not has_time():
            break
        try:
            checked = _closes(trace, state, disk, lost, sync, after, accepts, limits)
        except NotFollowedError:
            # By then the path or the handle leads to nothing, because it was renamed, removed or closed.
            continue
        tried += 1
        if checked is not None:
            return Mend(sync, after, checked), tried
    return None, tried


def _candidates(steps: Sequence[Step], state: State, lost: Sequence[Effect]) -> Iterator[tuple[Step, int]]:
    """Yield syncs of each lost effect's file or directory, after it and after each later call before the crash.

    The program cannot sync in the middle of a write.
    """
    for effect in lost:
        step = steps[effect.step]
        ends = (after for after in range(effect.step, state.step) if parts_of(steps, after)[-1] == after)
        for after in islice(ends, POSITIONS_MAX):
            for sync in syncs_of(step):
                yield sync, after


def syncs_of(step: Step) -> Iterator[Step]:
    """Yield the syncs that make an effect durable."""
    if step.kind in OF_CONTENT:
        yield Step(kind=StepKind.FSYNC, call=step.call, name="fsync", path=step.path, handle=step.handle)
    else:
        for path in dict.fromkeys(filter(None, (step.target, step.path))):
            directory = posixpath.dirname(path) or "."
            yield Step(kind=StepKind.SYNC_DIRECTORY, call=step.call, name="fsync", path=directory)


def _closes(
    trace: Trace,
    state: State,
    disk_left: Disk,
    lost: Sequence[Effect],
    sync: Step,
    after: int,
    accepts: Accepts,
    limits: Limits,
) -> int | None:
    """Return how many states were checked if the sync closes the finding, else None."""
    model = model_named(state.choice.model)
    steps = [*trace.steps]
    insert(steps, after + 1, sync)
    cause = {effect.step + (effect.step > after) for effect in lost}
    points = {point.step: point for point in points_of(trace, model, steps[: state.step + 1])}
    at = max(points)
    if at == state.step + 1 and allows_disk(points[at].machine.kernel, model, disk_left, limits):
        return None
    concerned = [point for point in points.values() if point.step > lost[0].step]
    found = enumerate_points(concerned, model, limits, STATES_MAX)
    for other in found.states:
        machine = points[other.step].machine
        disk = chosen_disk(machine.kernel, model, other.choice)
        is_alike = cause == {effect.step for effect in lost_effects(steps, machine, model, other.choice, disk)}
        if is_alike and not accepts(disk, machine):
            return None
    return len(found.states)
