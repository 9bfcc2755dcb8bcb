"""Replays a finding of the power explorer from its evidence alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.verdict import Finding, Verdict, summed_up
from tornproof.harness.counterexamples.moves import Moves, moves_before_cuts
from tornproof.harness.explorers.power_cuts.examination import SESSION, Bounds
from tornproof.harness.explorers.power_cuts.exploration import recovery_steps
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import begin_session, evicted_of, second_process_group
from tornproof.harness.explorers.power_cuts.trace import bounds_of, sync_whole_file
from tornproof.harness.search.crash_world import WRITER_INDEX, fail_call
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk
from tornproof.harness.simulator.persistence.models import A, Model, choice_of, file_choice_of, model_named
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.world import World

UNUSABLE = (KeyError, TypeError, ValueError, IndexError)
"""What evidence that is not of this run raises."""


def replay_power(case: TestCase, finding: Finding) -> Verdict:
    """Return INVALID when the finding's cuts violate the same property again, VALID when they violate none.

    The first one comes before the same call to the same file, wherever that is now, and before each of several. UNKNOWN
    when they violate another property or cannot be tried: there is no such call any more, or the evidence is invalid.
    """
    judge = PowerJudge(case)
    try:
        places = _before_same_calls(case, finding.evidence)
        return summed_up(_replay(judge, finding, moves) for moves in places)
    except UNUSABLE:
        return Verdict.UNKNOWN
    finally:
        judge.close()


def _before_same_calls(case: TestCase, evidence: Mapping[str, Any]) -> list[Moves]:
    """Return the moves before each call of the last session that is like the finding's, the nearest first."""
    moves = moves_before_cuts(evidence) if "step" in evidence else []
    if not moves or not evidence["cuts"] or "step_kind" not in evidence:
        return [moves]
    *before, (_, step) = moves
    places = list[int]()
    with _world_after(case, before, A) as world:
        for place in itertools.count():
            call = world.nodes[SESSION].call
            if evidence["step_kind"] == (call and call.kind.value) and evidence["path"] == (call and call.path):
                places.append(place)
            if call is None:
                break
            world.step(SESSION)
    return [[*before, (WRITER_INDEX, place)] for place in sorted(places, key=lambda place: abs(place - step))]


def _replay(judge: PowerJudge, finding: Finding, moves: Moves) -> Verdict | None:
    """Return the verdict on a finding whose cuts come after these moves; None if they cannot."""
    try:
        return finding.verdict_of(_violated(judge, finding.evidence, moves))
    except UNUSABLE:
        return None


def _violated(judge: PowerJudge, evidence: Mapping[str, Any], moves: Moves) -> set[str]:
    case, cuts = judge.case, evidence["cuts"]
    if not cuts:
        with _world_after(case, moves[:-1], A) as world:
            world.run(SESSION)
            return {violation.property for violation in world.progress.violations}
    with _world_after(case, moves, model_named(evidence["model"])) as world:
        kernel, bounds = world.kernel, bounds_of(world.progress)
    for number, cut in enumerate(cuts, start=1):
        choice = choice_of(cut["choice"])
        model = model_named(choice.model)
        disk = chosen_disk(kernel, model, choice)
        verdict, facts = judge.judge(disk, bounds)
        if number == len(cuts):
            return {verdict.violated} - {""}
        if not model.everything_dies:
            bounds = Bounds(verdict.found, len(verdict.found))
        # No cut of a recovery comes before its first step.
        kernel = recovery_steps(disk, facts.recovery, model)[count_of(cuts[number]["step"] - 1)][2]
    raise AssertionError("the last cut returns")


@contextmanager
def _world_after(case: TestCase, moves: Moves, model: Model) -> Iterator[World]:
    """Make the moves of a writer alone, which begins a second session after each crash; raises ValueError."""
    first, second = case.process_group(fails=("fail",) in [move[:1] for move in moves]), second_process_group(case)
    world = case.begin(first)
    for move in moves:
        match move:
            case [int(), int(count)]:
                for _ in range(count):
                    call = _next_call(world)
                    world.step(SESSION)
                    sync_whole_file(world.kernel, call, model)
            case ["fail", *written]:
                _next_call(world)
                fail_call(world, written=file_choice_of(written[0]) if written else None)
            case ["finish"]:
                world.run(SESSION)
            case ["kill"] | ["evict"] | ["power", _, _]:
                world = begin_session(second, _left_by(world.kernel, move), bounds_of(world.progress))
            case _:
                raise ValueError(f"not a move: {move!r}")
    yield world
    first.close()
    second.close()


def _next_call(world: World) -> Call:
    call = world.nodes[SESSION].call
    if call is None:
        raise ValueError("the session has ended before")
    return call


def _left_by(kernel: Kernel, crash: tuple[Any, ...]) -> Kernel:
    """Return what a crash leaves: the kernel, with its page cache if it has one."""
    match crash:
        case ["power", model, choice]:
            return chosen_disk(kernel, model_named(model), choice).kernel()
        case ["evict"]:
            evicted = evicted_of(kernel)
            if evicted is None:
                raise ValueError("nothing was unwritten")
            kernel = evicted
    kernel.kill(SESSION)
    return kernel
