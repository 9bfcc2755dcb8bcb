"""Trials of faults: what they say of one that is found, of one that is missed, and of a check that dies or hangs."""

import functools
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from golden_data import CHAIN

from tornproof.harness import trial
from tornproof.harness.check import PhaseName
from tornproof.harness.mutation.fault_file import FaultFile, file_named
from tornproof.harness.mutation.planted_copy import PlantedCopy
from tornproof.harness.trial import HANGS, PHASES, SCHEMA, Document, Row, Trials, is_set_aside

CHEAPEST = (PhaseName.MEMORY,)
FOUND = FaultFile(
    story="a generation that is restated has more unused bytes",
    file="impl/pm/encode.py",
    before="unused_bytes=fixed.unused_bytes,",
    after="unused_bytes=fixed.unused_bytes + 8,",
    name="found",
    family="test",
)
DIES = FaultFile(
    story="nothing can be imported",
    file="impl/table/partition_names.py",
    before='UNPARTITIONED_DIRECTORY = "default"',
    after="UNPARTITIONED_DIRECTORY = 1 / 0",
    name="dies",
    family="test",
)
HARMLESS = msgspec.structs.replace(DIES, after='UNPARTITIONED_DIRECTORY = "def" + "ault"', name="harmless")
SPINS = msgspec.structs.replace(DIES, after='UNPARTITIONED_DIRECTORY = "default"\nwhile True:\n    pass', name="spins")


@functools.cache
def trials(table: Path, phases: tuple[PhaseName, ...]) -> Trials:
    """Return trials that remember what phases count without a fault."""
    return Trials(table=str(table), effort="small", phases=phases, replay_count=2)


def rows(questdb_data: Path, fault: FaultFile, phases: tuple[PhaseName, ...] = CHEAPEST) -> list[Row]:
    found = list(trials(questdb_data / CHAIN, phases).rows(fault, 0))
    pa.Table.from_pylist(found, schema=SCHEMA).validate(full=True)
    return found


def test_all_phases_of_a_check_of_a_table_are_tried() -> None:
    assert {*PHASES} == {*PhaseName} - {PhaseName.VERIFY, PhaseName.RANDOM, PhaseName.SERVER}


def test_trials_of_no_phase_are_a_mistake_of_ours() -> None:
    """No phase stood for all of them, or for no row, which nothing tells from a success."""
    with pytest.raises(AssertionError):
        Trials(table=None, effort="small", phases=())


def test_a_fault_is_found_by_a_finding_that_replays_and_no_later_phase_is_tried(questdb_data: Path) -> None:
    (only,) = rows(questdb_data, FOUND, phases=(PhaseName.ROUNDTRIP, *CHEAPEST))
    assert (only["phase"], only["verdict"]) == ("roundtrip", "INVALID") and only["reached"] and only["triggered"]
    assert only["replayed_count"] == only["replay_count"] == 2
    assert only["sentence"] and only["property"] and only["case_count"] and only["cpu_seconds"] > 0


@pytest.mark.nightly
def test_a_harmless_change_is_reached_and_triggers_nothing(questdb_data: Path) -> None:
    (only,) = rows(questdb_data, HARMLESS)
    assert only["reached"] and not only["triggered"] and only["verdict"] == "VALID"
    assert only["replayed_count"] == 0 and only["case_count"] > 0


@pytest.mark.nightly
def test_a_check_that_dies_is_unknown_and_no_finding(questdb_data: Path) -> None:
    (only,) = rows(questdb_data, DIES)
    assert only["verdict"] == "UNKNOWN" and only["replayed_count"] == 0 and "ZeroDivisionError" in only["sentence"]
    assert only["triggered"]


def test_a_check_that_hangs_is_killed_and_said_to_hang(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS_MAX", 0.5)
    (only,) = rows(questdb_data, SPINS)
    assert only["verdict"] == "UNKNOWN" and HANGS in only["sentence"]


def test_trials_that_are_stopped_end_at_once_and_are_unknown(questdb_data: Path) -> None:
    trials = Trials(table=str(questdb_data / CHAIN), effort="small", phases=CHEAPEST, replay_count=2)
    trials.stop()
    (only,) = trials.rows(FOUND, 0)
    assert only["verdict"] == "UNKNOWN" and only["replayed_count"] == 0
    assert trials.told_row(file_named("merge loses a row"))["verdict"] == "UNKNOWN"


def test_an_explorer_that_is_told_the_scenario_finds_its_fault_in_a_process_of_its_own() -> None:
    row = Trials(table=None, effort="small").told_row(file_named("merge loses a row"))
    pa.Table.from_pylist([row], schema=SCHEMA).validate(full=True)
    assert (row["verdict"], row["reached"], row["triggered"]) == ("INVALID", True, True)


@pytest.mark.parametrize(
    ("with_fault", "without", "is_triggered"),
    [((), (), False), ((), (3,), True), ((2,), (3,), True), ((3,), (3,), False)],
)
def test_a_fault_is_triggered_where_something_else_comes_of_it(
    monkeypatch: pytest.MonkeyPatch, with_fault: tuple[int, ...], without: tuple[int, ...], is_triggered: bool
) -> None:
    """A check that could explore nothing, with the fault or without it, counted as one that the fault had changed."""

    def check(trials: Trials, copy: PlantedCopy, *_: object) -> tuple[Document, list[Path], float]:
        explored = with_fault if (copy.folder / "tornproof").exists() else without
        phases = [{"name": "memory", "explored": count, "verdict": "VALID", "note": ""} for count in explored or (0,)]
        return {"verdict": "VALID" if explored else "UNKNOWN", "phases": phases, "findings": []}, [], 0.0

    monkeypatch.setattr(Trials, "_check", check)
    (only,) = Trials(table="nowhere", effort="small", phases=CHEAPEST).rows(HARMLESS, 0)
    assert only["triggered"] is is_triggered


@pytest.mark.parametrize("reaching", [(), ("memory",), ("roundtrip",), ("verify", "roundtrip")])
def test_each_phase_that_is_tried_alone_says_for_itself_whether_it_reached_the_fault(
    monkeypatch: pytest.MonkeyPatch, reaching: tuple[str, ...]
) -> None:
    """All phases behind the first one that reached it would have reached it, too."""

    def check(
        _: Trials, copy: PlantedCopy, phases: tuple[PhaseName, ...], seed: int
    ) -> tuple[Document, list[Path], float]:
        if phases[0] in reaching:
            copy.mark.touch()
        explored = [{"name": phases[0], "explored": 1, "verdict": "VALID", "note": ""}]
        return {"verdict": "VALID", "phases": explored, "findings": []}, [], 0.0

    monkeypatch.setattr(Trials, "_check", check)
    phases = (PhaseName.MEMORY, PhaseName.ROUNDTRIP, PhaseName.VERIFY)
    rows = [*Trials(table="nowhere", effort="small", phases=phases, tries_all=True).rows(HARMLESS, 0)]
    assert [row["phase"] for row in rows] == [*phases]
    assert tuple(row["phase"] for row in rows if row["reached"]) == tuple(each for each in phases if each in reaching)


def test_a_third_of_the_names_is_set_aside() -> None:
    names = [f"fault {number}" for number in range(3_000)]
    assert abs(sum(map(is_set_aside, names)) - 1_000) < 100
    assert is_set_aside("fault 1") == is_set_aside("fault 1")
