"""A finding's log once more, with the fault planted that it is of, if it is of one."""

from __future__ import annotations

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.replay import UNUSABLE, Replayed, replay_log
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant

FAULT = "fault"
"""Where the evidence of a finding names its fault."""


def replay_planted(finding: Finding, target: Target | None = None) -> Replayed:
    """Run a finding's log as `replay_log` does; UNKNOWN where it cannot be run, and why."""
    try:
        if FAULT not in finding.evidence:
            return replay_log(finding, target)
        mutant = Mutant(fault_named(finding.evidence[FAULT]))
        with mutant.planted():
            return replay_log(finding, target or mutant.target)
    except UNUSABLE as error:
        return Replayed(verdict=Verdict.UNKNOWN, note=f"{type(error).__name__}: {error}")
