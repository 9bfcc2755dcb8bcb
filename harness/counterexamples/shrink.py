"""The one shrinker: a case is made smaller while the same kind of process still breaks the same property."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, PowerCut, moved_to
from tornproof.harness.counterexamples.replay_engine import Observer
from tornproof.harness.counterexamples.run import Replayer, RunResult, Signature
from tornproof.harness.counterexamples.smaller import (
    Candidate,
    compact,
    simpler_choices,
    with_fewer_operations,
    with_fewer_readers,
    without_crash,
)
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

STEP_BUDGET = 1_000_000
STEPS_OF_A_RUN = 100
"""What starting a run costs, in steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest case that was found, its run, and the cost; not `is_smallest` if the budget ended first."""

    candidate: Candidate
    result: RunResult
    run_count: int
    step_count: int
    is_smallest: bool


class NotReproducedError(Exception):
    """The log does not break the property."""


def shrink(case: TestCase, log: DecisionLog, wanted: Signature, *, step_budget: int = STEP_BUDGET) -> Shrunk:
    """Return the smallest case within a budget of steps; raises NotReproducedError."""
    shrinker = _Shrinker(Candidate(case, log), wanted, step_budget)
    try:
        is_smallest = shrinker.run()
        return shrinker.result(is_smallest=is_smallest)
    finally:
        shrinker.close()


class _BudgetExhaustedError(Exception):
    pass


class StepRecorder(Observer):
    """Keeps the steps of each process, and the files before each power cut."""

    def __init__(self) -> None:
        """Begin with no steps."""
        self.steps: dict[str, list[Step]] = {}
        self.kernels: dict[Deviation, Kernel] = {}

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Note the step."""
        self.steps.setdefault(step.process, []).append(step)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Keep the files."""
        if isinstance(deviation, PowerCut):
            self.kernels[deviation] = kernel.fork()

    def until(self, step: Step) -> list[Step]:
        """Return the steps of the same process before a step."""
        steps = self.steps.get(step.process, [])
        return steps[: steps.index(step)] if step in steps else steps

    def since(self, step: Step) -> list[Step]:
        """Return the step, and those of the same process after it."""
        steps = self.steps.get(step.process, [])
        return steps[steps.index(step) :] if step in steps else []

    def before(self, step: Step) -> Step | None:
        """Return the step of the same process right before."""
        return next(reversed(self.until(step)), None)


class _Shrinker:
    def __init__(self, candidate: Candidate, wanted: Signature, step_budget: int) -> None:
        self._case = candidate
        self._wanted = wanted
        self._budget = step_budget
        self._replayer = Replayer(candidate.case)
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
        except _BudgetExhaustedError:
            return False
        return True

    def result(self, *, is_smallest: bool) -> Shrunk:
        """Renumber the operations, and run the case once more."""
        candidate = compact(self._case)
        with Replayer(candidate.case) as replayer:
            result = replayer.play(candidate.log, wanted=self._wanted)
        assert result.violation(self._wanted) is not None, "renumbering operations changes nothing"
        return Shrunk(
            candidate=candidate,
            result=result,
            run_count=self._run_count,
            step_count=self._step_count,
            is_smallest=is_smallest,
        )

    def close(self) -> None:
        """End all greenlets."""
        self._replayer.__exit__()

    def _accepts(self, candidate: Candidate) -> bool:
        """Run a case; if it breaks the same property, continue from it with the decisions that applied."""
        if self._step_count > self._budget:
            raise _BudgetExhaustedError
        is_other = candidate.case is not self._replayer.case
        replayer = Replayer(candidate.case) if is_other else self._replayer
        try:
            result = replayer.play(candidate.log, wanted=self._wanted, adapts=True)
        except NotExplorableError:
            # A smaller case may fail without any decision, which is another finding.
            result = None
        self._run_count += 1
        self._step_count += STEPS_OF_A_RUN + (result.step_count if result else 0)
        holds = result is not None and result.violation(self._wanted) is not None
        if result is not None and holds:
            self._case = Candidate(candidate.case, DecisionLog(result.applied))
            self._replayer, replayer = replayer, self._replayer
        if is_other:
            replayer.__exit__()
        return holds

    def _try_all(self, smaller: Callable[[Candidate], Iterable[Candidate]]) -> None:
        """Accept smaller cases until none of them breaks the property."""
        while any(self._accepts(candidate) for candidate in smaller(self._case)):
            pass

    def _drop_deviations(self) -> None:
        """Leave decisions out, many at once first; then pairs, because a switch and the switch back go together."""
        width = len(self._case.log.deviations)
        while width:
            index = 0
            while index < len(self._case.log.deviations):
                if not self._accepts(self._leaving_out(range(index, index + width))):
                    index += width
            width //= 2
        while any(self._accepts(self._leaving_out(pair)) for pair in self._pairs()):
            pass

    def _pairs(self) -> Iterator[tuple[int, int]]:
        count = len(self._case.log.deviations)
        for first in range(count):
            for second in range(first + 1, count):
                yield first, second

    def _leaving_out(self, indexes: Iterable[int]) -> Candidate:
        gone = set(indexes)
        kept = (each for index, each in enumerate(self._case.log.deviations) if index not in gone)
        return Candidate(self._case.case, DecisionLog(tuple(kept)))

    def _simplify_choices(self) -> None:
        """Let power cuts keep more."""
        for index, deviation in enumerate(self._case.log.deviations):
            if isinstance(deviation, PowerCut):
                while any(self._accepts(self._replaced(index, each)) for each in self._simpler(index)):
                    pass

    def _simpler(self, index: int) -> Iterator[Deviation]:
        deviation = self._case.log.deviations[index]
        assert isinstance(deviation, PowerCut)
        kernel = self._recorded().kernels[deviation]
        for choice in simpler_choices(kernel, deviation.model, deviation.choice):
            yield PowerCut(deviation.at, deviation.model, choice)

    def _move_earlier(self) -> None:
        """Move each decision back to the first step at which it does harm: the step before is the cause."""
        for index in range(len(self._case.log.deviations)):
            while self._moves_back(index):
                pass

    def _moves_back(self, index: int) -> bool:
        deviations = self._case.log.deviations
        before = self._recorded().before(deviations[index].at) if index < len(deviations) else None
        return before is not None and self._accepts(self._replaced(index, moved_to(deviations[index], before)))

    def _replaced(self, index: int, deviation: Deviation) -> Candidate:
        deviations = self._case.log.deviations
        return Candidate(self._case.case, DecisionLog((*deviations[:index], deviation, *deviations[index + 1 :])))

    def _recorded(self) -> StepRecorder:
        recorder = StepRecorder()
        self._replayer.play(self._case.log, wanted=self._wanted, observer=recorder)
        return recorder
