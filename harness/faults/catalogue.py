"""All planted faults, by their rows in the list that they come from; what is not on it stands last."""

from __future__ import annotations

from harness.faults.fault import PlantedFault
from harness.faults.of_barriers import BARRIERS
from harness.faults.of_blooms import BLOOMS
from harness.faults.of_order import ORDER
from harness.faults.of_reader import READER
from harness.faults.of_recovery import RECOVERY
from harness.faults.of_update import UPDATES
from harness.faults.of_writer import WRITER

NO_ROW = 1_000
ALL = (*BARRIERS, *ORDER, *WRITER, *UPDATES, *BLOOMS, *READER, *RECOVERY)
FAULTS: tuple[PlantedFault, ...] = tuple(sorted(ALL, key=lambda fault: fault.number or NO_ROW))


def fault_named(name: str) -> PlantedFault:
    """Return a fault by its name; KeyError."""
    return {fault.name: fault for fault in FAULTS}[name]
