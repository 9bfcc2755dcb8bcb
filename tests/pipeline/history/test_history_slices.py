"""A history that is judged in slices gets the judgement that it gets as a whole, however it is cut."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from brute_force_history import brute_force
from depth import nightly, sampled
from history_cases import (
    EXCUSED,
    INCOMPLETE,
    ORDER,
    PLANTS,
    Case,
    all_cases,
    correct_history,
    small_cases,
    small_history,
)

from tornproof.harness.checkers.attempts import read_writing
from tornproof.harness.checkers.recorded import MalformedHistoryError, read_columns, with_dictionaries
from tornproof.harness.checkers.rules import RULES
from tornproof.harness.checkers.sightings import merged, read_sightings, recorded_sightings
from tornproof.harness.checkers.slices import SHARED, ScatteredHistoryError, events_of, link, scan
from tornproof.harness.checkers.snapshot_isolation import Judgement, conclude, deaths, judge, judge_writer, unknown
from tornproof.harness.checkers.timeline import timeline_of
from tornproof.harness.common.history import Event, EventKind, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.history.check import Known, Terms, judge_slice

TERMS = Terms(excused=(EXCUSED,))
OF_EACH_KIND = 18
ALL = nightly(1, id="all")
"""Of so many cases the first; each kind of anomaly is planted in OF_EACH_KIND that follow one another."""


def planted() -> list[Case]:
    return [case for case in all_cases() if case.planted in PLANTS]


def in_slices(slices: Sequence[pa.Table], terms: Terms = TERMS) -> Judgement:
    try:
        scans = pa.concat_tables([scan(own, number) for number, own in enumerate(slices)])
        before, shared = link(scans), events_of(scans, SHARED)
        writing = read_writing(shared)
        timeline = timeline_of(writing)
        seen = functools.reduce(merged, [recorded_sightings(read_columns(own), timeline) for own in slices])
        known = Known(timeline=timeline, seen=read_sightings(seen, timeline), deaths=deaths(shared), before=before)
        parts = [judge_slice(own, known, number, terms) for number, own in enumerate(slices)]
    except MalformedHistoryError as error:
        return unknown(str(error), sum(map(len, slices)))
    return conclude([judge_writer(writing, timeline, seen_survives=terms.seen_survives), *parts])


def by_time(events: pa.Table) -> pa.Table:
    return events.sort_by([("time_ns", "ascending"), ("process", "ascending"), ("sequence", "ascending")])


def cut(events: pa.Table, positions: Sequence[int]) -> list[pa.Table]:
    ends = [*sorted(positions), len(events)]
    return [events.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True) if start < end]


def without_reason(judgement: Judgement) -> Judgement:
    return dataclasses.replace(judgement, reason="")


def test_there_are_enough_histories_of_every_kind() -> None:
    assert len(all_cases()) >= 500
    assert len(planted()) == OF_EACH_KIND * len(PLANTS) >= 200
    assert {case.planted for case in planted()} == set(RULES)
    assert len({case.events for case in all_cases()}) == len(all_cases())


def test_what_was_drawn_once_comes_again() -> None:
    assert all_cases(right=3, of_each_kind=2, mixed=3, incomplete=3)[0] == all_cases()[0]
    assert set(all_cases(right=3, of_each_kind=2, mixed=3, incomplete=3)) <= set(all_cases())


@pytest.mark.parametrize("one_of", [pytest.param(24, id="some"), ALL])
@pytest.mark.parametrize("seen_survives", [True, False], ids=["kill", "power_cut"])
def test_the_judge_and_the_brute_force_agree_on_every_history(seen_survives: bool, one_of: int) -> None:
    # Those of the kill, one of seven of them always, are compared with SQL as well in test_history_check.
    for case in all_cases()[::one_of]:
        judgement = judge(to_arrow(case.events), excused=[EXCUSED], seen_survives=seen_survives)
        found = brute_force(case.events, excused=[EXCUSED], seen_survives=seen_survives)
        assert (judgement.verdict.name, judgement.counts) == (found.verdict, found.counts), case.name


@pytest.mark.parametrize(
    ("first", "count"), [pytest.param(0, 150, id="some"), *(nightly(10_000 * part, 10_000) for part in range(1, 11))]
)
def test_the_judge_and_the_brute_force_agree_on_small_histories(
    first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_order_count = 0
    for seed in range(first, first + count):
        events = small_history(seed)
        seen_survives = seed % 3 > 0
        judgement = judge(to_arrow(events), excused=[EXCUSED], seen_survives=seen_survives)
        found = brute_force(events, excused=[EXCUSED], seen_survives=seen_survives)
        assert (judgement.verdict.name, judgement.counts) == (found.verdict, found.counts), seed
        if judgement.counts.keys() == {ORDER}:
            only_order_count += 1
            with monkeypatch.context() as patch:
                patch.delitem(RULES, ORDER)
                assert judge(to_arrow(events), excused=[EXCUSED], seen_survives=seen_survives).verdict is Verdict.VALID
    assert only_order_count > count // 50


@pytest.mark.parametrize("one_of", [pytest.param(10, id="some"), ALL])
def test_what_a_reader_of_another_slice_saw_counts_however_the_events_are_cut(one_of: int) -> None:
    """With the events in the order of processes, each reader is in a slice of its own."""
    cases = [case for case in small_cases(400) if brute_force(case.events, excused=[EXCUSED]).counts.keys() == {ORDER}]
    assert len(cases) >= 10
    for case in cases[::one_of]:
        whole = judge(to_arrow(case.events), excused=[EXCUSED])
        for events in (by_time(to_arrow(case.events)), to_arrow(case.events).sort_by("process")):
            for step in (1, 2, 5, len(events)):
                assert in_slices(cut(events, range(0, len(events), step))) == whole, (case.name, step)


@pytest.mark.parametrize("one_of", [pytest.param(5, id="some"), ALL])
def test_right_histories_are_valid_and_incomplete_ones_unknown(one_of: int) -> None:
    cases = all_cases()[::one_of]
    verdicts = {
        planted: {brute_force(case.events, excused=[EXCUSED]).verdict for case in cases if case.planted == planted}
        for planted in ("", INCOMPLETE)
    }
    assert verdicts == {"": {"VALID"}, INCOMPLETE: {"UNKNOWN"}}


@pytest.mark.parametrize("number", sampled(30, range(OF_EACH_KIND * len(PLANTS))))
def test_a_planted_anomaly_is_found_and_explained(number: int) -> None:
    case = planted()[number]
    judgement = judge(to_arrow(case.events), excused=[EXCUSED])
    assert judgement.verdict is Verdict.INVALID
    shown = [anomaly for anomaly in judgement.anomalies if anomaly.kind == case.planted]
    assert shown
    assert all(anomaly.events and "None" not in anomaly.sentence for anomaly in shown)


@pytest.mark.parametrize("one_of", [pytest.param(9, id="some"), ALL])
@pytest.mark.parametrize("kind", sorted(PLANTS))
def test_a_judge_without_a_rule_differs_from_the_brute_force(
    kind: str, one_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(RULES, kind)
    for case in [case for case in planted() if case.planted == kind][::one_of]:
        judgement = judge(to_arrow(case.events), excused=[EXCUSED])
        assert judgement.counts != brute_force(case.events, excused=[EXCUSED]).counts


@pytest.mark.parametrize("one_of", [pytest.param(36, id="some"), ALL])
@pytest.mark.parametrize("order", ["time_ns", "process"])
def test_slices_are_judged_as_the_whole_is(order: str, one_of: int) -> None:
    scattered_count = 0
    numbered = list(enumerate(all_cases()[::2]))[::one_of]
    for number, case in numbered:
        whole = judge(to_arrow(case.events), excused=[EXCUSED])
        events = sorted(case.events, key=lambda event: (getattr(event, order), event.process, event.sequence))
        positions = np.random.default_rng(number).integers(1, len(events), 4).tolist()
        try:
            found = in_slices(cut(to_arrow(events), positions))
        except ScatteredHistoryError:
            assert case.planted in (None, INCOMPLETE), case.name
            scattered_count += 1
            continue
        assert without_reason(found) == without_reason(whole), case.name
    assert scattered_count * one_of < 40


@pytest.mark.parametrize("one_of", [pytest.param(4, id="some"), ALL])
def test_each_event_in_a_slice_of_its_own_is_judged_as_the_whole_is(one_of: int) -> None:
    for case in planted()[:: OF_EACH_KIND * one_of]:
        events = by_time(to_arrow(case.events))
        assert in_slices(cut(events, range(len(events)))) == judge(events, excused=[EXCUSED]), case.name


def test_row_groups_that_number_their_texts_each_by_itself_are_judged_as_one() -> None:
    for case in planted()[::OF_EACH_KIND]:
        events = by_time(to_arrow(case.events))
        chunks = pa.concat_tables([with_dictionaries(each) for each in cut(events, [10, 20, 40])])
        assert chunks.column("digest").num_chunks > 1
        assert judge(chunks, excused=[EXCUSED]) == judge(events, excused=[EXCUSED]), case.name


@pytest.mark.parametrize("supervisor", ["zoe", "abe"])
def test_a_death_comes_after_what_its_client_did_at_that_time_whatever_processes_are_called(supervisor: str) -> None:
    # A death was ordered by the name of the process that recorded it, which could make a sound history UNKNOWN.
    events = [
        Event(process="w", sequence=0, client="w", kind=EventKind.RECOVERED, time_ns=0, version=0, digest="a"),
        Event(process="ann", sequence=0, client="ann", kind=EventKind.READ_START, time_ns=10),
        Event(process="ann", sequence=1, client="ann", kind=EventKind.READ_END, time_ns=20, version=0, digest="a"),
        Event(process=supervisor, sequence=0, client="ann", kind=EventKind.KILLED, time_ns=20),
    ]
    table = to_arrow(events)
    assert brute_force(events).verdict == "VALID"
    assert judge(table).verdict is Verdict.VALID
    assert in_slices(cut(table, [2, 3])).verdict is Verdict.VALID


@pytest.mark.nightly
@pytest.mark.parametrize("one_of", [pytest.param(2, id="some"), ALL])
def test_the_order_of_slices_does_not_matter(one_of: int) -> None:
    for case in planted()[:: OF_EACH_KIND // 2 * one_of]:
        slices = cut(by_time(to_arrow(case.events)), [10, 20, 40])
        assert in_slices(slices[::-1]) == in_slices(slices), case.name


def scattered(events: Sequence[Event]) -> list[pa.Table]:
    table = by_time(to_arrow(events))
    return [table.take(list(range(start, len(table), 2))) for start in (0, 1)]


def test_a_process_whose_events_are_mixed_among_slices_must_be_sorted_first() -> None:
    with pytest.raises(ScatteredHistoryError, match=r"the events of process .* are not together"):
        in_slices(scattered(correct_history(1)))


def test_an_event_that_is_twice_there_in_the_place_of_another_shows_when_sorted() -> None:
    events = correct_history(1)
    own = [event for event in events if event.process == "ann"]
    doubled = [event for event in events if event.process != "ann"] + [*own[:3], own[2], *own[4:]]
    with pytest.raises(ScatteredHistoryError, match="the events of process ann are not together"):
        in_slices(cut(to_arrow(doubled), [len(events) - len(own) + 3]))
    judgement = in_slices([to_arrow(doubled)])
    assert judgement.verdict is Verdict.UNKNOWN
    assert "of process ann" in judgement.reason
    assert "an event is missing or twice there" in judgement.reason


def test_a_client_whose_events_are_mixed_among_slices_must_be_sorted_first() -> None:
    events = [
        Event(process="w", sequence=0, client="w", kind=EventKind.RECOVERED, time_ns=0, version=0, digest="a"),
        Event(process="p", sequence=0, client="r", kind=EventKind.READ_START, time_ns=10),
        Event(process="q", sequence=0, client="r", kind=EventKind.READ_END, time_ns=20, version=0, digest="a"),
        Event(process="p", sequence=1, client="r", kind=EventKind.READ_START, time_ns=30),
        Event(process="q", sequence=1, client="r", kind=EventKind.READ_END, time_ns=40, version=0, digest="a"),
    ]
    table = to_arrow(events)
    assert in_slices([table]).verdict is Verdict.VALID
    with pytest.raises(ScatteredHistoryError, match="the events of client r are not together"):
        in_slices([table.filter(pc.equal(table["process"], name)) for name in "wpq"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sequence": 3}, "process ann has 4 events, numbered from 0 to 4: an event is missing or twice there"),
        ({"time_ns": 1}, "event 2 of process ann (read_start of ann) is earlier than the one before it in its process"),
    ],
)
def test_what_is_missing_or_wrong_between_slices_is_unknown(changes: dict[str, int], reason: str) -> None:
    slices = [
        [Event(process="w", sequence=0, client="w", kind=EventKind.RECOVERED, time_ns=0, version=0, digest="a")],
        [
            Event(process="ann", sequence=0, client="ann", kind=EventKind.READ_START, time_ns=10),
            Event(process="ann", sequence=1, client="ann", kind=EventKind.READ_END, time_ns=20, version=0, digest="a"),
        ],
        [
            Event(process="ann", sequence=2, client="ann", kind=EventKind.READ_START, time_ns=30),
            Event(process="ann", sequence=3, client="ann", kind=EventKind.READ_END, time_ns=40, version=0, digest="a"),
        ],
    ]
    good = in_slices([to_arrow(each) for each in slices])
    assert (good.verdict, good.denominators["reads"]) == (Verdict.VALID, 2)
    first = dataclasses.replace(
        slices[2][0],
        sequence=changes.get("sequence", slices[2][0].sequence),
        time_ns=changes.get("time_ns", slices[2][0].time_ns),
    )
    shift = first.sequence - slices[2][0].sequence
    slices[2] = [first, dataclasses.replace(slices[2][1], sequence=3 + max(0, shift))]
    judgement = in_slices([to_arrow(each) for each in slices])
    assert (judgement.verdict, judgement.denominators) == (Verdict.UNKNOWN, {"events": 5})
    assert reason in judgement.reason
