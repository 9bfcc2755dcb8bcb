"""Every planted fault, the explorers that find it, and those that must not."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from depth import nightly, sampled
from harmless_change import harmless
from msgspec.structs import replace

from tornproof.harness.mutation import detectors
from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.catalogue import ALL, FAULTS, document, fault_named
from tornproof.harness.mutation.detectors import DETECTORS, mutation_run
from tornproof.harness.mutation.explorer import Explorer
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import scenario_names

FOUND = [(fault, each) for fault in FAULTS for each in (fault.explorer, *fault.also) if each is not None]
HIDDEN = [(fault, explorer) for fault in FAULTS for explorer in fault.missed_by]
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
QUICK_SAMPLED = 4
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
    return value.name if isinstance(value, FaultFile) else str(value)


def few_of(cases: Sequence[tuple[FaultFile, Explorer]], count: int, is_slow: Callable[[Explorer], bool]) -> list[Any]:
    """Return all cases, of which so many that are slow, and QUICK_SAMPLED others, are tried always."""
    slow = [case for case in cases if is_slow(case[1])]
    return [*sampled(count, slow), *sampled(QUICK_SAMPLED, [case for case in cases if case not in slow])]


def rows() -> Counter[int]:
    return Counter(fault.row for fault in FAULTS if fault.row is not None)


def test_there_are_faults_of_more_than_forty_rows_of_the_list() -> None:
    assert len(rows()) >= 40
    assert all(fault.story and fault.breaks for fault in FAULTS)


def test_every_fault_has_an_existing_scenario_and_no_explorer_is_said_both_to_find_and_to_miss_it() -> None:
    for fault in FAULTS:
        assert fault.scenario in scenario_names()
        found = {fault.explorer, *fault.also}
        assert len(found) == 1 + len(fault.also) and not found & set(fault.missed_by)
    assert DETECTORS.keys() == set(Explorer)


@pytest.mark.parametrize("name", FINDINGS_THAT_CHECK_SHOWS)
def test_what_a_check_must_be_able_to_show_is_planted_and_found_by_more_than_the_sequential_run(name: str) -> None:
    fault = fault_named(name)
    assert {fault.explorer, *fault.also} - {Explorer.SEQUENTIAL, Explorer.METRIC}


def test_a_barrier_that_is_left_out_is_said_to_survive_process_kill_and_to_need_a_power_cut() -> None:
    for fault in FAULTS:
        if fault.row in LOSES_A_BARRIER:
            assert Explorer.CRASH in fault.missed_by
            assert any(explorer.startswith("power") for explorer in fault.also)


@pytest.mark.parametrize(("fault", "explorer"), few_of(FOUND, 2, lambda explorer: explorer in SLOW), ids=named)
def test_the_fault_is_found(fault: FaultFile, explorer: Explorer) -> None:
    run = mutation_run(fault, explorer)
    assert run.reached and run.triggered and run.detected
    # A fault that no longer fits the code around it ends in an error of Python.
    assert run.property and run.property != Property.DISORDERLY


@pytest.mark.parametrize(
    ("fault", "explorer"), few_of(HIDDEN, SAMPLED, lambda explorer: explorer not in QUICK), ids=named
)
def test_the_fault_is_missed(fault: FaultFile, explorer: Explorer) -> None:
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
    run = mutation_run(harmless(scenario), explorer)
    assert not run.detected and not run.triggered and run.explored_count > 0


def test_without_a_fault_a_few_rules_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detectors, "STATEFUL_STEPS", FEW_STEPS)
    run = mutation_run(harmless("merge-and-power-cut"), Explorer.STATEFUL)
    assert not run.detected and not run.triggered and run.explored_count == FEW_STEPS


def test_a_change_of_what_is_never_used_is_neither_reached_nor_triggered() -> None:
    unreached = replace(
        fault_named("CRC never checked"),
        file="impl/repair/kept.py",
        before="_is_unfinished(name)]\n",
        after="not _is_unfinished(name)]\n",
    )
    run = mutation_run(unreached, Explorer.SEQUENTIAL)
    assert (run.reached, run.triggered, run.detected, run.property) == (False, False, False, "")


def test_a_change_that_changes_nothing_is_reached_and_not_triggered() -> None:
    run = mutation_run(harmless("one-commit-one-reader"), Explorer.SEQUENTIAL)
    assert run.reached and not run.triggered and not run.detected


def test_the_expected_answers_of_a_mutation_run_come_from_a_run_without_a_fault() -> None:
    fault = fault_named("token forgotten")
    before = baseline_of(fault.scenario).expected(())
    assert mutation_run(fault).detected
    assert baseline_of(fault.scenario).expected(()) is before


def test_the_page_of_faults_is_the_one_that_the_catalogue_gives() -> None:
    page, text = Path(__file__).parents[3] / "docs/faults.md", document()
    is_current = page.read_text() == text
    assert is_current, "python -m tornproof.harness.mutation.catalogue > docs/faults.md"
    for fault in ALL:
        assert f"| {fault.name} |" in text or f"| [{fault.name}](" in text
    assert document(ALL[1:]) != text
