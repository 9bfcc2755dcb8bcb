"""A program that violates a property is made smaller: steps and rows are left out while it still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.rules import Step

Steps: TypeAlias = tuple[Step, ...]
Run: TypeAlias = Callable[[int, Steps], ViolationError | None]
START_COST_STEPS = 4
"""What starting a program and comparing everything at its end cost, in steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A program that violates a property; `options` is an index into those of the start."""

    steps: Steps
    options: int
    violation: ViolationError


def smallest(failure: Failure, run: Run, *, steps_max: int) -> Failure:
    """Return a program that violates the same property, of which nothing more can be left out alone.

    `run` runs a program with some options. Once `steps_max` steps have run, the smallest program so far is returned.
    """
    shrinking = _Shrinking(failure, run, steps_max)
    before = None
    while before is not shrinking.failure:
        before = shrinking.failure
        shrinking.leave_out_steps()
        shrinking.simplify()
    return shrinking.failure


class _Shrinking:
    def __init__(self, failure: Failure, run: Run, steps_max: int) -> None:
        self.failure = failure
        self._run = run
        self._left = steps_max

    def leave_out_steps(self) -> None:
        """Leave out as many steps in a row as possible, from the end to the beginning."""
        size = len(self.failure.steps)
        while size > 0:
            for start in range(len(self.failure.steps) - size, -size, -size):
                steps = self.failure.steps
                self._try(steps[: max(0, start)] + steps[start + size :])
            size //= 2

    def simplify(self) -> None:
        """Make the arguments of each step simpler."""
        for index in range(len(self.failure.steps)):
            for name in self.failure.steps[index]:
                for value in _simpler(self.failure.steps[index][name]):
                    steps = self.failure.steps
                    self._try((*steps[:index], {**steps[index], name: value}, *steps[index + 1 :]))
        self._try(self.failure.steps, options=0)

    def _try(self, steps: Steps, options: int | None = None) -> None:
        options = self.failure.options if options is None else options
        if self._left <= 0 or (steps, options) == (self.failure.steps, self.failure.options):
            return
        self._left -= len(steps) + START_COST_STEPS
        violation = self._run(options, steps)
        if violation is not None and violation.broken == self.failure.violation.broken:
            self.failure = Failure(steps=steps, options=options, violation=violation)


def _simpler(value: Any) -> Iterator[Any]:
    """Yield simpler values of an argument, the simplest first."""
    if isinstance(value, int):
        yield from dict.fromkeys(each for each in (0, value // 2, value - 1) if 0 <= each < value)
    if isinstance(value, list) and len(value) > 1:
        yield from ([each] for each in value)
        yield from (value[:index] + value[index + 1 :] for index in range(len(value)))
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from ([*value[:index], simpler, *value[index + 1 :]] for simpler in _simpler(each))
