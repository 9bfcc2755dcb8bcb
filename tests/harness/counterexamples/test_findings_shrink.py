"""Of a long run there is left what breaks the property, and it is still the same property."""

from __future__ import annotations

from dataclasses import replace

import pytest
from depth import nightly
from random_runs import (
    HEADER_BEFORE_BODY,
    VERSION_BEFORE_RECORD,
    broken_run,
    found,
    table_situation,
    toy_situation,
)

from tornproof.harness.counterexamples.log import DecisionLog, PowerCut, moved_to
from tornproof.harness.counterexamples.run import Player, Signature, from_schedule, run_log
from tornproof.harness.counterexamples.shrink import Itinerary, NotReproducedError, shrink
from tornproof.harness.counterexamples.smaller import Case, with_fewer_readers
from tornproof.harness.simulator.persistence.models import C_8, C_512, B, Model
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.situation import Readers
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, RecoversInPlace, SwallowsErrors, Toy
from tornproof.impl.write.commit import Protocol

READERS = {"readers": (Readers(count=2, read_count=2),)}


@pytest.mark.parametrize("protocol", [HEADER_BEFORE_BODY, VERSION_BEFORE_RECORD], ids=["header", "version"])
@pytest.mark.parametrize("seed", [0, *(nightly(seed) for seed in (1, 2))])
def test_a_schedule_of_the_real_writer_shrinks_to_one_commit_one_reader_and_two_turns(
    protocol: Protocol, seed: int
) -> None:
    situation = table_situation(protocol=protocol, reads=2)
    moves, violation = broken_run(situation, seed=seed)
    log = from_schedule(situation, moves)
    shrunk = shrink(situation, log, Signature.of(violation))
    assert len(log.deviations) > 4
    assert shrunk.is_smallest
    assert (shrunk.case.operation_count, shrunk.case.log.crash_count) == (1, 0)
    assert [(each.count, each.read_count) for each in shrunk.case.situation.readers] == [(1, 1)]
    assert len(shrunk.case.log.deviations) <= 2
    assert len(shrunk.case.situation.operations) == 1
    again = run_log(shrunk.case.situation, shrunk.case.log)
    assert Signature.of(again.violations[0]) == Signature.of(violation)
    assert again.dropped == ()


@pytest.mark.parametrize(
    ("target", "crashes", "settings", "violated", "operations"),
    [
        (HeaderFirst(), (), READERS, Property.REFUSED, 1),
        (AcknowledgesFirst(), (), READERS, Property.STALE, 2),
        (RecoversInPlace(), ("kill", "kill"), {}, Property.LOST, 2),
        (SwallowsErrors(), ("fail", C_512), {}, Property.LOST, 1),
        (HeaderFirst(), (C_8,), {}, Property.LOST, 1),
        (AcknowledgesFirst(), ("kill",), {}, Property.LOST, 2),
    ],
    ids=lambda value: getattr(value, "name", None) or str(value)[:20],
)
def test_a_broken_toy_shrinks_to_the_crashes_that_it_takes(
    target: Toy, crashes: tuple[str | Model, ...], settings: dict[str, object], violated: str, operations: int
) -> None:
    situation = toy_situation(target, **settings)
    moves, violation = broken_run(situation, *crashes)
    shrunk = shrink(situation, from_schedule(situation, moves), Signature.of(violation))
    assert violation.property == violated
    assert shrunk.case.operation_count == operations
    assert shrunk.case.log.crash_count == len([crash for crash in crashes if crash != "fail"])
    assert len(shrunk.case.log.deviations) <= max(1, len(crashes))
    assert shrunk.is_smallest


LATE = DecisionLog.parse("writer@commit 0: store a word _txn #14 -> reader 1")


def test_a_decision_is_moved_back_to_the_first_step_at_which_it_does_harm() -> None:
    situation = table_situation(protocol=VERSION_BEFORE_RECORD)
    (violation,) = run_log(situation, LATE).violations
    shrunk = shrink(situation, LATE, Signature.of(violation))
    (turn,) = shrunk.case.log.deviations
    assert turn.at.operation == "commit 0"
    with Player(shrunk.case.situation) as player:
        itinerary = Itinerary()
        player.play(shrunk.case.log, watcher=itinerary)
        earlier = itinerary.before(turn.at)
        assert earlier is not None
        assert player.play(DecisionLog((moved_to(turn, earlier),))).violations == ()
    assert itinerary.since(LATE.deviations[0].at) == []
    assert len(itinerary.until(turn.at)) > 10


def test_without_a_reader_its_turns_go_to_whom_it_gave_them_and_later_readers_move_up() -> None:
    log = DecisionLog.parse(
        "writer@open: look at new #1 -> reader 1\n"
        "reader 1@read 1: read state #1 -> reader 2\n"
        "reader 2@read 1: read state #1 -> writer\n"
        "writer@commit 0: rename new #1 -> reader 1\n"
        "reader 1@read 2: read state #1 -> writer"
    )
    case = Case(toy_situation(Toy(), **READERS), log)
    second, first, *_ = [str(each.log) for each in with_fewer_readers(case)]
    assert first == ("writer@open: look at new #1 -> reader 1\nreader 1@read 1: read state #1 -> writer")
    assert second == (
        "writer@open: look at new #1 -> reader 1\n"
        "reader 1@read 1: read state #1 -> writer\n"
        "writer@commit 0: rename new #1 -> reader 1\n"
        "reader 1@read 2: read state #1 -> writer"
    )


def test_a_crash_goes_that_nothing_needs() -> None:
    finding = found(table_situation("questdb-9.4.3"), "kill", seed=1)
    assert finding.property == Property.REFUSED
    assert DecisionLog.of_document(finding.evidence["log"]).crash_count == 0


def test_a_power_cut_keeps_all_that_need_not_be_lost() -> None:
    situation = table_situation("specification")
    moves, violation = broken_run(situation, B)
    shrunk = shrink(situation, from_schedule(situation, moves), Signature.of(violation))
    (cut,) = shrunk.case.log.deviations
    assert isinstance(cut, PowerCut)
    assert cut.choice.count("made/") == 1
    everything_kept = DecisionLog((replace(cut, choice="[null,{}]"),))
    assert run_log(shrunk.case.situation, everything_kept).violations == ()


@pytest.mark.parametrize("seed", [0, 4])
def test_what_broke_is_not_exchanged_for_something_else(seed: int) -> None:
    situation = table_situation("specification")
    moves, violation = broken_run(situation, C_8, seed=seed)
    wanted = Signature.of(violation)
    shrunk = shrink(situation, from_schedule(situation, moves), wanted)
    assert Signature.of(run_log(shrunk.case.situation, shrunk.case.log, wanted=wanted).violations[-1]) == wanted


def test_signatures_differ_by_property_part_and_what_was_seen_but_not_by_numbers() -> None:
    sentence = "CorruptError: 2024-01-01T01.1/_pm: CRC at byte 996: expected 0x55a0, found 1"
    one = Violation(Property.REFUSED, "reader 1", sentence)
    same = Violation(Property.REFUSED, "reader 2.3", sentence.replace("T01.1", "T00.17").replace("996", "4"))
    assert Signature.of(one) == Signature.of(same)
    for other in (
        one._replace(property=Property.STALE),
        one._replace(client="writer"),
        one._replace(sentence=one.sentence.replace("_pm", "data.parquet")),
    ):
        assert not Signature.of(one).fits(other)
    assert Signature.of(one)._replace(kind="").fits(one._replace(sentence="anything"))


def test_what_breaks_nothing_cannot_be_made_smaller() -> None:
    wanted = Signature(Property.REFUSED, "reader")
    with pytest.raises(NotReproducedError):
        shrink(toy_situation(Toy(), **READERS), DecisionLog(), wanted)


def test_a_small_budget_ends_the_search_with_what_there_is() -> None:
    situation = table_situation(protocol=HEADER_BEFORE_BODY)
    moves, violation = broken_run(situation)
    log = from_schedule(situation, moves)
    shrunk = shrink(situation, log, Signature.of(violation), step_budget=400)
    assert not shrunk.is_smallest
    assert shrunk.result.violation(Signature.of(violation)) is not None
    assert shrunk.step_count < 1500
