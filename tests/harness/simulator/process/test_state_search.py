"""State search: every reachable state once."""

from state_search import StateCounts, enumerate_schedules, search_states, search_transitions
from toy_processes import Step, process, read_only_calls, world_of

from tornproof.harness.simulator.process.world import World


def test_independent_processes_have_a_grid_of_states_and_one_end() -> None:
    ends: list[World] = []

    assert search_states(world_of([read_only_calls("a", 10), read_only_calls("b", 8)]), ends.append) == StateCounts(
        11 * 9, 1, True
    )
    assert [end.enabled for end in ends] == [[]]


def test_between_independent_transitions_there_is_one_state() -> None:
    counts = search_transitions(world_of([read_only_calls("a", 10), read_only_calls("b", 8)]), lambda end: None)

    assert counts == StateCounts(1, 1, True)


def test_dependent_processes_end_in_several_states() -> None:
    world = world_of([process([Step("write", 0, value)]) for value in (1, 2)])

    assert search_states(world, lambda end: None).ends == 2
    assert search_transitions(world, lambda end: None).ends == 2
    assert enumerate_schedules(world, lambda end: None) == 6


def test_without_time_the_search_says_that_it_is_not_done() -> None:
    left = iter([True] * 5)

    counts = search_states(world_of([read_only_calls("a", 5)]), lambda end: None, has_time=lambda: next(left, False))
    assert not counts.is_done
