"""A story of a target once more, from its steps, and with as few of them as break the same property."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tornproof.harness.common.system import Target
from tornproof.harness.counterexamples.plain_data import operation_of
from tornproof.harness.explorers.kills.judge import Property, Violation
from tornproof.harness.explorers.own_system.execution import Choose, Execution

COMMITS = {
    "commit": Execution.commit,
    "commit killed": Execution.commit_killed,
    "commit failing": Execution.commit_failing,
}
OPENINGS = {"reopen": Execution.reopen, "recovery killed": Execution.recovery_killed}
Step: TypeAlias = dict[str, Any]
OTHER_STEPS = (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration)
"""What steps can lead to that the target does not do."""


def reported(
    target: Target, path: str, steps: Sequence[Step], operations: Sequence[Any] | None = None
) -> Violation | None:
    """Do the steps of a story again and return what they violate; raises KeyError, ValueError, ... for other steps."""
    return retold(target, path, steps, operations)[0]


def without_needless_steps(
    target: Target, path: str, steps: Sequence[Step], violated: Property, operations: Sequence[Any] | None = None
) -> tuple[Step, ...]:
    """Leave out each step, the last ones first, without which the same property is broken.

    Hypothesis stops where every single choice is small, and cannot leave out what later draws depend on.
    """
    kept, position = tuple(steps), len(steps)
    while position:
        position -= 1
        fewer = (*kept[:position], *kept[position + 1 :])
        try:
            violation = reported(target, path, fewer, operations)
        except OTHER_STEPS:
            continue
        if violation is not None and violation.violated is violated:
            kept, position = fewer, len(fewer)
    return kept


def retold(
    target: Target, path: str, steps: Sequence[Step], operations: Sequence[Any] | None
) -> tuple[Violation | None, tuple[str, ...]]:
    """Return what the steps of a story violate, and its lines."""
    lines: list[str] = []
    try:
        execution = Execution(target, path)
        lines = execution.lines
        try:
            for step in steps:
                _take(execution, step, _chooser(step["choices"]), operations)
        finally:
            execution.end()
    except Violation as violation:
        return violation, tuple(lines)
    return None, tuple(lines)


def _take(execution: Execution, step: Step, choose: Choose, operations: Sequence[Any] | None) -> None:
    if step["do"] in COMMITS:
        COMMITS[step["do"]](execution, operation_of(step["operation"], operations), choose)
    else:
        OPENINGS[step["do"]](execution, choose)


def _chooser(choices: Sequence[int]) -> Choose:
    remaining: Iterator[int] = iter(choices)

    def choose(count: int) -> int:
        choice = next(remaining, -1)
        if not 0 <= choice < count:
            raise _OtherStepsError(f"choice {choice} of {count}")
        return choice

    return choose


class _OtherStepsError(ValueError):
    """The target does not do the steps of the story."""
