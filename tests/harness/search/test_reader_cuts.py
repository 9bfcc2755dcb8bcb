"""Reader cuts: a reader that only reads, against every moment of a writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from table_situations import GROW, PURGE, table_situation

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.explorers.schedules.controls import LETTERS, NUMBERS, control_situation
from tornproof.harness.search.cuts import Course, Cuts, NotOnlyAReaderError, Ways, schedule_of
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.outcome import Said, said_by
from tornproof.harness.search.turns import follow
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.situation import Situation
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, Toy
from tornproof.harness.systems.toy_records import InPlace, LooksOnce, Record


@contextmanager
def searched(situation: Situation) -> Iterator[tuple[World, Course, Cuts, Ways]]:
    cast = situation.cast()
    try:
        course, cuts = Course(situation.begin(cast)), Cuts(cast.clients[1], 1, cast.judge)
        yield situation.begin(cast), course, cuts, cuts.search(course, [cuts.root()])
    finally:
        cast.close()


def cut_said(situation: Situation) -> set[Said]:
    with searched(situation) as (_, _, cuts, come):
        assert cuts.is_done
        return {said_by(state.node) for state in come if state.is_at_end}


def reduced_said(situation: Situation) -> set[tuple[Said, ...]]:
    cast = situation.cast()
    said: set[tuple[Said, ...]] = set()

    def on_end(run: Run) -> None:
        said.add(tuple(said_by(node) for node in run.world.nodes[1:]))

    assert explore_all(situation.begin(cast), on_end).is_done
    cast.close()
    return said


def violated(situation: Situation) -> set[str]:
    with searched(situation) as (_, _, _, come):
        return {each.property for state in come for each in state.progress.violations}


@pytest.mark.parametrize("style", ["fresh", "follow"])
@pytest.mark.parametrize("operations", [[GROW, GROW], [GROW, PURGE]])
def test_a_reader_says_by_cuts_what_it_says_in_every_order(operations: list[str], style: str) -> None:
    with remembered_decoding():
        situation = table_situation(operations, style=style)

        assert {(said,) for said in cut_said(situation)} == reduced_said(situation)


def test_what_two_readers_say_is_the_product_of_what_one_says() -> None:
    for target, operations in ((Record(), NUMBERS[:2]), (InPlace(), NUMBERS[:2]), (Toy(), LETTERS)):
        one = cut_said(control_situation(target, operations))
        two = reduced_said(control_situation(target, operations, reader_count=2))

        assert two == {(first, second) for first in one for second in one}


def test_broken_toys_are_convicted_and_sound_ones_are_not() -> None:
    assert violated(control_situation(HeaderFirst(), LETTERS)) == {Property.REFUSED}
    assert violated(control_situation(AcknowledgesFirst(), LETTERS)) == {Property.STALE}
    assert violated(control_situation(InPlace(), NUMBERS)) == {Property.WRONG_SNAPSHOT}
    assert violated(control_situation(LooksOnce(), NUMBERS)) == {Property.WRONG_SNAPSHOT}
    assert violated(control_situation(Toy(), LETTERS)) == set()
    assert violated(control_situation(Record(), NUMBERS)) == set()


def test_the_schedule_of_a_state_leads_there() -> None:
    with searched(control_situation(AcknowledgesFirst(), LETTERS)) as (world, course, _, come):
        checked = []
        for state in come:
            end = follow(world, schedule_of(1, come, state, len(course) - 1))
            assert end.nodes[1] is state.node and end.nodes[0].call is None
            broken = {each.property for each in state.progress.violations}
            assert broken == {each.property for each in end.progress.violations}
            checked.append(broken)
    assert {Property.STALE} in checked and set() in checked


def test_a_reader_that_pins_is_left_to_dpor() -> None:
    with (
        remembered_decoding(),
        pytest.raises(NotOnlyAReaderError, match="lock"),
        searched(table_situation([GROW], style="pinned")),
    ):
        pass


def test_without_time_the_cuts_say_that_they_are_not_done() -> None:
    with searched(control_situation(Record(), NUMBERS)) as (_, course, cuts, come):
        left = iter([True] * 9)
        short = cuts.search(course, [cuts.root()], has_time=lambda: next(left, False))

        assert not cuts.is_done
        assert short.keys() < come.keys()
