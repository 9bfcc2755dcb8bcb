"""The damage explorer as a whole: its counts and bounds, and that no failure of its own leads to VALID."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import table_builder as tb
from depth import nightly
from explorations import explore_damage
from recorded_phases import AsRecorded

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import blind_to_metadata, replaced
from tornproof.harness.common.verdict import NOT_TRIED, Phase, Verdict, calls_at_most
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.explorer import (
    RECHECKS_MAX,
    TASK_SIZE,
    WEIGHT_BYTES,
    damage_exploration,
    judge_task,
    plan,
    plan_bits_and_lengths,
)
from tornproof.harness.explorers.corruption.judge import FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Damage, Flip, Kind, Task, split
from tornproof.harness.explorers.corruption.report import COVERAGE_GOALS, Plan, Run, phase_of
from tornproof.harness.explorers.corruption.served import NAME, PATH, served_image
from tornproof.harness.parallel import tasks
from tornproof.harness.parallel.tasks import TableQuestion
from tornproof.harness.replay import replay_finding
from tornproof.impl.storage.operating_system import OperatingSystemStorage

TABLE = tb.SMALL
# A timestamp alone, for runs whose counts do not matter.
SMALL = tb.build({}, has_meta=False)
ONLY_TXN = TABLE.with_file("_txn", tb.txn(rows=0, token=0, entries=[]))
SIZES = {name: len(content) for name, content in TABLE.files.items() if name not in tb.BESIDE}
PAIR_COUNT = 40
FEW = 2_000
BITS_AND_LENGTHS = 9 * sum(SIZES.values())


@pytest.fixture(autouse=True)
def few_servers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Files of servers are the same whatever the table is, and `test_served` changes all of them, as workers do."""
    if "any_number_of_workers" not in request.node.name:
        one = {NAME: served_image().files[f"{PATH}/{NAME}"]}
        monkeypatch.setattr("tornproof.harness.explorers.corruption.judge.served_files", lambda: one)


@functools.cache
def damage_count() -> int:
    """All damages of TABLE that are planned, and the pairs."""
    return sum(task.size for task in plan(Judge(TABLE.image(), "/table"))) + PAIR_COUNT


def explore(table: tb.BuiltTable = TABLE, *, pairs_max: int = PAIR_COUNT, **more: Any) -> Phase:
    return explore_damage(table.image(), "/table", pairs_max=pairs_max, **more)


def by_workers(count: int) -> Phase:
    """What so many processes find together."""
    question = TableQuestion(image=TABLE.image(), path="/table")
    outcome = tasks.explore({"damage": damage_exploration(FEW, PAIR_COUNT)}, question, workers=count)
    assert outcome.interrupted_by is None and not outcome.is_out_of_time
    (phase,) = outcome.phases
    return phase


@functools.cache
def explored() -> Phase:
    return explore()


@functools.cache
def explored_in_part() -> Phase:
    return explore(damages_max=FEW)


@functools.cache
def explored_blindly() -> Phase:
    """What a reader that believes all metadata makes of TABLE."""
    with blind_to_metadata():
        return explore()


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_workers_finds_what_one_process_finds(count: int) -> None:
    assert replace(by_workers(count), seconds=0.0, cpu_seconds=0.0) == explore(damages_max=FEW)


def test_every_damage_is_counted_once_by_its_kind_and_once_by_its_outcome(as_recorded: AsRecorded) -> None:
    first = explored()
    as_recorded(first)
    assert (first.verdict, first.complete, first.note, first.controls) == (Verdict.VALID, True, "", "passed")
    by_outcome = {outcome.value: first.counts[outcome.value] for outcome in Outcome}
    by_kind = {kind.value: first.counts[kind.value] for kind in Kind}
    assert first.counts == by_outcome | by_kind
    assert first.explored == sum(by_outcome.values()) == sum(by_kind.values()) == damage_count() > BITS_AND_LENGTHS
    assert all(by_kind.values()) and f"{PAIR_COUNT} pairs of flips that alone were not rejected (of " in first.bound
    assert f"{by_kind['stale words']} stale words (against the 3 versions before)" in first.bound
    assert first.counts["silent"] == 0 < first.counts["exposure"]
    # pyarrow leaves out field_id, which real tables have: a writer's wrong column ID is not detected then.
    assert first.fields[tb.PM]["column ID"]["forged"] == first.counts["forged"] == 4
    assert first.counts["exposure"] + first.counts["rollback"] == sum(first.exposures.values())
    assert all(first.reached[name] > 0 for name in COVERAGE_GOALS)
    assert first.reached["a second look by the whole table"] > 50
    totals = {
        outcome.value: sum(found.get(outcome.value, 0) for fields in first.fields.values() for found in fields.values())
        for outcome in Outcome
    }
    assert totals == by_outcome


def test_the_plan_has_every_damage_once_and_flips_and_cuts_first(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/chain/table")
    judge = Judge(capture_table(OperatingSystemStorage(), path), path)
    planned_tasks = plan(judge)
    order = [list(Kind).index(task.kind) for task in planned_tasks[6:]]
    assert order == sorted(order)
    assert {task.kind for task in planned_tasks[6:]} == set(Kind) - {Kind.FLIP, Kind.CUT, Kind.PAIR}
    assert all((task.size, task.step) == (len(listed(judge, task.kind, task.file)), 1) for task in planned_tasks[6:])
    planned = {(task.file, task.cuts): (task.start, task.stop, task.step) for task in planned_tasks[:6]}
    assert planned == {
        (file, cuts): (0, judge.size_bytes(file) * (1 if cuts else 8), 1)
        for file in judge.regions
        for cuts in (False, True)
    }


@pytest.mark.nightly
@pytest.mark.parametrize("damages_max", [*map(nightly, (BITS_AND_LENGTHS, BITS_AND_LENGTHS - 1, 2_000, 40)), 300])
def test_of_many_damages_an_even_sample_is_tried_and_the_bound_says_of_which(damages_max: int) -> None:
    ranges = plan_bits_and_lengths(Judge(TABLE.image(), "/table"), damages_max)
    steps = {task.file: task.step for task in ranges}
    # Damage of files whose metadata is small costs one each.
    assert sum(task.size for task in ranges) <= damages_max + len(ranges)
    assert all(step % 2 for step in steps.values())
    assert steps["_txn"] == steps[tb.PM] and (steps[tb.PM] == 1 or damages_max < 18 * (SIZES["_txn"] + SIZES[tb.PM]))
    phase = explore(damages_max=damages_max, pairs_max=0)
    assert phase.verdict is Verdict.VALID, phase.note
    for file, step in steps.items():
        each = "every bit and length" if step == 1 else f"one of {step} bits and lengths"
        assert f"{file.rpartition('/')[2]}: {each} (1 files, {SIZES[file]} bytes)" in phase.bound
    tried = phase.counts[Kind.FLIP.value] + phase.counts[Kind.CUT.value]
    assert tried == sum(task.size for task in ranges)


def test_a_damage_of_much_metadata_counts_as_many(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/bloom/table")
    judge = Judge(capture_table(OperatingSystemStorage(), path), path)
    sizes = {task.file.rpartition("/")[2]: task.size for task in plan_bits_and_lengths(judge, 200_000)}
    assert sum(sizes.values()) < 100_000, "its _pm of 11 KB makes two damages of one"


def test_a_damage_of_a_file_costs_what_its_own_footer_does() -> None:
    lengths = {"small": 100, "large": 25 * WEIGHT_BYTES}
    partitions = {
        name: SimpleNamespace(
            metadata=SimpleNamespace(
                generation=SimpleNamespace(
                    position=SimpleNamespace(fixed=SimpleNamespace(parquet_footer_length=length))
                )
            )
        )
        for name, length in lengths.items()
    }
    judge: Any = SimpleNamespace(
        regions=[f"{name}/data.parquet" for name in lengths], size_bytes=lambda _: 1_000, partitions=partitions
    )
    judge.of = lambda _: judge
    # 9,000 bits and lengths of each file: once, and 25 times.
    assert {task.step for task in plan_bits_and_lengths(judge, 26 * 9_000)} == {1}
    assert {task.step for task in plan_bits_and_lengths(judge, 26 * 3_000)} == {3}


def test_of_a_sample_the_bound_counts_what_is_tried_of_it_and_what_was_left() -> None:
    sample = Task(file="f", kind=Kind.STALE_WORD, start=0, stop=100, step=7)
    (piece, *_), left = split(sample, 5), replace(sample, start=7, step=21)
    run = Run(plan=Plan(tasks=(sample,), sampled=frozenset({(sample.kind, "f")}), older_count=3), left=[left])
    assert (sample.size, left.size, piece.step) == (15, 5, 21)
    assert (
        f"15 {sample.kind.value} (against the 3 versions before), a sample, 5 of them not tried" in phase_of(run).bound
    )


def test_what_a_time_limit_left_out_is_reported_as_a_smaller_bound() -> None:
    phase = explore(has_time=calls_at_most(5))
    assert 0 < phase.explored <= 5 * TASK_SIZE
    assert (phase.verdict, phase.complete) == (Verdict.UNKNOWN, False)
    assert phase.note == f"never reached: {', '.join(COVERAGE_GOALS)}"
    planned = BITS_AND_LENGTHS - phase.explored
    assert (
        f"data.parquet: every bit and length (1 files, {SIZES[tb.DATA]} bytes), {9 * SIZES[tb.DATA]} of them not"
        in (phase.bound)
    )
    left = sum(map(int, re.findall(r"bytes\), (\d+) of them not tried", phase.bound)))
    assert left == planned
    assert "pairs of flips" not in phase.bound


def test_no_time_at_all_is_unknown() -> None:
    phase = explore(has_time=calls_at_most(0))
    assert (phase.verdict, phase.explored, phase.complete) == (Verdict.UNKNOWN, 0, False)
    assert phase.note == "the run was cut before anything was explored"


def test_an_exception_of_the_judge_is_unknown_and_names_the_damage() -> None:
    unlucky = Flip(tb.PM, 0)

    def failing(self: Judge, damage: Damage) -> tuple[Outcome, str]:
        if damage == unlucky:
            raise RuntimeError("out of luck")
        return judge(self, damage)

    judge = Judge.judge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "judge", failing)
        phase = explore(SMALL, damages_max=FEW)
    assert phase.verdict is Verdict.UNKNOWN
    assert phase.note == f"1 damages could not be judged, such as {unlucky}: RuntimeError: out of luck"
    assert sum(phase.counts[outcome.value] for outcome in Outcome) == phase.explored - 1


def test_two_ways_of_judging_that_disagree_are_unknown() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "judge_whole", lambda self, damage: Outcome.LEGAL_STATE)
        phase = explore(SMALL, damages_max=FEW)
    assert phase.verdict is Verdict.UNKNOWN
    assert "by its part, legal state by the whole" in phase.note


def test_a_failing_control_is_unknown() -> None:
    with replaced(
        "tornproof.harness.explorers.corruption.explorer:failed_controls", lambda judge: ["the light is off"]
    ):
        phase = explore(SMALL, damages_max=FEW)
    assert (phase.verdict, phase.controls, phase.note) == (
        Verdict.UNKNOWN,
        "the light is off",
        "a positive control failed",
    )


def test_a_coverage_goal_that_is_never_reached_is_unknown() -> None:
    with replaced("tornproof.harness.explorers.corruption.judge:_check_name", lambda field: "another name"):
        phase = explore(SMALL, damages_max=FEW)
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, f"never reached: {COVERAGE_GOALS[1]}")


def test_a_table_without_parquet_partitions_is_unknown() -> None:
    phase = explore(ONLY_TXN)
    assert phase.note == "the table has no parquet partition, and a positive control needs one"
    assert (phase.verdict, phase.controls) == (Verdict.UNKNOWN, NOT_TRIED)


def test_a_blind_reader_is_invalid_with_one_finding_a_kind_and_field() -> None:
    phase = explored_blindly()
    assert phase.verdict is Verdict.INVALID
    assert phase.counts["silent"] > len(phase.findings) > 0 < phase.counts["forged"]
    silent = {
        (file, field)
        for file, fields in phase.fields.items()
        for field, found in fields.items()
        if any(found.get(outcome.value) for outcome in FOUND)
    }
    found = [(each.evidence["kind"], each.evidence["file"], each.evidence["field"]) for each in phase.findings]
    assert len(set(found)) == len(found) and {(file, field) for _, file, field in found} == silent
    assert {kind for kind, *_ in found} >= {"flip", "fields set", "words zeroed", "misdirected words"}
    identity = next(each for each in phase.findings if each.evidence["field"] == "column ID")
    assert identity.sentence.startswith(f"With bit 0 of byte {identity.evidence['offset_bytes']} of {tb.PM} flipped")


def test_every_finding_is_plain_data_that_replays() -> None:
    image, findings = TABLE.image(), explored_blindly().findings
    with blind_to_metadata():
        for finding in findings:
            again = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
            assert replay_finding(again, image, "/table") is Verdict.INVALID, finding.sentence
    assert {replay_finding(finding, image, "/table") for finding in findings} == {Verdict.VALID}


@pytest.mark.nightly
def test_second_judgements_are_spread_over_the_whole_run() -> None:
    judge = Judge(SMALL.image(), "/table")
    pieces = [piece for task in plan(judge, FEW) for piece in split(task, TASK_SIZE)]
    phase = explore(SMALL, damages_max=FEW)
    every = -(-len(pieces) // RECHECKS_MAX)
    assert phase.reached["a second look by the whole table"] == -(-len(pieces) // every) > 10
    alone = judge_task(judge, replace(pieces[0], is_rechecked=True))
    assert alone.rechecked_count == 1


@pytest.mark.nightly
def test_a_table_whose_directories_have_other_names_after_a_commit_is_explored(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/oddcols/table")
    image = capture_table(OperatingSystemStorage(), path)
    phase = explore_damage(image, path, damages_max=100)
    assert (phase.verdict, phase.note, phase.controls) == (Verdict.VALID, "", "passed")
    assert phase.counts["stale words"] and phase.counts["blocks written elsewhere"]
