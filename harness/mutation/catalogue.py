"""All planted faults, by their rows in the list that they come from; what is not on it stands last."""

from __future__ import annotations

from tornproof.harness.mutation.fault import PlantedFault
from tornproof.harness.mutation.of_barriers import BARRIERS
from tornproof.harness.mutation.of_blooms import BLOOMS
from tornproof.harness.mutation.of_order import ORDER
from tornproof.harness.mutation.of_reader import READER
from tornproof.harness.mutation.of_recovery import RECOVERY
from tornproof.harness.mutation.of_update import UPDATES
from tornproof.harness.mutation.of_writer import WRITER

NO_ROW = 1_000
ALL = (*BARRIERS, *ORDER, *WRITER, *UPDATES, *BLOOMS, *READER, *RECOVERY)
FAULTS: tuple[PlantedFault, ...] = tuple(sorted(ALL, key=lambda fault: fault.number or NO_ROW))


def fault_named(name: str) -> PlantedFault:
    """Return a fault by its name; KeyError."""
    return {fault.name: fault for fault in FAULTS}[name]
