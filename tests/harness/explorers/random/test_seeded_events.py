"""The history checkers judge the history of a simulated run as the simulator does, where they can."""

import pytest
from depth import nightly, sampled

from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import EventKind, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.random.random_run import CUT, FAILED, FAULT_FREE, KILLED
from tornproof.harness.mutation.seeded import Cell, SeededRun, run_seeds
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import load_scenario

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
