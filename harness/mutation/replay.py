"""Replays a finding's log with the fault planted under which it was found, if there was one."""

from __future__ import annotations

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.replay import UNUSABLE, Replayed, replay_log
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.systems.table import TableTarget

FAULT = "fault"
"""The key of the fault's name in the evidence of a finding."""


def replay_planted(finding: Finding, target: Target | None = None) -> Replayed:
    """Run a finding's log as `replay_log` does; UNKNOWN with the reason where it cannot be run."""
    try:
        with bounded_computation():
            if FAULT not in finding.evidence:
                return replay_log(finding, target)
            with Mutant(fault_named(finding.evidence[FAULT])).planted():
                return replay_log(finding, target or TableTarget())
    except UNUSABLE as error:
        return Replayed(verdict=Verdict.UNKNOWN, note=f"{type(error).__name__}: {error}")
