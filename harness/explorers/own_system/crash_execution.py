"""A finding of the crash explorer as an execution, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, shown
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.plan import Kill, origin_of
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.explorers.own_system.execution import counted, failure_in_words
from tornproof.harness.simulator.filesystem.intercept import Call

STEPS_SHOWN_MAX = 12


def crash_execution(target: Target, operations: Sequence[Any], finding: Finding, *, path: str) -> list[str]:
    """Return the commits up to the injected fault, the steps of the one that it hit, and kills in recovery after it."""
    try:
        trace = Judge(target, operations, start=None, path=path).trace
    except Violation:
        return [f"commit {shown(operation)}" for operation in operations]
    origin = origin_of(finding.evidence)
    commits = trace.position(origin)
    low, high = commits["acknowledged"], commits["started"]
    lines = [f"commit {shown(operation)}: acknowledged" for operation in operations[:low]]
    kills = list(origin.kills)
    if origin.failure is not None:
        lines.append(f"commit {shown(operations[low])}, while a call fails: {failure_in_words(origin.failure)}")
    else:
        first = kills.pop(0)
        if low < high:
            lines.append(f"commit {shown(operations[low])}")
            lines += _steps(trace.steps[trace.started[low] : first.step_count])
        lines.append(_killed(trace.steps, first))
    recoveries = [
        f"open the writer, and kill it after {counted(kill.step_count, 'step')} of its recovery" for kill in kills
    ]
    if origin.opening is not None:
        recoveries.append(f"open the writer, while a call fails: {failure_in_words(origin.opening)}")
    return [*lines, *recoveries]


def _steps(steps: Sequence[Call]) -> list[str]:
    lines = [f"  {_call(step)}" for step in steps]
    left_out = len(lines) - STEPS_SHOWN_MAX
    return lines if left_out <= 0 else [f"  ({counted(left_out, 'step')} more)", *lines[left_out:]]


def _killed(steps: Sequence[Call], kill: Kill) -> str:
    if kill.step_count == len(steps):
        return "kill the process"
    following = steps[kill.step_count]
    inside = f"{kill.cut_bytes} bytes into" if kill.cut_bytes else "before"
    return f"kill the process {inside}: {_call(following)}"


def _call(call: Call) -> str:
    size = f", {counted(len(call.content), 'byte')} at {call.offset_bytes}" if call.content else ""
    return f"{call.kind} {call.path}{size}"
