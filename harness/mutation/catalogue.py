"""All planted faults, by their rows in the list that they come from, what is not on it last; and their page."""

from __future__ import annotations

from collections.abc import Iterable

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.mutation.fault import PlantedFault
from tornproof.harness.mutation.of_barriers import BARRIERS
from tornproof.harness.mutation.of_order import ORDER
from tornproof.harness.mutation.of_reader import READER
from tornproof.harness.mutation.of_recovery import RECOVERY
from tornproof.harness.mutation.of_update import UPDATES
from tornproof.harness.mutation.of_writer import WRITER

NO_ROW = 1_000
COLUMNS = ("row", "fault", "change", "place", "found by", "scenario", "found too by", "missed by")
ALL = (*BARRIERS, *ORDER, *WRITER, *UPDATES, *READER, *RECOVERY)
FAULTS: tuple[PlantedFault, ...] = tuple(sorted(ALL, key=lambda fault: fault.number or NO_ROW))
HEAD = """# Planted faults

What an explorer says is worth as much as the faults that it finds. Each fault here is a patch of one place, which lives
in `harness/mutation/`: the implementation holds no switch for any of them. A test plants each one and lets the cheapest
explorer that sees it look for it on its scenario, then those that see it too, and those that must miss it: a barrier
that is left out has to survive every process kill, or else nobody would need an explorer of power cuts. This page is
written by `python -m tornproof.harness.mutation.catalogue`.

| explorer | what it does |
| --- | --- |
| sequential | commits one after the other, each verified, and read by readers of now and of all versions before |
| metric | the same commits; what files say of their bytes and generations is what they say without the fault |
| trace rule | one undisturbed run under the rules for single steps (I7, I9) |
| schedules | every schedule of the first life and one reader; with pins by DPOR |
| crash | process kill (model A) at every step, recovery, commits on top, also nested |
| crash inside writes | the same at every length of a torn write |
| power M | a power cut under the model M of persistence: B, C-4096, C-512, Cdir |
| failed sync | each sync fails once, the process dies or goes on, and the power goes later (model D) |
| memory, M | every execution of a mapped reader of `_txn` under a memory model |
| damage | every bit of `_pm` flipped |

"""


def fault_named(name: str) -> PlantedFault:
    """Return a fault by its name; KeyError."""
    return {fault.name: fault for fault in FAULTS}[name]


def document(faults: Iterable[PlantedFault] = FAULTS) -> str:
    """Return the page: a table of all faults, then the arguments for those that harm no reader."""
    faults = tuple(faults)
    arguments = [f"- {fault.name}: {fault.argument}\n" for fault in faults if fault.argument]
    table = markdown_table(COLUMNS, map(_cells, faults))
    return f"{HEAD}{table}\n## Faults that harm no reader\n\n{''.join(arguments)}"


def _cells(fault: PlantedFault) -> tuple[str, ...]:
    return (
        "–" if fault.number is None else str(fault.number),
        fault.name,
        fault.change,
        f"`{fault.position}`",
        fault.explorer,
        f"`{fault.scenario}`",
        "; ".join(fault.also),
        "; ".join(fault.hidden_from),
    )


if __name__ == "__main__":
    print(document(), end="")
