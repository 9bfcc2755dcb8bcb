"""What Hypothesis draws for the simulator: scenarios that can be carried out, and courses of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

from tornproof.harness.search.crash_world import FAILING, WRITER_PLACE, Lives
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import POWER_MODELS, Model
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.scenario import FORMAT, At, Commit, Explorer, ReaderGroup, Rows, Scenario, Style

COMMITS_MAX, READERS_MAX, TURNS_MAX, TURN_MAX, HOURS = 3, 2, 5, 120, 3
DISKS_TRIED_MAX = 64
KINDS = ("append", "merge", "new", "several", "rewrite", "drop", "abandon", "purge")
Turns: TypeAlias = list[tuple[int, int]]
Moves: TypeAlias = list[tuple[Any, ...]]


class Crash(NamedTuple):
    """What befalls the writer after its turns: `model` is that of a power cut, and `choice` says which of its disks."""

    kind: str
    model: Model | None = None
    choice: float = 0.0


class Course(NamedTuple):
    """Who goes on for how many calls, what then befalls the writer, and who goes on after that; then all end."""

    turns: Turns
    crash: Crash | None
    later_turns: Turns


@st.composite
def drawn_scenarios(draw: Callable[..., Any]) -> Scenario:
    """Draw commits that a table takes one after the other, and readers; a second life only adds rows."""
    present = {0}
    first = tuple(_commit(draw, present) for _ in range(draw(st.integers(1, COMMITS_MAX))))
    second = (Commit(rows=(_rows(draw, {0}),)),) if draw(st.booleans()) else ()
    readers = ReaderGroup(
        style=draw(st.sampled_from(Style)), count=draw(st.integers(1, READERS_MAX)), reads=draw(st.integers(1, 2))
    )
    return Scenario(
        format=FORMAT,
        title="drawn by chance",
        explorers=(Explorer.PRODUCT,),
        start=(Commit(rows=(Rows(hour=0, count=draw(st.integers(1, 3))),)),),
        first=first,
        second=second,
        readers=(readers,),
    )


def drawn_courses() -> st.SearchStrategy[list[Course]]:
    """Draw a few courses of one scenario."""
    turns = st.lists(st.tuples(st.integers(0, READERS_MAX), st.integers(1, TURN_MAX)), max_size=TURNS_MAX)
    crash = st.one_of(
        st.none(),
        st.sampled_from([Crash("kill"), Crash("fail")]),
        st.builds(Crash, st.just("power"), st.sampled_from(POWER_MODELS), st.floats(0, 1)),
    )
    return st.lists(st.builds(Course, turns, crash, turns), min_size=1, max_size=6)


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


def run_course(lives: Lives, course: Course) -> tuple[World, Moves]:
    """Run a course to its end, and return the world and the moves that lead there."""
    moves: Moves = []
    world = lives.situation.begin(lives.first)
    _take_turns(world, course.turns, moves)
    if course.crash is not None:
        world = _crashed(lives, world, course.crash, moves)
        _take_turns(world, course.later_turns, moves)
    _take_turns(world, [(place, 1 << 30) for place in range(len(world.nodes))], moves)
    return world, moves


def _take_turns(world: World, turns: Turns, moves: Moves) -> None:
    for place, count in turns:
        taken = 0
        while place < len(world.nodes) and taken < count and world.nodes[place].call is not None:
            world.step(place)
            taken += 1
        if taken:
            moves.append((place, taken))


def _crashed(lives: Lives, world: World, crash: Crash, moves: Moves) -> World:
    if crash.kind == "fail":
        waited = 0
        while world.nodes[WRITER_PLACE].call is not None and world.call(WRITER_PLACE).kind not in FAILING:
            world.step(WRITER_PLACE)
            waited += 1
        moves += [(WRITER_PLACE, waited)] if waited else []
        if world.nodes[WRITER_PLACE].call is not None:
            world = lives.after_failed_sync(world)
            moves.append(("fail",))
            _take_turns(world, [(WRITER_PLACE, 1 << 30)], moves)
    if crash.model is None:
        moves.append(("kill",))
        return lives.after_kill(world)
    legal = legal_disks(world.kernel, crash.model)
    disks = [picked for picked, _ in zip(legal, range(DISKS_TRIED_MAX), strict=False)]
    picked = disks[int(crash.choice * (len(disks) - 1))]
    moves.append(("power", crash.model.name, legal.choice(picked)))
    return lives.after_power_cut(picked.disk.kernel(), world.progress)
