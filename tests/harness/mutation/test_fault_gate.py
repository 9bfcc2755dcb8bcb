"""The gate of every run of the tests: one cheap fault of each family is found by those who are told where to look."""

from pathlib import Path

import pytest
from harmless_change import harmless
from planted_faults import planted

from tornproof.harness.explorers.model_based.explorer import Stateful
from tornproof.harness.mutation.catalogue import ALL, FAULTS
from tornproof.harness.mutation.detectors import mutation_run
from tornproof.harness.mutation.explorer import Explorer
from tornproof.harness.mutation.fault_file import FaultFile, file_named
from tornproof.harness.simulator.process.observer import Property

CHEAP = list(Explorer)
"""From the cheapest on."""
BY_PROGRAMS = {
    "storage-seam": ("short write is taken for a whole one", None),
    "table-reader": ("weeks begin on Sunday", "weeks in nanoseconds, decimals and arrays"),
    "two-writers": ("locks of the process", None),
    "types": ("a slice of decimals is its beginning", "weeks in nanoseconds, decimals and arrays"),
}
"""A fault of families that no scenario shows, and the table of the state machine whose fixed programs do."""
BY_OTHERS = {"migration", "offline-recovery"}
"""Families that only the tests of their modules find."""


def cheapest(family: str) -> FaultFile:
    """Return the fault of a family that costs least to find."""
    faults = [fault for fault in FAULTS if fault.family == family]
    return min(faults, key=lambda fault: (CHEAP.index(fault.explorer or CHEAP[-1]), fault.name))


GATE = [cheapest(family) for family in sorted({fault.family for fault in FAULTS} - BY_PROGRAMS.keys())]


def test_each_family_is_in_the_gate_or_is_said_not_to_be() -> None:
    assert {fault.family for fault in ALL} == {fault.family for fault in GATE} | BY_PROGRAMS.keys() | BY_OTHERS
    assert {name: file_named(name).family for name, _ in BY_PROGRAMS.values()} == {
        name: family for family, (name, _) in BY_PROGRAMS.items()
    }


@pytest.mark.parametrize(("name", "table"), BY_PROGRAMS.values(), ids=BY_PROGRAMS)
def test_a_fault_that_no_scenario_shows_is_found_by_the_fixed_programs(
    name: str, table: str | None, tmp_path: Path
) -> None:
    with planted(name):
        assert Stateful(None, "/table").run_fixed(table, str(tmp_path)).failed is not None


@pytest.mark.parametrize("fault", GATE, ids=lambda fault: fault.family)
def test_a_fault_of_each_family_is_found_and_a_harmless_change_is_not(fault: FaultFile) -> None:
    assert fault.explorer is not None
    found, sound = mutation_run(fault), mutation_run(harmless(fault.scenario), fault.explorer)
    assert found.reached and found.triggered and found.detected
    assert found.property and found.property != Property.DISORDERLY
    assert not sound.detected and not sound.triggered and sound.explored_count > 0
