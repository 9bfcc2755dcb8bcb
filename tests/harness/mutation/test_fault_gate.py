"""The gate of every run of the tests: one cheap fault of each family is found by those who are told where to look."""

import pytest
from harmless_change import harmless

from tornproof.harness.mutation.catalogue import ALL, FAULTS
from tornproof.harness.mutation.detectors import mutation_run
from tornproof.harness.mutation.explorer import Explorer
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.simulator.process.observer import Property

CHEAP = list(Explorer)
"""From the cheapest on."""
NOT_TOLD = {"migration", "offline-recovery", "storage-seam", "types"}
"""Families that no explorer of one scenario finds; the tests of the modules that they are in plant them."""


def cheapest(family: str) -> FaultFile:
    """Return the fault of a family that costs least to find."""
    faults = [fault for fault in FAULTS if fault.family == family]
    return min(faults, key=lambda fault: (CHEAP.index(fault.explorer or CHEAP[-1]), fault.name))


GATE = [cheapest(family) for family in sorted({fault.family for fault in FAULTS})]


def test_each_family_is_in_the_gate_or_is_said_not_to_be() -> None:
    assert {fault.family for fault in ALL} == {fault.family for fault in GATE} | NOT_TOLD
    assert not NOT_TOLD & {fault.family for fault in GATE}


@pytest.mark.parametrize("fault", GATE, ids=lambda fault: fault.family)
def test_a_fault_of_each_family_is_found_and_a_harmless_change_is_not(fault: FaultFile) -> None:
    assert fault.explorer is not None
    found, sound = mutation_run(fault), mutation_run(harmless(fault.scenario), fault.explorer)
    assert found.reached and found.triggered and found.detected
    assert found.property and found.property != Property.DISORDERLY
    assert not sound.detected and not sound.triggered and sound.explored_count > 0
