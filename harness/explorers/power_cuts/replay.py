"""A finding of the power explorer, seen again from its evidence alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.power_cuts.course import CrashPoint, bounds_of, course_of, points_of
from tornproof.harness.explorers.power_cuts.examination import Bounds
from tornproof.harness.explorers.power_cuts.exploration import recovery_steps
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.lives import (
    DIES,
    EVICTED,
    LIFE,
    begin_life,
    evicted_of,
    second_cast,
)
from tornproof.harness.search.crash_world import fail_sync
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk
from tornproof.harness.simulator.persistence.models import A, D, Model, choice_of, model_named
from tornproof.harness.simulator.process.situation import Situation
from tornproof.harness.simulator.process.world import World


def replay_power(situation: Situation, finding: Finding) -> Verdict:
    """Return INVALID when the finding's cuts violate the same property again, VALID when they violate none.

    UNKNOWN when it cannot be tried: the run has other steps now, or the evidence is none.
    """
    judge = PowerJudge(situation)
    try:
        violated = _violated(judge, finding.evidence)
    except (KeyError, TypeError, ValueError, IndexError):
        return Verdict.UNKNOWN
    finally:
        judge.close()
    if not violated:
        return Verdict.VALID
    return Verdict.INVALID if finding.property in violated else Verdict.UNKNOWN


def _violated(judge: PowerJudge, evidence: dict[str, Any]) -> set[str]:
    situation, cuts = judge.situation, evidence["cuts"]
    if not cuts:
        return _violated_by_life(situation, evidence.get("origin") or {})
    point = _at(_points(situation, evidence["origin"], model_named(evidence["model"])), evidence["step"])
    kernel, bounds = point.kernel, point.bounds
    for number, cut in enumerate(cuts, start=1):
        choice = choice_of(cut["choice"])
        model = model_named(choice.model)
        disk = chosen_disk(kernel, model, choice)
        verdict, facts = judge.judge(disk, bounds)
        if number == len(cuts):
            return {verdict.violated} - {""}
        if not model.everything_dies:
            bounds = Bounds(verdict.found, len(verdict.found))
        kernel = recovery_steps(disk, facts.recovery, model)[cuts[number]["step"] - 1][2]
    raise AssertionError("there is a last cut")


def _points(situation: Situation, origin: dict[str, Any], model: Model) -> Iterator[CrashPoint]:
    if not origin:
        yield from course_of(situation, model).points
    elif origin["life"] == 1:
        with _after_failed_sync(situation, origin["failed_step"]) as world:
            yield from points_of(world, model)
    else:
        cast = second_cast(situation)
        yield from points_of(begin_life(cast, *_left_by(situation, origin)), model)
        cast.close()


def _violated_by_life(situation: Situation, origin: dict[str, Any]) -> set[str]:
    if not origin:
        return {violation.property for violation in course_of(situation, A).violations}
    cast = second_cast(situation)
    world = begin_life(cast, *_left_by(situation, origin))
    world.run(LIFE)
    cast.close()
    return {violation.property for violation in world.progress.violations}


def _at(points: Iterable[CrashPoint], step: int) -> CrashPoint:
    for point in points:
        if point.step == step:
            return point
    raise ValueError(f"the run has no crash point after {step} calls")


@contextmanager
def _after_failed_sync(situation: Situation, step: int) -> Iterator[World]:
    """Run the first life up to a sync that fails."""
    cast = situation.cast(fails=True)
    world = situation.begin(cast)
    while world.nodes[LIFE].depth < step:
        world.step(LIFE)
    fail_sync(world)
    yield world
    cast.close()


def _left_by(situation: Situation, origin: dict[str, Any]) -> tuple[Kernel, Bounds]:
    """Return what the first life left: its page cache, and the commits that may be in it."""
    if "killed_step" in origin:
        point = _at(course_of(situation, D).points, origin["killed_step"])
        point.kernel.kill(LIFE)
        return point.kernel, point.bounds
    with _after_failed_sync(situation, origin["failed_step"]) as world:
        if not origin["process"].startswith(DIES):
            world.run(LIFE)
    world.kernel.kill(LIFE)
    evicted = evicted_of(world.kernel) if origin["process"].endswith(EVICTED) else world.kernel
    if evicted is None:
        raise ValueError("nothing was unwritten")
    return evicted, bounds_of(world.progress)
