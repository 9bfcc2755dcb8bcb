"""Reader cuts: a reader that only reads, against every moment of a writer."""

from __future__ import annotations

import pytest
from table_situations import GROW, PURGE, table_situation

from harness.explore.dpor import Run, explore_all
from harness.explore.observer import Property
from harness.explore.outcome import Said, said_by
from harness.explore.reader_cuts import Cut, NotOnlyAReaderError, WriterRun, explore_reader
from harness.explore.schedule_controls import LETTERS, NUMBERS, control_situation
from harness.explore.situation import Situation
from harness.explore.stateful_memo import remembered_decoding
from harness.explore.turns import follow
from harness.targets.toy import AcknowledgesFirst, HeaderFirst, Toy
from harness.targets.toy_records import InPlace, LooksOnce, Record


def cut_said(situation: Situation) -> set[Said]:
    cast = situation.cast()
    said: set[Said] = set()
    assert explore_reader(situation.begin(cast), 1, lambda cut, writer: said.add(said_by(cut.node))).is_done
    cast.close()
    return said


def reduced_said(situation: Situation) -> set[tuple[Said, ...]]:
    cast = situation.cast()
    said: set[tuple[Said, ...]] = set()

    def on_end(run: Run) -> None:
        said.add(tuple(said_by(node) for node in run.world.nodes[1:]))

    assert explore_all(situation.begin(cast), on_end).is_done
    cast.close()
    return said


def violated(situation: Situation) -> set[str]:
    cast = situation.cast()
    found: set[str] = set()

    def on_end(cut: Cut, writer: WriterRun) -> None:
        found.update(each.property for each in cut.progress.violations)

    explore_reader(situation.begin(cast), 1, on_end)
    cast.close()
    return found


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


def test_the_schedule_of_a_cut_leads_there() -> None:
    situation = control_situation(AcknowledgesFirst(), LETTERS)
    cast = situation.cast()
    world = situation.begin(cast)
    checked = []

    def on_end(cut: Cut, writer: WriterRun) -> None:
        end = follow(world, cut.schedule(1, writer.end))
        assert end.nodes[1] is cut.node and not end.enabled
        stale = {each.property for each in cut.progress.violations}
        assert stale == {each.property for each in end.progress.violations}
        checked.append(stale)

    explore_reader(world, 1, on_end)
    cast.close()
    assert {Property.STALE} in checked and set() in checked


def test_a_reader_that_pins_is_left_to_dpor() -> None:
    situation = table_situation([GROW], style="pinned")
    cast = situation.cast()

    with remembered_decoding(), pytest.raises(NotOnlyAReaderError, match="lock"):
        explore_reader(situation.begin(cast), 1, lambda cut, writer: None)
    cast.close()


def test_without_time_the_cuts_say_that_they_are_not_done() -> None:
    situation = control_situation(Record(), NUMBERS)
    cast = situation.cast()
    left = iter([True] * 9)

    short = explore_reader(situation.begin(cast), 1, lambda cut, writer: None, has_time=lambda: next(left, False))
    whole = explore_reader(situation.begin(cast), 1, lambda cut, writer: None)
    cast.close()

    assert (short.is_done, whole.is_done) == (False, True)
    assert short.runs < whole.runs
