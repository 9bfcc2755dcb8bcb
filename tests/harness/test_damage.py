"""The damage explorer as a whole: its counts, its budget, and that no mishap of its own becomes a VALID."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deadly_worker
import pyarrow as pa
import pytest
import table_builder as tb

from harness.check import capture_table
from harness.disk.image import DiskImage
from harness.explore.damage import MUST_REACH, SECOND_LOOKS, TASK_SIZE, Tally, explore_damage, judge_task, plan
from harness.explore.damage_catalogue import listed
from harness.explore.damage_judge import Judge, Outcome
from harness.explore.damage_plan import Damage, Flip, Kind, Task, split
from harness.faults.patch import blind_to_metadata, replaced
from harness.replay import replay_finding
from harness.verdict import Phase, Verdict
from impl.operating_system import OperatingSystemStorage
from impl.questdb_types import TypeTag

TABLE = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, None]))})
# A timestamp alone, for runs whose counts do not matter.
SMALL = tb.build({}, has_meta=False)
ONLY_TXN = TABLE.with_file("_txn", tb.txn(rows=0, token=0, entries=[]))
SIZES = {name: len(content) for name, content in TABLE.files.items() if name != "_meta"}
PAIR_COUNT = 40
SECONDS = 60
BITS_AND_LENGTHS = 9 * sum(SIZES.values())
REQUIRED_COUNT = 9 * (SIZES["_txn"] + SIZES[tb.PM])


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.explore.damage.PAIRS_PER_SECOND", PAIR_COUNT / SECONDS)


@functools.cache
def damage_count() -> int:
    """All damages of TABLE that are planned, and the pairs."""
    return sum(task.size for task in plan(Judge(TABLE.image(), "/table"))) + PAIR_COUNT


class Clock:
    """A clock that stands until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def explore(
    table: tb.BuiltTable = TABLE,
    *,
    workers: int = 2,
    clock: Callable[[], float] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    complete_bytes: int = 64 * 1024,
) -> Phase:
    return explore_damage(
        table.image(),
        "/table",
        clock=clock or Clock(),
        seconds=SECONDS,
        workers=workers,
        complete_bytes=complete_bytes,
        on_progress=on_progress,
    )


def in_process(pieces: list[Task], image: DiskImage, path: str, *rest: Any) -> Iterator[Tally]:
    """Stands in for the workers, so that what is patched here holds for them too."""
    judge = Judge(image, path)
    yield from (judge_task(judge, piece) for piece in pieces)
    for wave in rest[-1]:
        yield from (judge_task(judge, piece) for piece in wave())


def explore_here(table: tb.BuiltTable = TABLE) -> Phase:
    with replaced("harness.explore.damage:_run", in_process):
        return explore(table)


@functools.cache
def explored_blindly() -> Phase:
    """What a reader that believes all metadata makes of TABLE."""
    with blind_to_metadata():
        return explore_here()


def test_two_workers_find_what_one_process_finds_and_find_it_again() -> None:
    seen: list[tuple[int, int]] = []
    first = explore(on_progress=lambda done, total: seen.append((done, total)))
    assert first == explore_here()
    assert (first.verdict, first.complete, first.note, first.controls) == (Verdict.VALID, True, "", "passed")
    by_outcome = {outcome.value: first.counts[outcome.value] for outcome in Outcome}
    by_kind = {kind.value: first.counts[kind.value] for kind in Kind}
    assert first.counts == by_outcome | by_kind
    assert first.explored == sum(by_outcome.values()) == sum(by_kind.values()) == damage_count() > BITS_AND_LENGTHS
    assert all(by_kind.values()) and f"{PAIR_COUNT} pairs of flips that alone were let pass (of " in first.bound
    assert f"{by_kind['stale words']} stale words (against the 3 versions before)" in first.bound
    assert first.counts["silent"] == 0 < first.counts["exposure"]
    # pyarrow leaves out field_id, which real tables have: a writer could give a column another's number unseen.
    assert first.fields[tb.PM]["column ID"]["forged"] == first.counts["forged"] == 4
    assert first.counts["exposure"] + first.counts["rollback"] == sum(first.exposures.values())
    assert all(first.reached[name] > 0 for name in MUST_REACH)
    assert first.reached["a second look by the whole table"] > 50
    assert seen[-1] == (damage_count(), damage_count())
    assert sorted(seen) == seen
    totals = {
        outcome.value: sum(found.get(outcome.value, 0) for fields in first.fields.values() for found in fields.values())
        for outcome in Outcome
    }
    assert totals == by_outcome


@pytest.mark.nightly
def test_one_worker_finds_what_one_process_finds() -> None:
    assert explore(workers=1) == explore_here()


def test_the_plan_holds_every_damage_once_and_what_must_be_done_first(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/chain/table")
    judge = Judge(capture_table(OperatingSystemStorage(), path), path)
    tasks = plan(judge)
    assert [task.required for task in tasks] == [True] * 4 + [False] * (len(tasks) - 4)
    order = [list(Kind).index(task.kind) for task in tasks[6:]]
    assert order == sorted(order)
    assert {task.kind for task in tasks[6:]} == set(Kind) - {Kind.FLIP, Kind.CUT, Kind.PAIR}
    assert all((task.size, task.step) == (len(listed(judge, task.kind, task.file)), 1) for task in tasks[6:])
    planned = {(task.file, task.cuts): (task.start, task.stop, task.step) for task in tasks[:6]}
    assert planned == {
        (file, cuts): (0, judge.size_bytes(file) * (1 if cuts else 8), 1)
        for file in judge.regions
        for cuts in (False, True)
    }


def test_a_large_data_file_is_sampled_with_an_odd_step_and_said_so() -> None:
    tasks = plan(Judge(TABLE.image(), "/table"), complete_bytes=100)
    steps = {task.file: task.step for task in tasks if task.kind in (Kind.FLIP, Kind.CUT)}
    assert steps == {"_txn": 1, tb.PM: 1, tb.DATA: math.ceil(SIZES[tb.DATA] / 100) | 1}
    with replaced("harness.explore.damage:_run", in_process):
        phase = explore(complete_bytes=100)
    assert (phase.verdict, phase.complete) == (Verdict.VALID, False)
    assert f"data.parquet: one of {steps[tb.DATA]} bits and lengths in the largest" in phase.bound
    assert "_pm: every bit and length" in phase.bound


def test_a_budget_that_ends_before_txn_and_pm_are_done_is_unknown() -> None:
    # Once to start with, once for the first pieces; then the time is over.
    times = itertools.chain([0.0, 0.0], itertools.repeat(1e9))
    phase = explore(clock=lambda: next(times))
    assert 0 < phase.explored <= 2 * 2 * TASK_SIZE
    assert (phase.verdict, phase.complete, phase.seconds) == (Verdict.UNKNOWN, False, 1e9)
    assert phase.note == "the time was over before all damage of _txn and _pm was tried"
    left = BITS_AND_LENGTHS - phase.explored
    assert (
        f"data.parquet: every bit and length (1 files, {SIZES[tb.DATA]} bytes), {9 * SIZES[tb.DATA]} left"
        in phase.bound
    )
    assert left > 9 * SIZES[tb.DATA]


def test_a_budget_that_ends_within_data_alone_is_still_valid() -> None:
    clock = Clock()

    def on_progress(done: int, total: int) -> None:
        clock.now = 1e9 if done >= REQUIRED_COUNT else 0.0

    phase = explore(clock=clock, on_progress=on_progress)
    assert REQUIRED_COUNT <= phase.explored < BITS_AND_LENGTHS
    assert (phase.verdict, phase.complete, phase.note) == (Verdict.VALID, False, "")
    assert f"{BITS_AND_LENGTHS - phase.explored} left for lack of time" in phase.bound
    assert phase.bound.count("left for lack of time") == 1
    assert phase.bound.endswith("; nothing else for lack of time")


def test_a_budget_that_ends_within_the_other_kinds_is_still_valid_and_says_which() -> None:
    clock = Clock()

    def on_progress(done: int, total: int) -> None:
        clock.now = 1e9 if done > BITS_AND_LENGTHS + TASK_SIZE else 0.0

    phase = explore(clock=clock, on_progress=on_progress)
    assert BITS_AND_LENGTHS < phase.explored < damage_count() - PAIR_COUNT
    assert (phase.verdict, phase.complete, phase.note) == (Verdict.VALID, False, "")
    for kind in (Kind.ZEROED_WORD, Kind.STALE_BLOCK, Kind.MISDIRECTED_WORD, Kind.FORGED):
        count = re.search(rf"(\d+) {kind.value}[^;]*, (\d+) left for lack of time", phase.bound)
        assert count is not None and count[1] == count[2]
    assert phase.bound.endswith("; nothing else for lack of time")


def test_no_time_at_all_is_unknown() -> None:
    times = itertools.chain([0.0], itertools.repeat(1e9))
    phase = explore(clock=lambda: next(times))
    assert (phase.verdict, phase.explored, phase.complete) == (Verdict.UNKNOWN, 0, False)


@pytest.mark.parametrize("name", ["die_at_cuts", "exit_at_once"])
def test_a_worker_that_dies_makes_the_phase_unknown(name: str) -> None:
    with replaced("harness.explore.damage:_judge_in_worker", getattr(deadly_worker, name)):
        phase = explore()
    assert (phase.verdict, phase.complete) == (Verdict.UNKNOWN, False)
    assert phase.note.startswith("a worker process died while it judged a damage")
    assert phase.explored < damage_count()


def test_an_exception_of_the_judge_is_unknown_and_names_the_damage() -> None:
    unlucky = Flip(tb.PM, 77)

    def failing(self: Judge, damage: Damage) -> tuple[Outcome, str]:
        if damage == unlucky:
            raise RuntimeError("out of luck")
        return judge(self, damage)

    judge = Judge.judge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "judge", failing)
        phase = explore_here(SMALL)
    assert phase.verdict is Verdict.UNKNOWN
    assert phase.note == f"1 damages could not be judged, such as {unlucky}: RuntimeError: out of luck"
    assert sum(phase.counts[outcome.value] for outcome in Outcome) == phase.explored - 1


def test_two_ways_of_judging_that_disagree_are_unknown() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "judge_whole", lambda self, damage: Outcome.LEGAL_STATE)
        phase = explore_here(SMALL)
    assert phase.verdict is Verdict.UNKNOWN
    assert "by its part, legal state by the whole" in phase.note


def test_a_failing_control_is_unknown() -> None:
    with replaced("harness.explore.damage:failed_controls", lambda judge: ["the light is off"]):
        phase = explore_here(SMALL)
    assert (phase.verdict, phase.controls, phase.note) == (
        Verdict.UNKNOWN,
        "the light is off",
        "a positive control failed",
    )


def test_a_must_reach_point_that_is_never_reached_is_unknown() -> None:
    with replaced("harness.explore.damage_judge:_check_name", lambda field: "another name"):
        phase = explore_here(SMALL)
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, f"never reached: {MUST_REACH[1]}")


def test_a_table_without_parquet_partitions_is_unknown() -> None:
    phase = explore_here(ONLY_TXN)
    assert phase.verdict is Verdict.UNKNOWN
    assert "the table has no parquet partition, so there was nothing to explore" in phase.note


def test_a_blind_reader_is_invalid_with_one_finding_a_kind_and_field() -> None:
    phase = explored_blindly()
    assert phase.verdict is Verdict.INVALID
    assert phase.counts["silent"] > len(phase.findings) > 0 < phase.counts["forged"]
    silent = {
        (file, field)
        for file, fields in phase.fields.items()
        for field, found in fields.items()
        if found.get(Outcome.SILENT.value)
    }
    found = [(each.evidence["kind"], each.evidence["file"], each.evidence["field"]) for each in phase.findings]
    assert len(set(found)) == len(found) and {(file, field) for _, file, field in found} == silent
    assert {kind for kind, *_ in found} >= {"flip", "fields set", "words zeroed", "misdirected words"}
    identity = next(each for each in phase.findings if each.evidence["field"] == "column ID")
    assert identity.sentence.startswith(f"With bit 0 of byte {identity.evidence['offset_bytes']} of {tb.PM} flipped")


def test_every_finding_is_plain_data_from_which_it_is_seen_again() -> None:
    image, findings = TABLE.image(), explored_blindly().findings
    with blind_to_metadata():
        for finding in findings:
            again = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
            assert replay_finding(again, image, "/table") is Verdict.INVALID, finding.sentence
    assert {replay_finding(finding, image, "/table") for finding in findings} == {Verdict.VALID}


def test_findings_do_not_depend_on_which_worker_was_first() -> None:
    def backwards_in_process(pieces: list[Task], *rest: Any) -> Iterator[Tally]:
        return in_process(pieces[::-1], *rest)

    with blind_to_metadata(), replaced("harness.explore.damage:_run", backwards_in_process):
        backwards = explore()
    assert backwards == explored_blindly()


def test_second_looks_are_spread_over_the_whole_run() -> None:
    judge = Judge(SMALL.image(), "/table")
    tasks = [piece for task in plan(judge) for piece in split(task, TASK_SIZE)]
    phase = explore_here(SMALL)
    assert phase.reached["a second look by the whole table"] == min(len(tasks), SECOND_LOOKS)
    alone = judge_task(judge, replace(tasks[0], second_look=True))
    assert alone.second_looks == 1
