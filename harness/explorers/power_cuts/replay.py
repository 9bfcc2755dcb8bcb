"""Replays a finding of the power explorer from its evidence alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.verdict import OF_ANOTHER_RUN, Finding, Verdict, nearest_first, summed_up
from tornproof.harness.counterexamples.moves import CRASHES, Moves, moves_before_cuts
from tornproof.harness.explorers.power_cuts.examination import SESSION, Bounds
from tornproof.harness.explorers.power_cuts.exploration import recovery_steps, said_of
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

ORIGIN_STEPS = ("failed_step", "killed_step", "cut_step")
"""What says where something happened before the last session."""


def replay_power(case: TestCase, finding: Finding) -> Verdict:
    """Return INVALID when the finding's cuts violate the same property again, VALID when they violate none.

    The first one comes before the same call to the same file, wherever that is now, and before each of several. UNKNOWN
    when they violate another property or cannot be tried: there is no such call any more, or the evidence is invalid.
    """
    judge = PowerJudge(case)
    try:
        places = _before_same_calls(case, finding.evidence)
        return summed_up(verdict for moves in places for verdict in _replays(judge, finding, moves))
    except OF_ANOTHER_RUN:
        return Verdict.UNKNOWN
    finally:
        judge.close()


def _before_same_calls(case: TestCase, evidence: Mapping[str, Any]) -> Iterator[Moves]:
    """Yield the moves before each call of both sessions that is like the finding's, the nearest first."""
    if "step" not in evidence or not evidence["cuts"]:
        yield moves_before_cuts(evidence) if "step" in evidence else []
        return
    for changed in _at_same_origins(case, evidence):
        *before, (_, step) = moves_before_cuts(changed)
        for place in _places(case, before, evidence, step):
            yield [*before, (WRITER_INDEX, place)]


def _at_same_origins(case: TestCase, evidence: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the evidence with what came before the last session at each call that is like the finding's."""
    origin = evidence.get("origin") or {}
    name = next((name for name in ORIGIN_STEPS if name in origin), None)
    if name is None:
        yield evidence
        return
    for place in _places(case, [], origin, count_of(origin[name])):
        # Where no session has ended, steps are counted from the beginning.
        later = place - origin[name] if origin["session"] == 1 else 0
        yield {**evidence, "step": count_of(evidence["step"]) + later, "origin": {**origin, name: place}}


def _places(case: TestCase, before: Moves, wanted: Mapping[str, Any], step: int) -> list[int]:
    """Return after how many steps of a session the next call is the wanted one; `step` for older evidence."""
    if "step_kind" not in wanted:
        return [step]
    places = list[int]()
    with _world_after(case, before, A) as world:
        for place in itertools.count():
            call = world.nodes[SESSION].call
            if said_of(call).items() <= wanted.items():
                places.append(place)
            if call is None:
                break
            world.step(SESSION)
    return nearest_first(places, step)


def _replays(judge: PowerJudge, finding: Finding, moves: Moves) -> Iterator[Verdict | None]:
    """Yield the verdicts on a finding whose cuts come after these moves; None if they cannot."""
    case, cuts = judge.case, finding.evidence["cuts"]
    try:
        if not cuts:
            with _world_after(case, moves[:-1], A) as world:
                world.run(SESSION)
                yield finding.verdict_of({violation.property for violation in world.progress.violations})
            return
        with _world_after(case, moves, model_named(finding.evidence["model"])) as world:
            kernel, bounds = world.kernel, bounds_of(world.progress)
    except OF_ANOTHER_RUN:
        yield None
    else:
        yield from _cuts(judge, finding, kernel, bounds, cuts)


def _cuts(
    judge: PowerJudge, finding: Finding, kernel: Kernel, bounds: Bounds, cuts: list[Any]
) -> Iterator[Verdict | None]:
    """Yield the verdicts after a cut, and others after each call of the recovery that is like the finding's."""
    cut, *later = cuts
    try:
        choice = choice_of(cut["choice"])
        model = model_named(choice.model)
        disk = chosen_disk(kernel, model, choice)
        verdict, facts = judge.judge(disk, bounds)
        if not later:
            yield finding.verdict_of({verdict.violated} - {""})
            return
        if not model.everything_dies:
            bounds = Bounds(verdict.found, len(verdict.found))
        kernels = _kernels_after(later[0], recovery_steps(disk, facts.recovery, model))
    except OF_ANOTHER_RUN:
        yield None
    else:
        for each in kernels:
            yield from _cuts(judge, finding, each, bounds, later)


def _kernels_after(cut: Mapping[str, Any], recovery: list[tuple[int, Call, Kernel]]) -> list[Kernel]:
    """Return the kernel after each call that the cut may come after, the nearest first; older evidence counts them."""
    step = count_of(cut["step"] - 1)
    if "step_kind" not in cut:
        return [recovery[step][2]]
    places = (place for place, (_, call, _) in enumerate(recovery) if said_of(call).items() <= cut.items())
    return [recovery[place][2] for place in nearest_first(places, step)]


@contextmanager
def _world_after(case: TestCase, moves: Moves, model: Model) -> Iterator[World]:
    """Make the moves of a writer alone, which begins a second session after each crash; raises ValueError."""
    first = case.process_group(fails=_fails_in_session(moves))
    second, failing = second_process_group(case), second_process_group(case, fails=True)
    world = case.begin(first)
    for number, move in enumerate(moves, start=1):
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
                group = failing if _fails_in_session(moves[number:]) else second
                world = begin_session(group, _left_by(world.kernel, move), bounds_of(world.progress))
            case _:
                raise ValueError(f"not a move: {move!r}")
    yield world
    for group in (first, second, failing):
        group.close()


def _fails_in_session(moves: Moves) -> bool:
    """Return whether a call fails in the session that has these moves first."""
    return any(move[0] == "fail" for move in itertools.takewhile(lambda move: move[0] not in CRASHES, moves))


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
