"""Random operations, schedules and crashes: they can be executed, and what is broken is found."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from depth import nightly, sampled
from explorations import explore_random
from recorded_phases import AsRecorded

from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import EventKind, to_arrow
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import HasTime, Phase, Verdict, always, calls_at_most
from tornproof.harness.counterexamples.moves import from_schedule
from tornproof.harness.counterexamples.run import Replayer
from tornproof.harness.explorers.random.random_cases import COVERAGE_GOALS, sessions_of
from tornproof.harness.explorers.random.random_run import CUT, FAILED, FAULT_FREE, KILLED, Trace, draw_injected_fault
from tornproof.harness.explorers.random.random_scenarios import random_scenario
from tornproof.harness.explorers.random.run_events import digest_of
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.mutation.seeded import Cell, SeededRun, run_seeds
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.simulation import case_under
from tornproof.harness.systems.table_readers import Seen


def explored(preset: str, *, examples: int = 60, seed: int = 0, has_time: HasTime = always) -> Phase:
    return explore_random(PRESETS[preset], case_under, examples=examples, seed=seed, has_time=has_time)


def chance_of(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize("seed", range(25))
def test_random_scenarios_can_be_executed(seed: int) -> None:
    scenario = random_scenario(chance_of(seed))
    with remembered_decoding():
        case = case_under(scenario, PRESETS["hardened"])
        is_changed = case.oracle((*case.first_session, *case.second_session)) != case.oracle(())
    assert is_changed is any(not commit.abandon for commit in (*scenario.first, *scenario.second))


def broken_by_run_and_replay(seed: int) -> list[list[str]]:
    """Return the first property that a random run of a release with defects breaks, and that its moves break."""
    chance = chance_of(seed)
    scenario = random_scenario(chance)
    with remembered_decoding():
        case = case_under(scenario, PRESETS["questdb-2026-07"])
        with sessions_of(case) as sessions:
            trace = Trace(sessions, chance)
            trace.go(draw_injected_fault(scenario, chance))
        with Replayer(case) as replayer:
            again = replayer.play(from_schedule(case, trace.moves))
    return [
        [violation.property for violation in violations[:1]]
        for violations in (trace.world.progress.violations, again.violations)
    ]


SEEDS = 8


def test_the_moves_of_a_run_lead_to_its_end_again() -> None:
    compared = []
    for seed in range(SEEDS):
        with suppress(NotExplorableError):  # this release rejects some scenarios in a fault-free run
            compared.append(broken_by_run_and_replay(seed))
    assert len(compared) > SEEDS // 2
    assert all(first == again for first, again in compared)
    assert any(first for first, _ in compared)


@pytest.mark.parametrize("examples", [10, nightly(60)])
def test_our_implementation_is_valid_and_the_bound_says_what_was_generated(
    examples: int, as_recorded: AsRecorded
) -> None:
    phase = explored("hardened", examples=examples)
    as_recorded(phase)
    assert (phase.verdict, phase.controls, phase.complete) == (Verdict.VALID, "passed", False), phase.note
    assert phase.explored > examples and phase.counts["refused undisturbed"] == 0
    assert all(phase.reached[name] for name in COVERAGE_GOALS)
    assert f"{phase.explored} runs of {examples} test cases, random from seed 0" in phase.bound


@pytest.mark.parametrize(
    ("preset", "examples"),
    [
        nightly("questdb-2026-07", 6),
        nightly("specification", 6),
        nightly("questdb-2026-07", 40),
        nightly("specification", 40),
    ],
)
def test_other_releases_are_detected_by_small_logs_that_replay(preset: str, examples: int) -> None:
    phase = explored(preset, examples=examples)
    assert phase.verdict is Verdict.INVALID
    for finding in phase.findings:
        assert finding.evidence["shrunk"]["operations"][1] <= 4
        replayed = replay_planted(finding)
        assert (replayed.verdict, replayed.is_same) == (Verdict.INVALID, True)


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_runs_and_another_one_others() -> None:
    first, again, other = (explored("hardened", examples=6, seed=seed) for seed in (3, 3, 4))
    assert (first.counts, first.reached) == (again.counts, again.reached)
    assert first.reached != other.reached


def test_without_time_for_one_run_there_is_no_verdict() -> None:
    phase = explored("hardened", has_time=calls_at_most(0))
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, "nothing was run")


# Histories of runs


NOT_IN_HISTORY = {Property.COMMIT, Property.RECOVERY}
"""A history says that a commit failed or that nobody has recovered, but not whether that is correct."""
OURS = [
    "append-and-power-cut",
    "a-rewrite-a-commit-and-a-crash",
    "two-orphans",
    "reader-falls-behind",
    "two-pinned-readers-and-purge",
    "sync-fails",
]


def cell(scenario: str, preset: str = "hardened", fault: str = "") -> Cell:
    return Cell(scenario=load_scenario(scenario), preset=preset, fault=fault, watches_steps=False)


def judged(run: SeededRun) -> tuple[Verdict, str]:
    judgement = judge(to_arrow(run.events), seen_survives=run.is_seen_kept)
    return judgement.verdict, judgement.reason


@pytest.mark.parametrize("scenario", sampled(2, OURS))
def test_histories_of_our_implementation_are_valid(scenario: str) -> None:
    runs = run_seeds(cell(scenario), 0, range(20))
    assert {judged(run) for run in runs} == {(Verdict.VALID, "")}


WRONG = [
    (cell("append-and-power-cut", "specification"), 30),
    (cell("two-commits-three-readers", "questdb-9.4.2"), 30),
    # Few runs lose this version and then read it.
    (cell("append-and-power-cut", fault="version not synced (F5)"), 80),
    (cell("append-and-power-cut", fault="syncs of _txn are only started"), 30),
    (cell("append-and-power-cut", fault="version goes up by two"), 30),
    (cell("record-shrinks", fault="size of the table stays"), 30),
    (cell("one-commit-one-reader", fault="decoded by the newest footer"), 30),
]


@pytest.mark.parametrize(
    ("of", "seeds"),
    [*sampled(2, WRONG), *(nightly(of, 80) for of, seeds in WRONG if seeds < 80)],
    ids=lambda value: " ".join(filter(None, value.key)) if isinstance(value, Cell) else str(value),
)
def test_histories_of_broken_systems_get_the_verdict_of_the_simulator_where_they_show_it(of: Cell, seeds: int) -> None:
    runs = run_seeds(of, 0, range(seeds))
    visible = [run for run in runs if run.property not in NOT_IN_HISTORY]
    assert [judged(run)[0] for run in visible] == [run.verdict for run in visible]
    assert {run.verdict for run in visible} == {Verdict.VALID, Verdict.INVALID}


def kinds_of(run: SeededRun) -> list[tuple[str, EventKind]]:
    return [(event.client, event.kind) for event in run.events]


def test_a_history_begins_with_the_initial_version_and_names_who_was_killed() -> None:
    by_fault: dict[str, list[SeededRun]] = {}
    for run in run_seeds(cell("append-and-power-cut"), 0, range(60)):
        by_fault.setdefault(run.injected_fault, []).append(run)
        assert kinds_of(run)[0] == ("writer", EventKind.RECOVERED) and run.events[0].time_ns == 0
        times = [event.time_ns for event in run.events]
        assert times == sorted(times) and times[-1] <= run.step_count
        assert [event.sequence for event in run.events] == list(range(len(run.events)))
    dead = {
        fault: [client for client, kind in kinds_of(runs[0]) if kind is EventKind.KILLED]
        for fault, runs in by_fault.items()
    }
    assert dead[FAULT_FREE] == [] and dead[KILLED] == ["writer"] and dead[CUT] == ["writer", "reader 1"]
    assert "writer" in dead[FAILED]
    failed = [kind for run in by_fault[FAILED] for _, kind in kinds_of(run)]
    assert EventKind.COMMIT_FAILED in failed


def test_an_abandoned_commit_makes_no_version_and_no_event() -> None:
    scenario = load_scenario("two-orphans")
    abandoned = [commit.abandon for commit in scenario.first].count(True)
    fault_free = [run for run in run_seeds(cell("two-orphans"), 0, range(20)) if run.injected_fault == FAULT_FREE]
    starts = [event.kind for event in fault_free[0].events].count(EventKind.COMMIT_START)
    assert abandoned > 0 and starts == len(scenario.first) - abandoned


def test_observations_that_differ_in_directories_rows_or_values_have_other_digests() -> None:
    seen = Seen(version=1, names=("2024-01-01.1",), row_count=2, digest="ab")
    others = [replace(seen, names=("2024-01-01.2",)), replace(seen, row_count=3), replace(seen, digest="ba")]
    assert len({digest_of(each) for each in (seen, *others)}) == 4
    assert digest_of(replace(seen, version=2)) == digest_of(seen)
