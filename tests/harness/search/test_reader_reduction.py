"""The reader reduction: a reader that changes nothing, at every state of a writer."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from depth import sampled
from table_cases import GROW, PURGE, table_case

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.explorers.schedules.controls import LETTERS, NUMBERS, control_case
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.outcome import Said, said_by
from tornproof.harness.search.reader_reduction import Arrivals, NotOnlyAReaderError, ReaderReduction, Trace, schedule_of
from tornproof.harness.search.transitions import follow
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, Toy
from tornproof.harness.systems.toy_records import InPlace, LooksOnce, Record


@contextmanager
def searched(case: TestCase) -> Iterator[tuple[World, Trace, ReaderReduction, Arrivals]]:
    process_group = case.process_group()
    try:
        trace, reduction = (
            Trace(case.begin(process_group)),
            ReaderReduction(process_group.processes[1], 1, process_group.judge),
        )
        yield case.begin(process_group), trace, reduction, reduction.search(trace, [reduction.root()])
    finally:
        process_group.close()


def states_said(case: TestCase) -> set[Said]:
    with searched(case) as (_, _, reduction, arrivals):
        assert reduction.is_done
        return {said_by(state.node) for state in arrivals if state.is_at_end}


def dpor_said(case: TestCase) -> set[tuple[Said, ...]]:
    process_group = case.process_group()
    said: set[tuple[Said, ...]] = set()

    def on_end(run: Run) -> None:
        said.add(tuple(said_by(node) for node in run.world.nodes[1:]))

    assert explore_all(case.begin(process_group), on_end).is_done
    process_group.close()
    return said


def violated(case: TestCase) -> set[str]:
    with searched(case) as (_, _, _, arrivals):
        return {each.property for state in arrivals for each in state.progress.violations}


@pytest.mark.parametrize(
    ("style", "operations"), sampled(2, list(itertools.product(["fresh", "follow"], [[GROW, GROW], [GROW, PURGE]])))
)
def test_a_reader_says_under_the_reduction_what_it_says_in_every_order(operations: list[str], style: str) -> None:
    with remembered_decoding():
        case = table_case(operations, style=style)

        assert {(said,) for said in states_said(case)} == dpor_said(case)


def test_what_two_readers_say_is_the_product_of_what_one_says() -> None:
    for target, operations in ((Record(), NUMBERS[:2]), (InPlace(), NUMBERS[:2]), (Toy(), LETTERS)):
        one = states_said(control_case(target, operations))
        two = dpor_said(control_case(target, operations, reader_count=2))

        assert two == {(first, second) for first in one for second in one}


def test_broken_toys_are_detected_and_sound_ones_are_not() -> None:
    assert violated(control_case(HeaderFirst(), LETTERS)) == {Property.REJECTED}
    assert violated(control_case(AcknowledgesFirst(), LETTERS)) == {Property.STALE}
    assert violated(control_case(InPlace(), NUMBERS)) == {Property.WRONG_SNAPSHOT}
    assert violated(control_case(LooksOnce(), NUMBERS)) == {Property.WRONG_SNAPSHOT}
    # It is wrong only where two commits are made during one read.
    assert violated(control_case(InPlace(), NUMBERS[:1])) == {Property.WRONG_SNAPSHOT}
    assert violated(control_case(LooksOnce(), NUMBERS[:1])) == set()
    assert violated(control_case(Toy(), LETTERS)) == set()
    assert violated(control_case(Record(), NUMBERS)) == set()


def test_the_schedule_of_a_state_leads_there() -> None:
    with searched(control_case(AcknowledgesFirst(), LETTERS)) as (world, trace, _, arrivals):
        checked = []
        for state in arrivals:
            end = follow(world, schedule_of(1, arrivals, state, len(trace) - 1))
            assert end.nodes[1] is state.node and end.nodes[0].call is None
            broken = {each.property for each in state.progress.violations}
            assert broken == {each.property for each in end.progress.violations}
            checked.append(broken)
    assert {Property.STALE} in checked and set() in checked


def test_a_reader_that_pins_is_left_to_dpor() -> None:
    with (
        remembered_decoding(),
        pytest.raises(NotOnlyAReaderError, match="lock"),
        searched(table_case([GROW], style="pinned")),
    ):
        pass


def test_without_time_the_reduction_says_that_it_is_not_done() -> None:
    with searched(control_case(Record(), NUMBERS)) as (_, trace, reduction, arrivals):
        left = iter([True] * 9)
        short = reduction.search(trace, [reduction.root()], has_time=lambda: next(left, False))

        assert not reduction.is_done
        assert short.keys() < arrivals.keys()
