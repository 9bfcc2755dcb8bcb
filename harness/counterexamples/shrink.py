"""The one shrinker: a case is made smaller as long as the same property is broken by the same part of the cast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, PowerCut, moved_to
from tornproof.harness.counterexamples.run import Player, RunResult, Signature
from tornproof.harness.counterexamples.smaller import (
    Case,
    compact,
    simpler_choices,
    with_fewer_operations,
    with_fewer_readers,
    without_crash,
)
from tornproof.harness.counterexamples.stage import Watcher
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.client import Node
from tornproof.harness.simulator.process.situation import NotExplorableError, Situation
from tornproof.harness.simulator.process.world import World

STEP_BUDGET = 1_000_000
STEPS_OF_A_RUN = 100
"""What beginning a run costs beside its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest case that was found, its run, and what that took; not `is_smallest` where the budget ended first."""

    case: Case
    result: RunResult
    run_count: int
    step_count: int
    is_smallest: bool


class NotReproducedError(Exception):
    """The log does not break the property."""


def shrink(situation: Situation, log: DecisionLog, wanted: Signature, *, step_budget: int = STEP_BUDGET) -> Shrunk:
    """Make a case smaller within a budget of steps; raises NotReproducedError."""
    shrinker = _Shrinker(Case(situation, log), wanted, step_budget)
    try:
        is_smallest = shrinker.run()
        return shrinker.result(is_smallest=is_smallest)
    finally:
        shrinker.close()


class _BudgetEndsError(Exception):
    pass


class Itinerary(Watcher):
    """Which steps each client did, and the files before each decision."""

    def __init__(self) -> None:
        """Wait for a run."""
        self.steps: dict[str, list[Step]] = {}
        self.kernels: dict[Deviation, Kernel] = {}

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Note the step."""
        self.steps.setdefault(step.client, []).append(step)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Keep the files."""
        if isinstance(deviation, PowerCut):
            self.kernels[deviation] = kernel.fork()

    def until(self, step: Step) -> list[Step]:
        """Return what the same client did before a step."""
        steps = self.steps.get(step.client, [])
        return steps[: steps.index(step)] if step in steps else steps

    def since(self, step: Step) -> list[Step]:
        """Return the step, and what the same client did after it."""
        steps = self.steps.get(step.client, [])
        return steps[steps.index(step) :] if step in steps else []

    def before(self, step: Step) -> Step | None:
        """Return the step that the same client did right before."""
        return next(reversed(self.until(step)), None)


class _Shrinker:
    def __init__(self, case: Case, wanted: Signature, step_budget: int) -> None:
        self._case = case
        self._wanted = wanted
        self._budget = step_budget
        self._player = Player(case.situation)
        self._run_count = self._step_count = 0

    def run(self) -> bool:
        """Shrink until nothing helps any more; False where the budget ended first."""
        if not self._accepts(self._case):
            raise NotReproducedError(f"no {self._wanted.part} breaks: {self._wanted.property}")
        try:
            before: object = None
            while before != self._case:
                before = self._case
                self._try_all(without_crash)
                self._try_all(with_fewer_readers)
                self._try_all(with_fewer_operations)
                self._drop_deviations()
                self._simplify_choices()
                self._move_earlier()
        except _BudgetEndsError:
            return False
        return True

    def result(self, *, is_smallest: bool) -> Shrunk:
        """Number the operations anew, and run the case for the last time."""
        case = compact(self._case)
        with Player(case.situation) as player:
            result = player.play(case.log, wanted=self._wanted)
        assert result.violation(self._wanted) is not None, "numbering operations anew changes nothing"
        return Shrunk(
            case=case,
            result=result,
            run_count=self._run_count,
            step_count=self._step_count,
            is_smallest=is_smallest,
        )

    def close(self) -> None:
        """End all greenlets."""
        self._player.__exit__()

    def _accepts(self, case: Case) -> bool:
        """Run a case, and go on with what of its log applied if it breaks the same property."""
        if self._step_count > self._budget:
            raise _BudgetEndsError
        is_other = case.situation is not self._player.situation
        player = Player(case.situation) if is_other else self._player
        try:
            result = player.play(case.log, wanted=self._wanted, adapts=True)
        except NotExplorableError:
            # What is smaller may fail by itself, which is another finding.
            result = None
        self._run_count += 1
        self._step_count += STEPS_OF_A_RUN + (result.step_count if result else 0)
        holds = result is not None and result.violation(self._wanted) is not None
        if result is not None and holds:
            self._case = Case(case.situation, DecisionLog(result.applied))
            self._player, player = player, self._player
        if is_other:
            player.__exit__()
        return holds

    def _try_all(self, smaller: Callable[[Case], Iterable[Case]]) -> None:
        """Take each smaller case that still breaks the property, and look for smaller ones of that."""
        while any(self._accepts(case) for case in smaller(self._case)):
            pass

    def _drop_deviations(self) -> None:
        """Leave decisions out, many at once first; then two at once, because a turn and its return go together."""
        width = len(self._case.log.deviations)
        while width:
            place = 0
            while place < len(self._case.log.deviations):
                if not self._accepts(self._leaving_out(range(place, place + width))):
                    place += width
            width //= 2
        while any(self._accepts(self._leaving_out(pair)) for pair in self._pairs()):
            pass

    def _pairs(self) -> Iterator[tuple[int, int]]:
        count = len(self._case.log.deviations)
        for first in range(count):
            for second in range(first + 1, count):
                yield first, second

    def _leaving_out(self, places: Iterable[int]) -> Case:
        gone = set(places)
        kept = (each for place, each in enumerate(self._case.log.deviations) if place not in gone)
        return Case(self._case.situation, DecisionLog(tuple(kept)))

    def _simplify_choices(self) -> None:
        """Let more persist in power cuts."""
        for place, deviation in enumerate(self._case.log.deviations):
            if isinstance(deviation, PowerCut):
                while any(self._accepts(self._replaced(place, each)) for each in self._simpler(place)):
                    pass

    def _simpler(self, place: int) -> Iterator[Deviation]:
        deviation = self._case.log.deviations[place]
        assert isinstance(deviation, PowerCut)
        kernel = self._walked().kernels[deviation]
        for choice in simpler_choices(kernel, deviation.model, deviation.choice):
            yield PowerCut(deviation.at, deviation.model, choice)

    def _move_earlier(self) -> None:
        """Move each decision back to the first step at which it still does it, so that the step before is the cause."""
        for place in range(len(self._case.log.deviations)):
            while self._moves_back(place):
                pass

    def _moves_back(self, place: int) -> bool:
        deviations = self._case.log.deviations
        before = self._walked().before(deviations[place].at) if place < len(deviations) else None
        return before is not None and self._accepts(self._replaced(place, moved_to(deviations[place], before)))

    def _replaced(self, place: int, deviation: Deviation) -> Case:
        deviations = self._case.log.deviations
        return Case(self._case.situation, DecisionLog((*deviations[:place], deviation, *deviations[place + 1 :])))

    def _walked(self) -> Itinerary:
        itinerary = Itinerary()
        self._player.play(self._case.log, wanted=self._wanted, watcher=itinerary)
        return itinerary
