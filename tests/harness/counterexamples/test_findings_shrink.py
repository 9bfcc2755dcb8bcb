"""A long run shrinks to what breaks the property, and it is still the same property."""

from dataclasses import replace

import pytest
from depth import nightly
from random_runs import (
    HEADER_BEFORE_BODY,
    VERSION_BEFORE_RECORD,
    broken_run,
    found,
    table_case,
    toy_case,
)

from tornproof.harness.counterexamples.log import DecisionLog, PowerCut, moved_to
from tornproof.harness.counterexamples.moves import from_schedule
from tornproof.harness.counterexamples.run import Replayer, Signature, run_log
from tornproof.harness.counterexamples.shrink import NotReproducedError, StepRecorder, shrink
from tornproof.harness.counterexamples.smaller import Candidate, with_fewer_readers, without_crash
from tornproof.harness.simulator.persistence.models import C_8, C_512, B, Model
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, RecoversInPlace, SwallowsErrors, Toy
from tornproof.impl.write.commit import Protocol

READERS = {"readers": (Readers(count=2, read_count=2),)}


@pytest.mark.parametrize("protocol", [HEADER_BEFORE_BODY, VERSION_BEFORE_RECORD], ids=["header", "version"])
@pytest.mark.parametrize("seed", [0, *(nightly(seed) for seed in (1, 2))])
def test_a_schedule_of_the_real_writer_shrinks_to_one_commit_one_reader_and_two_switches(
    protocol: Protocol, seed: int
) -> None:
    case = table_case(protocol=protocol, reads=2)
    moves, violation = broken_run(case, seed=seed)
    log = from_schedule(case, moves)
    shrunk = shrink(case, log, Signature.of(violation))
    assert len(log.deviations) > 4
    assert shrunk.is_smallest
    assert (shrunk.candidate.operation_count, shrunk.candidate.log.crash_count) == (1, 0)
    assert [(each.count, each.read_count) for each in shrunk.candidate.case.readers] == [(1, 1)]
    assert len(shrunk.candidate.log.deviations) <= 2
    assert len(shrunk.candidate.case.operations) == 1
    again = run_log(shrunk.candidate.case, shrunk.candidate.log)
    assert Signature.of(again.violations[0]) == Signature.of(violation)
    assert again.dropped == ()


@pytest.mark.parametrize(
    ("target", "crashes", "settings", "violated", "operations"),
    [
        (HeaderFirst(), (), READERS, Property.REJECTED, 1),
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
    case = toy_case(target, **settings)
    moves, violation = broken_run(case, *crashes)
    shrunk = shrink(case, from_schedule(case, moves), Signature.of(violation))
    assert violation.property == violated
    assert shrunk.candidate.operation_count == operations
    assert shrunk.candidate.log.crash_count == len([crash for crash in crashes if crash != "fail"])
    assert len(shrunk.candidate.log.deviations) <= max(1, len(crashes))
    assert shrunk.is_smallest


LATE = DecisionLog.parse("writer@commit 0: store a word _txn #14 -> reader 1")


def test_a_decision_is_moved_back_to_the_first_step_at_which_it_does_harm() -> None:
    case = table_case(protocol=VERSION_BEFORE_RECORD)
    (violation,) = run_log(case, LATE).violations
    shrunk = shrink(case, LATE, Signature.of(violation))
    (switch,) = shrunk.candidate.log.deviations
    assert switch.at.operation == "commit 0"
    with Replayer(shrunk.candidate.case) as replayer:
        recorder = StepRecorder()
        replayer.play(shrunk.candidate.log, observer=recorder)
        earlier = recorder.before(switch.at)
        assert earlier is not None
        assert replayer.play(DecisionLog((moved_to(switch, earlier),))).violations == ()
    assert recorder.since(LATE.deviations[0].at) == []
    assert len(recorder.until(switch.at)) > 10


def test_without_a_reader_switches_to_it_go_to_the_process_it_switched_to_and_later_readers_move_up() -> None:
    log = DecisionLog.parse(
        "writer@open: look at new #1 -> reader 1\n"
        "reader 1@read 1: read state #1 -> reader 2\n"
        "reader 2@read 1: read state #1 -> writer\n"
        "writer@commit 0: rename new #1 -> reader 1\n"
        "reader 1@read 2: read state #1 -> writer"
    )
    candidate = Candidate(toy_case(Toy(), **READERS), log)
    second, first, *_ = [str(each.log) for each in with_fewer_readers(candidate)]
    assert first == ("writer@open: look at new #1 -> reader 1\nreader 1@read 1: read state #1 -> writer")
    assert second == (
        "writer@open: look at new #1 -> reader 1\n"
        "reader 1@read 1: read state #1 -> writer\n"
        "writer@commit 0: rename new #1 -> reader 1\n"
        "reader 1@read 2: read state #1 -> writer"
    )


def test_without_a_crash_the_processes_of_both_sessions_are_the_writer_and_readers_of_one() -> None:
    log = DecisionLog.parse(
        "writer@open: look at new #1 -> reader 2\n"
        "reader 2@read 1: read state #1 -> writer\n"
        "writer@commit 0: rename new #1 is killed\n"
        "writer.2@commit 1: rename new #1 -> reader 2.2"
    )
    assert {str(each.log) for each in without_crash(Candidate(toy_case(Toy(), **READERS), log))} == {
        "writer@open: look at new #1 -> reader 2\n"
        "reader 2@read 1: read state #1 -> writer\n"
        "writer@commit 1: rename new #1 -> reader 2"
    }


def test_a_crash_that_nothing_needs_is_left_out() -> None:
    finding = found(table_case("questdb-9.4.3"), "kill", seed=1)
    assert finding.property == Property.REJECTED
    assert DecisionLog.of_document(finding.evidence["log"]).crash_count == 0


@pytest.mark.nightly
def test_a_power_cut_keeps_all_that_need_not_be_lost() -> None:
    case = table_case("specification")
    moves, violation = broken_run(case, B)
    shrunk = shrink(case, from_schedule(case, moves), Signature.of(violation))
    (cut,) = shrunk.candidate.log.deviations
    assert isinstance(cut, PowerCut)
    assert cut.choice.count("made/") == 1
    everything_kept = DecisionLog((replace(cut, choice="[null,{}]"),))
    assert run_log(shrunk.candidate.case, everything_kept).violations == ()


@pytest.mark.parametrize("seed", [0, nightly(4)])
def test_shrinking_does_not_exchange_one_violation_for_another(seed: int) -> None:
    case = table_case("specification")
    moves, violation = broken_run(case, C_8, seed=seed)
    wanted = Signature.of(violation)
    shrunk = shrink(case, from_schedule(case, moves), wanted)
    assert Signature.of(run_log(shrunk.candidate.case, shrunk.candidate.log, wanted=wanted).violations[-1]) == wanted


def test_signatures_differ_by_property_part_and_what_was_seen_but_not_by_numbers() -> None:
    sentence = "CorruptError: 2024-01-01T01.1/_pm: CRC at byte 996: expected 0x55a0, found 1"
    one = Violation(Property.REJECTED, "reader 1", sentence)
    same = Violation(Property.REJECTED, "reader 2.3", sentence.replace("T01.1", "T00.17").replace("996", "4"))
    assert Signature.of(one) == Signature.of(same)
    for other in (
        one._replace(property=Property.STALE),
        one._replace(process="writer"),
        one._replace(sentence=one.sentence.replace("_pm", "data.parquet")),
    ):
        assert not Signature.of(one).fits(other)
    assert Signature.of(one)._replace(kind="").fits(one._replace(sentence="anything"))


def test_a_run_that_breaks_nothing_cannot_be_shrunk() -> None:
    wanted = Signature(Property.REJECTED, "reader")
    with pytest.raises(NotReproducedError):
        shrink(toy_case(Toy(), **READERS), DecisionLog(), wanted)


def test_a_small_budget_ends_the_search_with_the_smallest_case_so_far() -> None:
    case = table_case(protocol=HEADER_BEFORE_BODY)
    moves, violation = broken_run(case)
    log = from_schedule(case, moves)
    shrunk = shrink(case, log, Signature.of(violation), step_budget=400)
    assert not shrunk.is_smallest
    assert shrunk.result.violation(Signature.of(violation)) is not None
    assert shrunk.step_count < 1500
