"""When two findings are one: they break the same property by the same cause, wherever and in whatever words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tornproof.harness.common.verdict import Finding, without_digits


class FindingSignature(NamedTuple):
    """The property, and the causes without which it holds; findings without known causes are told apart by `text`.

    A cause is a file that a power cut took back although it was needed, a call that fails, a call at which a process
    dies or another one runs, or what the evidence names as the cause. What is left of a shrunk finding is needed; of
    another one it may be more.
    """

    property: str
    causes: frozenset[str]
    text: str = ""

    def covers(self, other: FindingSignature) -> bool:
        """Say whether another finding has these causes, and maybe more."""
        return (self.property, self.text) == (other.property, other.text) and self.causes <= other.causes


def signature_of(finding: Finding) -> FindingSignature:
    """Return the signature of a finding."""
    causes = frozenset(_causes(finding.evidence))
    return FindingSignature(finding.property, causes, "" if causes else without_digits(finding.sentence))


def _causes(evidence: dict[str, Any]) -> Iterator[str]:
    if "why" in evidence:
        yield evidence["why"]["kind"]
        return
    for decision in evidence.get("log", ()):
        at = decision["at"]
        call = f"{at['call']} {_name(at['file'])}"
        match decision["kind"]:
            case "powercut":
                yield from _lost(*decision["choice"])
            case "fail":
                yield f"{call} fails"
            case "kill":
                yield f"a kill before {call}"
            case "switch" if at["call"]:
                yield f"another process runs before {call}"
    for cut in evidence.get("cuts", ()):
        yield from _lost(*json.loads(cut["choice"])[1:])
    origin = evidence.get("origin") or {}
    for step in ("failed_step", "killed_step"):
        if step in {**origin, **origin.get("then", {})}:
            yield step


def _lost(names: list[int] | None, files: dict[str, Any]) -> Iterator[str]:
    if names is not None:
        yield "names are not on disk"
    for path in files:
        yield f"{_name(path)} is not on disk"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
