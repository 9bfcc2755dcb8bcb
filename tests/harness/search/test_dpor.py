"""DPOR against every interleaving of toys, closed forms, and state search of the real implementation."""

import math

import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st
from state_search import enumerate_schedules, search_states, search_transitions
from table_cases import GROW, table_case
from toy_processes import CELL_COUNT, CELLS, Step, process, read_only_calls, world_of

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.search.dpor import Counts, Run, explore_all
from tornproof.harness.search.outcome import Outcome, Outcomes
from tornproof.harness.search.transitions import follow
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import Say
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import OpenMode, Storage

STEPS = st.builds(
    Step,
    kind=st.sampled_from(["read", "write", "add", "lock"]),
    cell=st.integers(0, CELL_COUNT - 1),
    value=st.integers(0, 2),
)
BODIES = st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=2, max_size=2) | st.lists(
    st.lists(STEPS, min_size=1, max_size=2), min_size=3, max_size=3
)


def outcome_of(world: World) -> Outcome:
    return Outcomes().of(world)


def reduced(world: World) -> tuple[Counts, list[Outcome]]:
    outcomes: list[Outcome] = []
    counts = explore_all(world, lambda run: outcomes.append(outcome_of(run.world)))
    return counts, outcomes


def every_outcome(world: World) -> tuple[int, set[Outcome]]:
    outcomes: set[Outcome] = set()
    count = enumerate_schedules(world, lambda end: outcomes.add(outcome_of(end)))
    return count, outcomes


def states_outcomes(case: TestCase) -> set[Outcome]:
    process_group = case.process_group()
    outcomes: set[Outcome] = set()
    assert search_states(case.begin(process_group), lambda end: outcomes.add(outcome_of(end))).is_done
    process_group.close()
    return outcomes


def reduced_outcomes(case: TestCase) -> tuple[Counts, set[Outcome]]:
    process_group = case.process_group()
    counts, outcomes = reduced(case.begin(process_group))
    process_group.close()
    return counts, set(outcomes)


def test_independent_processes_have_as_many_interleavings_as_the_closed_form_says_and_one_order() -> None:
    world = world_of([read_only_calls("a", 10), read_only_calls("b", 8)])

    assert enumerate_schedules(world, lambda end: None) == math.comb(18, 8) == 43_758
    assert reduced(world)[0].complete == 1


@pytest.mark.nightly
def test_three_million_interleavings_are_as_many_as_the_closed_form_says() -> None:
    world = world_of([read_only_calls("a", 20), read_only_calls("b", 8)])

    assert enumerate_schedules(world, lambda end: None) == math.comb(28, 8) == 3_108_105
    assert reduced(world)[0].complete == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(BODIES)
def test_the_outcomes_of_generated_processes_are_those_of_all_their_interleavings(bodies: list[list[Step]]) -> None:
    world = world_of([process(steps) for steps in bodies])
    count, outcomes = every_outcome(world)
    counts, found = reduced(world)

    assert set(found) == outcomes
    assert counts.complete <= count
    by_states: set[Outcome] = set()
    search_states(world, lambda end: by_states.add(outcome_of(end)))
    assert by_states == outcomes
    by_transitions: set[Outcome] = set()
    search_transitions(world, lambda end: by_transitions.add(outcome_of(end)))
    assert by_transitions == outcomes


@settings(max_examples=120, deadline=None, derandomize=True)
@given(BODIES)
def test_no_order_of_dependent_calls_is_run_twice(bodies: list[list[Step]]) -> None:
    orders: list[object] = []

    def on_end(run: Run) -> None:
        orders.append(
            tuple(tuple((transition.depth, transition.clock) for transition in own) for own in run.transitions)
        )

    counts = explore_all(world_of([process(steps) for steps in bodies]), on_end)

    # A search that starts again after a refuted assumption passes some of them again.
    last = orders[-counts.complete :]
    assert len(set(last)) == len(last) == counts.complete


def test_two_writers_of_one_cell_come_in_both_orders() -> None:
    world = world_of([process([Step("write", 0, value)]) for value in (1, 2)])

    counts, outcomes = reduced(world)

    assert (counts.complete, len({outcome.files for outcome in outcomes})) == (2, 2)


def test_writing_what_is_there_is_independent_of_reading_it() -> None:
    world = world_of([process([Step("write", 0, 0)]), process([Step("read", 0)])])

    assert reduced(world)[0].complete == 1


def test_a_file_that_was_open_before_another_got_its_name_stays_what_it_was() -> None:
    def reader(storage: Storage, say: Say) -> None:
        with storage.open_for_reading("state") as file:
            say("answered", file.pread(3, 0))

    def writer(storage: Storage, say: Say) -> None:
        with storage.open_for_writing("new", OpenMode.NEW) as file:
            file.pwrite(b"new", 0)
        storage.rename("new", "state")

    world = world_of([writer, reader], {"state": b"old"})

    assert set(reduced(world)[1]) == every_outcome(world)[1]
    assert len(set(reduced(world)[1])) == 2


def test_a_write_under_a_lease_is_found_although_it_may_come_after_the_view_has_begun() -> None:
    def reader(storage: Storage, say: Say) -> None:
        with storage.open_for_reading(CELLS) as file, file.map(3) as mapping, mapping.view(1, 0):
            pass

    world = world_of([process([Step("write", 0, 1)]), reader])
    violated: set[str] = set()
    explore_all(world, lambda run: violated.update(each.property for each in run.world.progress.violations))

    assert violated == {Property.LEASE}


def test_a_schedule_that_was_run_leads_to_the_same_end_again() -> None:
    world = world_of([process([Step("read", 0), Step("add", 1, 1)]), process([Step("add", 0, 1), Step("read", 1)])])
    ends = []

    def on_end(run: Run) -> None:
        again = follow(world, run.schedule(None))
        assert again.nodes == run.world.nodes and not again.enabled
        ends.append(again)

    assert explore_all(world, on_end).complete <= len(ends)


def test_without_time_the_search_says_that_it_is_not_done() -> None:
    world = world_of([process([Step("write", 0, value), Step("read", 0)]) for value in (1, 2, 3)])
    left = iter([True] * 7)

    assert not explore_all(world, lambda run: None, has_time=lambda: next(left, False)).is_done
    assert explore_all(world, lambda run: None).is_done


@pytest.mark.parametrize("commit_count", [1, nightly(2)])
def test_beside_a_reader_the_real_implementation_has_the_outcomes_that_all_its_states_have(commit_count: int) -> None:
    with remembered_decoding():
        case = table_case([GROW] * commit_count)
        counts, outcomes = reduced_outcomes(case)

        assert outcomes == states_outcomes(case)
    assert counts.is_done and len(outcomes) == commit_count + 1


def test_two_readers_of_the_real_implementation_have_the_products_of_outcomes_of_one() -> None:
    with remembered_decoding():
        one, one_outcomes = reduced_outcomes(table_case([GROW]))
        two, two_outcomes = reduced_outcomes(table_case([GROW], readers=2))

    # What readers do is independent of other readers, so the orders multiply too.
    assert two.complete == one.complete**2
    assert {outcome.said[1:] for outcome in two_outcomes} == {
        (*first.said[1:], *second.said[1:]) for first in one_outcomes for second in one_outcomes
    }


@pytest.mark.nightly
def test_beside_two_readers_one_commit_has_the_outcomes_that_all_its_states_have() -> None:
    with remembered_decoding():
        case = table_case([GROW], readers=2)

        assert reduced_outcomes(case)[1] == states_outcomes(case)


@pytest.mark.nightly
def test_two_commits_beside_two_readers_have_the_outcomes_that_all_states_between_transitions_have() -> None:
    with remembered_decoding():
        case = table_case([GROW, GROW], readers=2)
        counts, outcomes = reduced_outcomes(case)
        process_group = case.process_group()
        by_states: set[Outcome] = set()
        assert search_transitions(case.begin(process_group), lambda end: by_states.add(outcome_of(end))).is_done
        process_group.close()

    assert counts.is_done and outcomes == by_states and len(outcomes) == 9


@pytest.mark.nightly
@pytest.mark.parametrize(("commit_count", "reader_count"), [(2, 3), (3, 2)])
def test_the_larger_bounds_are_complete_too(commit_count: int, reader_count: int) -> None:
    with remembered_decoding():
        case = table_case([GROW] * commit_count, readers=reader_count)
        process_group = case.process_group()
        violations: set[object] = set()
        said: set[object] = set()

        def on_end(run: Run) -> None:
            violations.update(run.world.progress.violations)
            said.add(tuple(node.number for node in run.world.nodes[1:]))

        assert explore_all(case.begin(process_group), on_end).is_done
        process_group.close()

    assert not violations and len(said) > 100_000
