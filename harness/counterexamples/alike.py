"""Which known defects and planted faults break the same property by the same causes as a finding.

Their causes stand in `known_causes.json`, which `python -m tornproof.harness.mutation.known_causes` makes.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from functools import cache
from typing import Any, NamedTuple

from tornproof.harness.common.signature import signature_of
from tornproof.harness.common.verdict import Finding

FILE = "known_causes.json"
_DIRECTORY = re.compile(r"[^\s/]+/(?=\S)|(?<=directory )\S+")


class Alike(NamedTuple):
    """What a finding is like: its name, and where it is described, below docs/."""

    name: str
    where: str


def causes_without_places(finding: Finding) -> frozenset[str]:
    """Return the causes of a finding, without the directories in which its table has the files."""
    evidence = finding.evidence
    if "why" in evidence:
        return frozenset([evidence["why"]["kind"]])
    changes = (evidence.get("explanation", {}).get("passes_when") or {}).get("changes", [])
    causes = signature_of(finding).causes.union(each["kind"] for each in changes)
    return frozenset(_DIRECTORY.sub("", each) for each in causes)


def alike(finding: Finding) -> list[Alike]:
    """Return what breaks the same property, and has no cause that the finding has not; of these, what has most.

    None where the evidence is not what a release writes, because somebody has changed the file.
    """
    try:
        causes = causes_without_places(finding)
    except (KeyError, TypeError, ValueError, AttributeError):
        return []
    known = [each for each in _known() if each["property"] == finding.property and causes.issuperset(each["causes"])]
    most = max((len(each["causes"]) for each in known), default=0)
    return [Alike(each["name"], each["where"]) for each in known if len(each["causes"]) == most > 0]


@cache
def _known() -> list[dict[str, Any]]:
    content = importlib.resources.files("tornproof.harness.counterexamples").joinpath(FILE).read_text("utf-8")
    known: list[dict[str, Any]] = json.loads(content)
    return known
