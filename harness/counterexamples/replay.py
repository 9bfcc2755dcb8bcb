"""Replays a finding's log: is the same property broken again, with the same evidence?"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.case_document import UnknownTargetError, case_of
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog, text_of
from tornproof.harness.counterexamples.run import Replayer, Signature
from tornproof.harness.counterexamples.smaller import Candidate
from tornproof.harness.counterexamples.words import lane_cells
from tornproof.harness.simulator.filesystem.kernel import CallRejectedError
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.impl.errors import TornproofError

UNUSABLE = (
    UnknownTargetError,
    NotExplorableError,
    NotDeterministicError,
    CallRejectedError,
    TornproofError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    OSError,  # what pyarrow calls a broken message
    zlib.error,
    pa.ArrowException,
)
"""The errors that a file from anywhere can cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The verdict: VALID if all decisions applied and nothing broke; `note` says why it is UNKNOWN.

    `evidence` is that of this run, and `is_same` says whether the finding has the same.
    """

    verdict: Verdict
    note: str = ""
    is_same: bool = False
    evidence: Mapping[str, Any] = field(default_factory=dict)


def is_simulated(evidence: Mapping[str, Any]) -> bool:
    """Say whether the evidence holds a decision log."""
    return "log" in evidence and "test_case" in evidence


def replay_log(finding: Finding, target: Target | None = None, operations: Sequence[Any] = ()) -> Replayed:
    """Run a finding's log; a target and operations that the finding cannot hold are handed in.

    Raises the errors in `UNUSABLE` for a finding that cannot be replayed.
    """
    evidence = finding.evidence
    case = case_of(evidence["test_case"], target, operations)
    log = DecisionLog.of_document(evidence["log"])
    exact = Signature(finding.property, str(evidence["part"]), str(evidence["kind"]))
    with remembered_decoding(), Replayer(case) as replayer:
        # Another release may word what was seen differently, so property and part are enough.
        for wanted in (exact, exact._replace(kind="")):
            result = replayer.play(log, wanted=wanted)
            violation = result.violation(wanted)
            if violation is not None and not result.dropped:
                kind = Signature.of(violation).kind
                again = {**evidence, "kind": kind, "explanation": explain(Candidate(case, log), wanted)}
                return Replayed(
                    verdict=Verdict.INVALID, is_same=_as_before(again, evidence) == evidence, evidence=again
                )
    if result.dropped:
        count = len(result.dropped)
        which = "1 of its decisions does not apply" if count == 1 else f"{count} of its decisions do not apply, as"
        return Replayed(verdict=Verdict.UNKNOWN, note=f"{which}: {text_of(result.dropped[0])}")
    return Replayed(verdict=Verdict.VALID)


def _as_before(again: dict[str, Any], evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return new evidence in the form of a file that may be older.

    Parts that the file lacks came with a later release. The first release that wrote logs wrote a row of the lanes as
    the texts of its cells.
    """
    now, before = again["explanation"], evidence.get("explanation")
    if not isinstance(before, dict):
        return again
    kept = _restricted(now, before)
    if "narrative" in before:
        # It is made from the rest, and another release may use other words.
        kept["narrative"] = before["narrative"]
    if _is_cells(before.get("lanes")):
        kept["lanes"] = [lane_cells(row, raw=True) for row in now["lanes"]]
    return {**again, "explanation": kept}


def _restricted(now: Any, before: Any) -> Any:
    """Return data without the keys that its earlier form does not have."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {name: _restricted(value, before[name]) for name, value in now.items() if name in before}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [_restricted(*pair) for pair in zip(now, before, strict=True)]
    return now


def _is_cells(lanes: object) -> bool:
    return isinstance(lanes, list) and all(isinstance(row, list) for row in lanes)
