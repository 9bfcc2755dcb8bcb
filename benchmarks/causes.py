"""Whether the inferred cause of each planted fault names its place, into benchmarks/results/causes.json.

`python benchmarks/causes.py [NAME …]`: by default all faults of the catalogue that a phase of a check may find. It goes
on where it was stopped; docs/causes_page.py makes the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.mutation.catalogue import ALL
from tornproof.harness.mutation.causes import find, names_place, place_of
from tornproof.harness.mutation.explorer import Explorer as Detector
from tornproof.harness.mutation.fault_file import FaultFile

OF_A_DETECTOR = (
    Detector.DAMAGE,
    Detector.MEMORY_SEQUENTIAL,
    Detector.MEMORY_WEAK,
    Detector.PROTECTED,
    Detector.SMALL_LIMITS,
    Detector.SOFT_LINKS,
)
RESULTS = Path(__file__).parent / "results/causes.json"


def measured(fault: FaultFile) -> dict[str, Any]:
    """Return one row: whether the fault was found, the cause, and whether it names the place."""
    begin = time.process_time()
    finding, place = find(fault), place_of(fault)
    causes = [] if finding is None else causes_of(finding.evidence)
    return {
        "family": fault.family,
        "fault": fault.name,
        "location": fault.patch.location.removeprefix("tornproof.impl."),
        "phase": "" if finding is None else finding.phase,
        "property": "" if finding is None else finding.property,
        "causes": causes,
        "is_named": finding is not None and place is not None and names_place(finding, place),
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def is_searched_for(fault: FaultFile) -> bool:
    """Say whether a phase of a check may find a fault: not those that harm nobody, or that one detector alone shows."""
    return not fault.argument and fault.explorer not in OF_A_DETECTOR


def main(names: list[str]) -> None:
    """Measure these faults; without names all that have no row yet, each in a process of its own."""
    faults = {fault.name: fault for fault in ALL}
    for name in names:
        rows = [each for each in known_rows() if each["fault"] != name]
        row = measured(faults[name])
        rows = sorted([*rows, row], key=lambda each: (each["family"], each["fault"]))
        RESULTS.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        said = "named" if row["is_named"] else "not named" if row["phase"] else "not found"
        print(f"{said:10}{name}", flush=True)
    if names:
        return
    done = {row["fault"] for row in known_rows()}
    wanted = [fault for fault in ALL if is_searched_for(fault) and fault.name not in done]
    # Those that something is known to find come first.
    for fault in sorted(wanted, key=lambda each: not (each.explorer or each.phases)):
        subprocess.run([sys.executable, __file__, fault.name], check=False)


def known_rows() -> list[dict[str, Any]]:
    """Return what was measured before."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
