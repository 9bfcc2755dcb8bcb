"""Other complete searches, to compare DPOR with: every reachable state once, and for toys every schedule one by one.

Both go by single calls and do not know which are independent. What is too large for them is searched by transitions,
which do not order independent calls, as in DPOR.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from identity import Identities

from tornproof.harness.search.contention import Contention
from tornproof.harness.search.transitions import State
from tornproof.harness.simulator.process.world import World

Forking = TypeVar("Forking", World, State)


class StateCounts(NamedTuple):
    """States that were reached, and whether all were; `ends` are those in which all processes have ended."""

    states: int
    ends: int
    is_done: bool


def search_states(
    world: World, on_end: Callable[[World], None], *, has_time: Callable[[], bool] = lambda: True
) -> StateCounts:
    """Go from state to state by single calls, and call `on_end` once with each end."""
    return _search(world.fork(), lambda state: state, World.step, lambda state: state.enabled, on_end, has_time)


def search_transitions(
    world: World, on_end: Callable[[World], None], *, has_time: Callable[[], bool] = lambda: True
) -> StateCounts:
    """Go from state to state by transitions, and call `on_end` with each end; a refuted assumption starts it again."""
    contention = Contention(len(world.nodes))
    while True:
        counts = _search(
            State.begin(world, contention),
            lambda state: state.world,
            State.take_transition,
            lambda state: state.open_indexes,
            on_end,
            lambda: not contention.is_refuted and has_time(),
        )
        if not contention.is_refuted:
            return counts
        contention.drop_assumptions()


def _search(
    begin: Forking,
    world_of: Callable[[Forking], World],
    go_on: Callable[[Forking, int], object],
    enabled_in: Callable[[Forking], list[int]],
    on_end: Callable[[World], None],
    has_time: Callable[[], bool],
) -> StateCounts:
    identities = Identities()
    pending, seen, end_count = [begin], {identities.of(world_of(begin))}, 0
    while pending:
        if not has_time():
            return StateCounts(len(seen), end_count, False)
        state = pending.pop()
        enabled = enabled_in(state)
        if not enabled:
            end_count += 1
            on_end(world_of(state))
        for process_index in enabled:
            following = state.fork()
            go_on(following, process_index)
            identity = identities.of(world_of(following))
            if identity not in seen:
                seen.add(identity)
                pending.append(following)
    return StateCounts(len(seen), end_count, True)


def enumerate_schedules(world: World, on_end: Callable[[World], None]) -> int:
    """Run every schedule, call by call, call `on_end` with each end, and return how many there are."""
    pending, count = [world.fork()], 0
    while pending:
        state = pending.pop()
        enabled = state.enabled
        if not enabled:
            count += 1
            on_end(state)
        for process_index in enabled:
            following = state.fork()
            following.step(process_index)
            pending.append(following)
    return count
