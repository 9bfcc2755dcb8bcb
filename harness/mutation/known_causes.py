"""Makes harness/counterexamples/known_causes.json, the causes of known defects and of planted faults in examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples import alike
from tornproof.harness.mutation.causes import EXAMPLES, find
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.mutation.known import KNOWN, find_defect

FILE = Path(__file__).parents[1] / "counterexamples" / alike.FILE
DEFECTS, CAUSES = "known-defects.md", "causes.md"


def entry(name: str, page: str, finding: Finding) -> dict[str, Any]:
    """Return what is known of a finding that a page describes under a heading of its name."""
    anchor = re.sub(r"[^\w\s-]", "", name.lower()).replace(" ", "-")
    causes = sorted(alike.causes_without_places(finding))
    return {"name": name, "where": f"{page}#{anchor}", "property": finding.property, "causes": causes}


def main() -> None:
    """Find all of them anew."""
    entries = [entry(defect.name, DEFECTS, find_defect(defect)) for defect in KNOWN]
    for name in EXAMPLES:
        found = find(file_named(name))
        assert found is not None, f"{name} is not found any more"
        entries.append(entry(name, CAUSES, found))
    FILE.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
