"""Replays an execution of a target from its steps, and reduces it to the steps that a violation needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tornproof.harness.common.read_numbers import integer_of
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import OF_ANOTHER_RUN
from tornproof.harness.counterexamples.plain_data import operation_of
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.explorers.own_system.execution import Choose, Execution
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError

TAKEN: dict[str, Callable[..., None]] = {
    "commit": Execution.commit,
    "commit killed": Execution.commit_killed,
    "commit failing": Execution.commit_failing,
    "reopen": Execution.reopen,
    "recovery killed": Execution.recovery_killed,
    "opening failing": Execution.opening_failing,
    "written back": Execution.written_back,
}
"""How a step is taken, by what it says that it does."""
Step: TypeAlias = dict[str, Any]
NOT_REPLAYABLE = (*OF_ANOTHER_RUN, AttributeError)
"""What is raised for steps that are malformed or that the target does not take."""


def violation_of(
    target: Target, path: str, steps: Sequence[Step], operations: Sequence[Any] | None = None
) -> Violation | None:
    """Replay steps and return what they violate, if anything; raises one of `NOT_REPLAYABLE`."""
    return replay(target, path, steps, operations)[0]


def without_needless_steps(
    target: Target, path: str, steps: Sequence[Step], violated: str, operations: Sequence[Any] | None = None
) -> tuple[Step, ...]:
    """Leave out each step, the last ones first, without which the same property is still violated.

    Hypothesis stops where every single choice is small, and keeps steps that later choices depend on.
    """
    kept, index = tuple(steps), len(steps)
    while index:
        index -= 1
        fewer = (*kept[:index], *kept[index + 1 :])
        try:
            violation = violation_of(target, path, fewer, operations)
        except (*NOT_REPLAYABLE, NotDeterministicError):
            continue
        if violation is not None and violation.violated is violated:
            kept, index = fewer, len(fewer)
    return kept


def replay(
    target: Target, path: str, steps: Sequence[Step], operations: Sequence[Any] | None
) -> tuple[Violation | None, tuple[str, ...]]:
    """Replay steps; return what they violate, if anything, and the lines that describe them."""
    lines: list[str] = []
    try:
        execution = Execution(target, path)
        lines = execution.lines
        try:
            for step in steps:
                TAKEN[step["do"]](execution, *operations_of([step], operations), _chooser(step["choices"]))
        finally:
            execution.end()
    except Violation as violation:
        return violation, tuple(lines)
    return None, tuple(lines)


def operations_of(steps: Sequence[Step], operations: Sequence[Any] | None) -> list[Any]:
    """Return what steps commit, which is stored or is one of `operations`."""
    return [operation_of(step["operation"], operations) for step in steps if "operation" in step]


def _chooser(choices: Sequence[int]) -> Choose:
    remaining: Iterator[int] = iter(choices)

    def choose(count: int) -> int:
        choice = integer_of(next(remaining, -1))
        if not 0 <= choice < count:
            raise _NotReplayableError(f"choice {choice} of {count}")
        return choice

    return choose


class _NotReplayableError(ValueError):
    """The target does not take these steps."""
