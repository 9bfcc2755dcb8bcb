"""Hypothesis strategies for the simulator: scenarios that can be executed, and their traces."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

from tornproof.harness.explorers.random.seeded_trace import Moves
from tornproof.harness.search.crash_world import FAILING, WRITER_INDEX, Sessions
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import POWER_MODELS, Model
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.scenario import FORMAT, At, Commit, Explorer, ReaderGroup, Rows, Scenario, Style

COMMITS_MAX, READERS_MAX, TRANSITIONS_MAX, TRANSITION_MAX, HOURS = 3, 2, 5, 120, 3
DISKS_TRIED_MAX = 64
KINDS = ("append", "merge", "new", "several", "rewrite", "drop", "abandon", "purge")
Transitions: TypeAlias = list[tuple[int, int]]


class Crash(NamedTuple):
    """What happens to the writer: `model` is that of a power cut, and `choice` in 0 to 1 picks its disk."""

    kind: str
    model: Model | None = None
    choice: float = 0.0


class Trace(NamedTuple):
    """Which process makes how many calls, what happens to the writer, and who goes on; then all run to their ends."""

    transitions: Transitions
    crash: Crash | None
    later_transitions: Transitions


@st.composite
def random_scenarios(draw: Callable[..., Any]) -> Scenario:
    """Generate commits that a table accepts in this order, and readers; a second session only adds rows."""
    present = {0}
    first = tuple(_commit(draw, present) for _ in range(draw(st.integers(1, COMMITS_MAX))))
    second = (Commit(rows=(_rows(draw, {0}),)),) if draw(st.booleans()) else ()
    readers = ReaderGroup(
        style=draw(st.sampled_from(Style)), count=draw(st.integers(1, READERS_MAX)), reads=draw(st.integers(1, 2))
    )
    return Scenario(
        format=FORMAT,
        title="random",
        explorers=(Explorer.PRODUCT,),
        start=(Commit(rows=(Rows(hour=0, count=draw(st.integers(1, 3))),)),),
        first=first,
        second=second,
        readers=(readers,),
    )


def random_traces() -> st.SearchStrategy[list[Trace]]:
    """Generate a few traces of one scenario."""
    transitions = st.lists(
        st.tuples(st.integers(0, READERS_MAX), st.integers(1, TRANSITION_MAX)), max_size=TRANSITIONS_MAX
    )
    crash = st.one_of(
        st.none(),
        st.sampled_from([Crash("kill"), Crash("fail")]),
        st.builds(Crash, st.just("power"), st.sampled_from(POWER_MODELS), st.floats(0, 1)),
    )
    return st.lists(st.builds(Trace, transitions, crash, transitions), min_size=1, max_size=6)


def _commit(draw: Callable[..., Any], present: set[int]) -> Commit:
    kind = draw(st.sampled_from(KINDS))
    hour = draw(st.sampled_from(sorted(present)))
    match kind:
        case "merge":
            return Commit(rows=(Rows(hour=hour, at=draw(st.sampled_from([At.MIDDLE, At.START]))),))
        case "new" | "several":
            new = draw(st.integers(0, HOURS - 1))
            present.add(new)
            rows = {each: Rows(hour=each) for each in ((new, hour) if kind == "several" else (new,))}
            return Commit(rows=tuple(rows.values()))
        case "rewrite":
            return Commit(rewrite=(hour,), purge=draw(st.booleans()))
        case "drop" if len(present) > 1:
            present.discard(hour)
            return Commit(drop=(hour,), purge=draw(st.booleans()))
        case "abandon":
            return Commit(rows=(_rows(draw, present),), abandon=True)
        case "purge":
            return Commit(rows=(_rows(draw, present),), purge=True)
    return Commit(rows=(_rows(draw, present),))


def _rows(draw: Callable[..., Any], present: set[int]) -> Rows:
    return Rows(hour=draw(st.sampled_from(sorted(present))), count=draw(st.integers(1, 12)))


def run_trace(sessions: Sessions, trace: Trace) -> tuple[World, Moves]:
    """Run a trace to its end, and return the world and the moves that lead there."""
    moves: Moves = []
    world = sessions.case.begin(sessions.first)
    _take_transitions(world, trace.transitions, moves)
    if trace.crash is not None:
        world = _crashed(sessions, world, trace.crash, trace.later_transitions, moves)
        _take_transitions(world, trace.later_transitions, moves)
    moves += [(process_index, len(list(group))) for process_index, group in itertools.groupby(world.finish()[0])]
    return world, moves


def _take_transitions(world: World, transitions: Transitions, moves: Moves) -> None:
    for process_index, count in transitions:
        taken = 0
        while process_index < len(world.nodes) and taken < count and world.can_go_on(process_index):
            world.step(process_index)
            taken += 1
        if taken:
            moves.append((process_index, taken))


def _crashed(sessions: Sessions, world: World, crash: Crash, later: Transitions, moves: Moves) -> World:
    if crash.kind == "fail":
        step_count = 0
        while world.can_go_on(WRITER_INDEX) and world.call(WRITER_INDEX).kind not in FAILING:
            world.step(WRITER_INDEX)
            step_count += 1
        moves += [(WRITER_INDEX, step_count)] if step_count else []
        if world.can_go_on(WRITER_INDEX):
            world = sessions.after_failed_sync(world)
            moves.append(("fail",))
            # Readers may see what the writer does about it.
            _take_transitions(world, [*later, (WRITER_INDEX, 1 << 30)], moves)
    if crash.model is None:
        moves.append(("kill",))
        return sessions.after_kill(world)
    legal = legal_disks(world.kernel, crash.model)
    disks = [picked for picked, _ in zip(legal, range(DISKS_TRIED_MAX), strict=False)]
    picked = disks[int(crash.choice * (len(disks) - 1))]
    moves.append(("power", crash.model.name, legal.choice(picked)))
    return sessions.after_power_cut(world, picked.disk.kernel())
