"""Replays a finding of the power explorer from its evidence alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.power_cuts.examination import SESSION, Bounds
from tornproof.harness.explorers.power_cuts.exploration import recovery_steps
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import (
    DIES,
    EVICTED,
    begin_session,
    evicted_of,
    second_process_group,
)
from tornproof.harness.explorers.power_cuts.trace import CrashPoint, bounds_of, points_of, trace_of
from tornproof.harness.search.crash_world import fail_sync
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk
from tornproof.harness.simulator.persistence.models import A, D, Model, choice_of, file_choice_of, model_named
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.world import World


def replay_power(case: TestCase, finding: Finding) -> Verdict:
    """Return INVALID when the finding's cuts violate the same property again, VALID when they violate none.

    UNKNOWN when they violate another one or cannot be tried: the run has other steps now, or the evidence is invalid.
    """
    judge = PowerJudge(case)
    try:
        violated = _violated(judge, finding.evidence)
    except (KeyError, TypeError, ValueError, IndexError):
        return Verdict.UNKNOWN
    finally:
        judge.close()
    return finding.verdict_of(violated)


def _violated(judge: PowerJudge, evidence: dict[str, Any]) -> set[str]:
    case, cuts = judge.case, evidence["cuts"]
    if not cuts:
        return _violated_by_session(case, evidence.get("origin") or {})
    point = _point_after(_points(case, evidence["origin"], model_named(evidence["model"])), evidence["step"])
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
    raise AssertionError("the last cut returns")


def _points(case: TestCase, origin: dict[str, Any], model: Model) -> Iterator[CrashPoint]:
    if not origin:
        yield from trace_of(case, model).points
    elif origin["life"] == 1:
        with _after_failed_sync(case, origin) as world:
            yield from points_of(world, model)
    else:
        process_group = second_process_group(case)
        yield from points_of(begin_session(process_group, *_left_by(case, origin)), model)
        process_group.close()


def _violated_by_session(case: TestCase, origin: dict[str, Any]) -> set[str]:
    if not origin:
        return {violation.property for violation in trace_of(case, A).violations}
    process_group = second_process_group(case)
    world = begin_session(process_group, *_left_by(case, origin))
    world.run(SESSION)
    process_group.close()
    return {violation.property for violation in world.progress.violations}


def _point_after(points: Iterable[CrashPoint], step: int) -> CrashPoint:
    for point in points:
        if point.step == step:
            return point
    raise ValueError(f"the run has no crash point after {step} calls")


@contextmanager
def _after_failed_sync(case: TestCase, origin: dict[str, Any]) -> Iterator[World]:
    """Run the first session up to a sync that fails; without other word, it wrote nothing."""
    process_group = case.process_group(fails=True)
    world = case.begin(process_group)
    while world.nodes[SESSION].depth < origin["failed_step"]:
        if world.nodes[SESSION].call is None:
            raise ValueError(f"the run ends before call {origin['failed_step']}")
        world.step(SESSION)
    fail_sync(world, file_choice_of(origin["written"]) if "written" in origin else None)
    yield world
    process_group.close()


def _left_by(case: TestCase, origin: dict[str, Any]) -> tuple[Kernel, Bounds]:
    """Return what the first session left: the kernel, with its page cache if it has one, and the commits in it."""
    if "cut_step" in origin:
        choice = choice_of(origin["choice"])
        model = model_named(choice.model)
        point = _point_after(trace_of(case, model).points, origin["cut_step"])
        return chosen_disk(point.kernel, model, choice).kernel(), point.bounds
    if "killed_step" in origin:
        point = _point_after(trace_of(case, D).points, origin["killed_step"])
        point.kernel.kill(SESSION)
        return point.kernel, point.bounds
    with _after_failed_sync(case, origin) as world:
        if not origin["process"].startswith(DIES):
            world.run(SESSION)
    world.kernel.kill(SESSION)
    evicted = evicted_of(world.kernel) if origin["process"].endswith(EVICTED) else world.kernel
    if evicted is None:
        raise ValueError("nothing was unwritten")
    return evicted, bounds_of(world.progress)
