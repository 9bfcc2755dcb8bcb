"""Checksums of each part of some findings' evidence, in tests/golden/evidence.json.

Evidence is much more than tests name, and a mistake in it leads its reader astray: what becomes another one is looked
at, and then written anew by `python tests/support/evidence_checksums.py`.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import random_runs

from tornproof.harness.common.verdict import Finding
from tornproof.harness.mutation.known import KNOWN, find_defect

REMADE = "python tests/support/evidence_checksums.py"
FILE = Path(__file__).parents[1] / "golden" / "evidence.json"
EXPLANATION = "explanation"
RUNS: Mapping[str, Callable[[], Finding]] = {
    "a switch": random_runs.switched_finding,
    "a power cut": random_runs.cut_finding,
    "a kill": random_runs.killed_finding,
    "a toy": random_runs.toy_finding,
}
"""Random runs, which are found soon."""


def checksums(finding: Finding) -> dict[str, str]:
    """Return the checksum of each part of the evidence, and of each of those of its explanation."""
    evidence = dict(finding.evidence)
    explanation = evidence.pop(EXPLANATION, {})
    parts = {**evidence, **{f"{EXPLANATION}: {name}": part for name, part in explanation.items()}}
    return {name: f"{zlib.crc32(_text(part).encode()):08x}" for name, part in sorted(parts.items())}


def recorded() -> dict[str, dict[str, str]]:
    """Return those of the file, by the name of the run or of the defect."""
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text())
    return found


def _text(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, sort_keys=True)


def _all() -> Iterator[tuple[str, Finding]]:
    yield from ((name, find()) for name, find in RUNS.items())
    yield from ((defect.name, find_defect(defect)) for defect in KNOWN)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: checksums(finding) for name, finding in _all()}, indent=1) + "\n")
