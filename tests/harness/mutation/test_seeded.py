"""Seeded runs: the seed decides the whole run, the moves are the run, and violations are found and replayed."""

import json
from dataclasses import replace

import pytest
from depth import sampled

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.counterexamples.moves import from_schedule, moves_of
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.run import Replayer
from tornproof.harness.explorers.random import random_run
from tornproof.harness.explorers.random.random_run import (
    CUT,
    FAILED,
    FAULT_FREE,
    KILLED,
    MIXED_DISK,
    OLD_DISK,
    SOUND_DISK,
    injected_faults_of,
    kind_of_disk,
)
from tornproof.harness.mutation.catalogue import FAULTS, fault_named
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.mutation.seeded import SEEDED, Cell, SeededRun, SeededRuns, run_seeds
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.models import LATEST, Choice, FileChoice
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import load_scenario

CRASHES = "append-and-power-cut"
SCHEDULES = "two-commits-two-readers"


def cell(scenario: str = CRASHES, preset: str = "hardened", fault: str = "", *, watches_steps: bool = False) -> Cell:
    return Cell(scenario=load_scenario(scenario), preset=preset, fault=fault, watches_steps=watches_steps)


def scenario_of(fault: str) -> str:
    return next(each.scenario for each in FAULTS if each.name == fault)


def detected(runs: list[SeededRun]) -> list[SeededRun]:
    return [run for run in runs if run.verdict is Verdict.INVALID]


CELLS = [
    cell(),
    cell(SCHEDULES),
    cell("a-rewrite-a-commit-and-a-crash"),
    cell(preset="questdb-9.4.2"),
    cell(preset="questdb-2026-07", watches_steps=True),
    cell(scenario_of("mapping kept"), fault="mapping kept"),
    cell(fault="body of _pm not synced (F2)"),
]


def assert_order_does_not_matter(of: Cell, seeds: int) -> None:
    together = run_seeds(of, 3, range(seeds))
    alone = [run for seed in reversed(range(seeds)) for run in run_seeds(of, 3, [seed])]
    assert together == alone[::-1]


@pytest.mark.parametrize("of", sampled(1, CELLS), ids=lambda of: " ".join(filter(None, of.key)))
def test_a_run_is_the_same_whichever_runs_came_before_it(of: Cell) -> None:
    assert_order_does_not_matter(of, 4)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [fault.name for fault in FAULTS])
def test_no_fault_remembers_anything_from_one_run_to_the_next(name: str) -> None:
    assert_order_does_not_matter(cell(scenario_of(name), fault=name), 24)


def test_other_seeds_and_other_campaigns_draw_other_runs() -> None:
    runs = run_seeds(cell(), 0, range(12))
    assert len({run.moves for run in runs}) == 12
    assert [run.moves for run in run_seeds(cell(), 1, range(12))] != [run.moves for run in runs]


@pytest.mark.parametrize(
    "scenario", sampled(1, [CRASHES, SCHEDULES, "two-orphans", "rewrite-and-a-reader-through-a-kill"])
)
def test_our_implementation_is_valid_whatever_fault_is_injected(scenario: str) -> None:
    runs = run_seeds(cell(scenario, watches_steps=True), 0, range(40))
    assert {(run.verdict, run.error, run.sentence) for run in runs} == {(Verdict.VALID, "", "")}
    assert {run.injected_fault for run in runs} == set(injected_faults_of(load_scenario(scenario)))
    assert all(run.injected_fault in run.reached for run in runs)
    assert all((run.model, run.step) == ("", "") for run in runs if run.injected_fault == FAULT_FREE)
    assert all(run.model and run.step.startswith("writer@") for run in runs if run.injected_fault != FAULT_FREE)


def test_a_scenario_for_some_models_gets_only_the_faults_of_these() -> None:
    scenario = load_scenario("reader-lives-through-a-kill")
    assert injected_faults_of(scenario) == (FAULT_FREE, KILLED, FAILED)
    assert {run.model for run in run_seeds(cell(scenario.name), 0, range(30))} == {"", "A", "D"}
    assert injected_faults_of(load_scenario(SCHEDULES)) == (FAULT_FREE, KILLED, FAILED, CUT)


def test_only_power_cuts_choose_a_disk_and_release_what_was_seen() -> None:
    runs = run_seeds(cell(), 0, range(80))
    cut = [run for run in runs if run.injected_fault == CUT]
    assert {run.disk for run in cut} == {SOUND_DISK, OLD_DISK, MIXED_DISK}
    assert all(("power" in run.moves) is bool(run.disk) is (not run.is_seen_kept) for run in runs)
    # After a failed sync the power may be cut, too.
    assert {bool(run.disk) for run in runs if run.injected_fault == FAILED} == {True, False}
    assert {bool(run.disk) for run in runs if run.injected_fault in (FAULT_FREE, KILLED)} == {False}


def test_disks_are_sound_old_or_mixed_by_what_they_kept() -> None:
    old, new, torn = FileChoice(0, 0), FileChoice(LATEST, LATEST), FileChoice(2, 2, ((1, 0),))
    assert kind_of_disk(Choice("B", None, (("x", new),)), (0, 0)) == SOUND_DISK
    assert kind_of_disk(Choice("B", None, (("x", old),)), (0, 3)) == OLD_DISK
    assert kind_of_disk(Choice("Cdir", (), (("x", old),)), (0, 3)) == OLD_DISK
    assert kind_of_disk(Choice("Cdir", (1,), (("x", old),)), (0, 3)) == MIXED_DISK
    assert kind_of_disk(Choice("Cdir", (1,), ()), (0, 0)) == MIXED_DISK
    assert kind_of_disk(Choice("B", None, (("x", old), ("y", torn))), (1, 3)) == MIXED_DISK


@pytest.mark.parametrize("of", sampled(1, CELLS, seed=1), ids=lambda of: " ".join(filter(None, of.key)))
def test_the_moves_of_a_run_break_the_same_property_again(of: Cell) -> None:
    with SeededRuns(of, 5) as runs, Replayer(runs.case) as replayer:
        for run in map(runs.run, range(6)):
            result = replayer.play(from_schedule(runs.case, moves_of(json.loads(run.moves))))
            assert [each.property for each in result.violations[:1]] == list(filter(None, [run.property]))


@pytest.mark.parametrize(
    "text",
    [
        '[["jump"]]',
        "[[0, 100001]]",
        "[[0, -1]]",
        "[[0, true]]",
        "[[-1, 1]]",
        "[[0]]",
        '[["step", -1]]',
        '[["fail", -1, "disk full"]]',
        '[["power","no model",[]]]',
        "3",
        "[",
    ],
)
def test_invalid_moves_are_rejected(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        moves_of(json.loads(text))


@pytest.mark.parametrize(
    "of",
    sampled(
        2,
        [
            cell(preset="questdb-9.4.2"),
            cell(preset="specification"),
            cell(fault="body of _pm not synced (F2)"),
            cell(scenario_of("uncommitted directories stay"), fault="uncommitted directories stay"),
            cell(SCHEDULES, fault="newest footer only"),
        ],
    ),
    ids=lambda of: " ".join(filter(None, of.key)),
)
def test_a_violation_is_detected_and_its_finding_replays(of: Cell) -> None:
    with SeededRuns(of, 0) as runs:
        first = next(run for run in map(runs.run, range(64)) if run.verdict is Verdict.INVALID)
        finding = runs.finding(first.seed)
    assert finding.property == first.property and finding.sentence
    assert finding.evidence.get("fault", "") == of.fault
    assert json.loads(json.dumps(finding.evidence[SEEDED]))["seed"] == first.seed
    replayed = replay_planted(finding)
    assert (replayed.verdict, replayed.is_same) == (Verdict.INVALID, True)
    if of.fault and not fault_named(of.fault).patch.change().constants:
        # Without its fault the same log breaks nothing; another order of actions is in the finding itself.
        without = {name: value for name, value in finding.evidence.items() if name != "fault"}
        assert replay_planted(replace(finding, evidence=without)).verdict is not Verdict.INVALID


@pytest.mark.parametrize("fault", ["version goes up by two", "version before stored again"])
def test_where_no_log_shows_a_violation_its_seed_is_run_again(fault: str) -> None:
    # These break even a fault-free run, so a smaller case cannot be explored.
    with SeededRuns(cell(scenario_of(fault), fault=fault), 0) as runs:
        finding = runs.finding(next(seed for seed in range(40) if runs.run(seed).property == Property.WRONG_SNAPSHOT))
    assert not is_simulated(finding.evidence) and finding.evidence["moves"] and finding.evidence["note"]
    image = DiskImage()
    assert replay_finding(finding, image, "") is Verdict.INVALID
    document = finding.evidence[SEEDED]
    for change, verdict in (
        ({"fault": ""}, Verdict.VALID),
        ({"fault": "no such fault"}, Verdict.UNKNOWN),
        ({"preset": "no such preset"}, Verdict.UNKNOWN),
        ({"seed": "x"}, Verdict.UNKNOWN),
        ({"scenario": {}}, Verdict.UNKNOWN),
    ):
        other = replace(finding, evidence={**finding.evidence, SEEDED: {**document, **change}})
        assert replay_finding(other, image, "") is verdict
    elsewhere = replace(finding, property="another property")
    assert replay_finding(elsewhere, image, "") is Verdict.VALID


def test_an_exception_of_the_harness_is_the_error_of_its_run_and_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = random_run.injected_faults_of
    asked: list[object] = []

    def broken(scenario: object) -> tuple[str, ...]:
        asked.append(scenario)
        if len(asked) == 2:
            raise RuntimeError("broken")
        return sound(scenario)  # type: ignore[arg-type]

    monkeypatch.setattr(random_run, "injected_faults_of", broken)
    runs = run_seeds(cell(), 0, range(3))
    assert [run.verdict for run in runs] == [Verdict.VALID, Verdict.UNKNOWN, Verdict.VALID]
    assert (runs[1].error, runs[1].seed) == ("RuntimeError: broken", 1)


def test_a_scenario_that_a_release_rejects_fault_free_is_unknown_run_by_run() -> None:
    runs = run_seeds(cell("two-orphans", preset="questdb-9.4.2"), 0, range(3))
    assert [(run.seed, run.verdict) for run in runs] == [(seed, Verdict.UNKNOWN) for seed in range(3)]
    assert all("not explorable: after operations" in run.error for run in runs)


def test_after_the_runs_the_fault_is_gone() -> None:
    fault = cell(fault="prev is always 0")
    assert detected(run_seeds(fault, 0, range(16)))
    assert not detected(run_seeds(cell(), 0, range(16)))
