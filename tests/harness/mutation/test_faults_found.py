"""Every planted fault, the explorers that find it, and those that must not."""

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from depth import nightly, sampled

from tornproof.harness.common.patch import original_of
from tornproof.harness.mutation import detectors
from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.catalogue import FAULTS, document, fault_named
from tornproof.harness.mutation.detectors import DETECTORS, MutationRun, mutation_run
from tornproof.harness.mutation.fault import Explorer, Mutant, PlantedFault
from tornproof.harness.systems.scenario import scenario_names
from tornproof.impl.write.commit import HARDENED

FOUND = [(fault, explorer) for fault in FAULTS for explorer in (fault.explorer, *fault.also)]
HIDDEN = [(fault, explorer) for fault in FAULTS for explorer in fault.hidden_from]
KINDS = sorted({(explorer, fault.scenario) for fault, explorer in (*FOUND, *HIDDEN)})
SMALL_CRASHES = ("append-and-power-cut", "one-commit-one-reader", "rewrite-and-power-cut", "two-orphans")
# Large explorations; by day the same explorer runs on a smaller scenario, or with fewer rules.
DEEP = {
    (Explorer.FAILED_SYNC, "sync-fails"),
    (Explorer.POWER_C_512, "record-across-sectors"),
    (Explorer.POWER_C_512, "sync-fails"),
    (Explorer.PRODUCT_A, "two-orphans"),
    (Explorer.SCHEDULES, "equal-retry-and-a-reader-that-looks-twice"),
    (Explorer.SCHEDULES, "two-commits-one-reader"),
    (Explorer.STATEFUL, "merge-and-power-cut"),
    *((Explorer.CRASH, fault.scenario) for fault in FAULTS if fault.scenario not in SMALL_CRASHES),
}
SMALL = [(Explorer.FAILED_SYNC, "one-commit-one-reader"), (Explorer.PRODUCT_A, "one-commit-one-reader")]
FEW_STEPS = 200
SAMPLED = 2
QUICK_SAMPLED = 12
# Explorers that take no time.
QUICK = {Explorer.SEQUENTIAL}
# Explorers that look at many runs.
SLOW = {
    Explorer.SCHEDULES,
    Explorer.TORN_CRASH,
    Explorer.POWER_B,
    Explorer.POWER_C_4096,
    Explorer.POWER_C_512,
    Explorer.POWER_CDIR,
    Explorer.FAILED_SYNC,
    Explorer.STATEFUL,
}
FINDINGS_THAT_CHECK_SHOWS = (
    "header before the body",
    "body of _pm not synced (F2)",
    "header of _pm not synced (F3)",
    "data not synced (F1)",
    "record not synced (F4)",
    "version not synced (F5)",
    "new directory not synced (F6)",
    "mapping kept",
    "orphan overwritten",
    "orphan cut off",
    "decoded by the newest footer",
    "orphan taken for the base",
    "token from the file's size (H1)",
    "old directory removed early",
    "no fence after the version",
)
LOSES_A_BARRIER = (11, 12, 13, 21, 22, 23, 24, 25, 26)


def named(value: object) -> str:
    return value.name if isinstance(value, PlantedFault) else str(value)


def few_of(
    cases: Sequence[tuple[PlantedFault, Explorer]], count: int, is_slow: Callable[[Explorer], bool]
) -> list[Any]:
    """Return all cases, of which so many that are slow, and QUICK_SAMPLED others, are tried always."""
    slow = [case for case in cases if is_slow(case[1])]
    return [*sampled(count, slow), *sampled(QUICK_SAMPLED, [case for case in cases if case not in slow])]


def numbers() -> Counter[int]:
    return Counter(fault.number for fault in FAULTS if fault.number is not None)


def test_there_are_more_than_forty_faults_each_with_a_name_of_its_own() -> None:
    assert len(numbers()) >= 40 and len(FAULTS) >= 45
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.change and fault.property_broken for fault in FAULTS)


def test_every_fault_has_an_existing_scenario_and_no_explorer_is_said_both_to_find_and_to_miss_it() -> None:
    for fault in FAULTS:
        assert fault.scenario in scenario_names()
        found = {fault.explorer, *fault.also}
        assert len(found) == 1 + len(fault.also) and not found & set(fault.hidden_from)
    assert DETECTORS.keys() == set(Explorer)


@pytest.mark.parametrize("name", FINDINGS_THAT_CHECK_SHOWS)
def test_what_a_check_must_be_able_to_show_is_planted_and_found_by_more_than_the_sequential_run(name: str) -> None:
    fault = fault_named(name)
    assert {fault.explorer, *fault.also} - {Explorer.SEQUENTIAL, Explorer.METRIC}


def test_a_barrier_that_is_left_out_is_said_to_survive_process_kill_and_to_need_a_power_cut() -> None:
    for fault in FAULTS:
        if fault.number in LOSES_A_BARRIER:
            assert Explorer.CRASH in fault.hidden_from
            assert any(explorer.startswith("power") for explorer in fault.also)


@pytest.mark.parametrize(("fault", "explorer"), few_of(FOUND, 4, lambda explorer: explorer in SLOW), ids=named)
def test_the_fault_is_found(fault: PlantedFault, explorer: Explorer) -> None:
    run = mutation_run(fault, explorer)
    assert run.reached and run.triggered and run.detected and run.property


@pytest.mark.parametrize(
    ("fault", "explorer"), few_of(HIDDEN, SAMPLED, lambda explorer: explorer not in QUICK), ids=named
)
def test_the_fault_is_missed(fault: PlantedFault, explorer: Explorer) -> None:
    run = mutation_run(fault, explorer)
    assert not run.detected and run.explored_count > 0


@pytest.mark.parametrize(
    ("explorer", "scenario"),
    [
        *SMALL,
        *sampled(SAMPLED, [kind for kind in KINDS if kind not in DEEP and kind[0] not in QUICK]),
        *sampled(QUICK_SAMPLED // 2, [kind for kind in KINDS if kind not in DEEP and kind[0] in QUICK], seed=1),
        *(nightly(*kind) for kind in KINDS if kind in DEEP),
    ],
    ids=str,
)
def test_without_a_fault_nothing_is_found(explorer: Explorer, scenario: str) -> None:
    sound = replace(FAULTS[0], location="Protocol", substitute=HARDENED, scenario=scenario)
    run = mutation_run(sound, explorer)
    assert not run.detected and not run.triggered and run.explored_count > 0


def test_without_a_fault_a_few_rules_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detectors, "STATEFUL_STEPS", FEW_STEPS)
    sound = replace(FAULTS[0], location="Protocol", substitute=HARDENED, scenario="merge-and-power-cut")
    run = mutation_run(sound, Explorer.STATEFUL)
    assert not run.detected and not run.triggered and run.explored_count == FEW_STEPS


def test_what_was_at_a_location_is_there_again_after_a_mutation_run() -> None:
    for fault in FAULTS:
        if ":" in fault.location:
            before = original_of(fault.location)
            with Mutant(fault).planted():
                assert original_of(fault.location) is not before
            assert original_of(fault.location) is before


def test_a_location_is_one_name_of_the_implementation_or_one_field_of_a_protocol() -> None:
    for fault in FAULTS:
        module, _, name = fault.location.partition(":")
        if name:
            assert module.startswith("tornproof.impl.") and hasattr(importlib.import_module(module), name)
        else:
            assert module.split(".")[0] in ("Protocol", "ReaderProtocol")


def test_a_fault_at_a_location_that_is_never_used_is_neither_reached_nor_triggered() -> None:
    unreached = replace(
        fault_named("CRC never checked"), location="tornproof.impl.repair.kept:keep", explorer=Explorer.SEQUENTIAL
    )
    assert mutation_run(unreached) == MutationRun(
        reached=False,
        triggered=False,
        detected=False,
        explored_count=mutation_run(unreached).explored_count,
        property="",
    )


def test_a_patch_that_changes_nothing_is_reached_and_not_triggered() -> None:
    idle = replace(fault_named("newest footer only"), substitute=lambda resolve: resolve)
    run = mutation_run(idle)
    assert run.reached and not run.triggered and not run.detected


def test_the_expected_answers_of_a_mutation_run_come_from_a_run_without_a_fault() -> None:
    fault = fault_named("token forgotten")
    before = baseline_of(fault.scenario).expected(())
    assert mutation_run(fault).detected
    assert baseline_of(fault.scenario).expected(()) is before


def test_the_page_of_faults_is_the_one_that_the_catalogue_gives() -> None:
    page = Path(__file__).parents[3] / "docs/faults.md"
    assert page.read_text() == document(), "python -m tornproof.harness.mutation.catalogue > docs/faults.md"
    for fault in FAULTS:
        assert f"| {fault.name} |" in document()
    assert "| missing |" not in document(FAULTS[1:]) and document(FAULTS[1:]) != document()
