"""Hypothesis generates programs of rules, and shrinks one that violates a property."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tornproof.harness.common.quiet_hypothesis import quiet_settings
from tornproof.harness.common.verdict import HasTime, OnProgress, always
from tornproof.harness.explorers.model_based.commit import FAULT_KINDS
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.rules import RULES, WEIGHTED_RULES, Step, possible, take
from tornproof.harness.explorers.model_based.start import Start, StorageKind, fresh_copy
from tornproof.harness.explorers.model_based.world import World
from tornproof.impl.write.partition_change import RowGroupEncoder, WriterOptions

STEPS_IN_PROGRAM = 40
PROGRAMS_IN_BATCH = 50
SHRINKING_STEPS = 1_500
# Hypothesis sometimes draws a constant from our sources, but none below 100: so no edit of them changes a run.
_ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "place": st.integers(0, 2),
    "count": st.integers(1, 5),
    # Half of the time all rows go to the first interval, so that its partition gets a long history.
    "rows": st.one_of(*(st.lists(st.integers(0, most), min_size=1, max_size=5) for most in (23, 71))),
    "nth": st.integers(0, 11),
    # The last steps of a commit are few, and decide whether it happened.
    "kind": st.sampled_from((*sorted(FAULT_KINDS), "sync mapping")),
    "call": st.sampled_from((*sorted(FAULT_KINDS.keys() - {"store"}), "sync mapping")),
    "at": st.integers(0, 63),
    "written_bytes": st.sampled_from((0, 8, 40, 99)),
    "reader": st.integers(0, 2),
}
# Small row groups, so that there are several; in small files only the ratio decides when they are rewritten.
OPTIONS = (
    WriterOptions(row_group_row_count_max=6, rewrite_unused_ratio=1.0),
    WriterOptions(row_group_row_count_max=3, rewrite_unused_ratio=0.7),
)


class BudgetUsedUp(BaseException):
    """Ends a run of Hypothesis from inside a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A program that violates a property; `options` is an index into `OPTIONS`."""

    steps: tuple[Step, ...]
    options: int
    violation: ViolationError

    @property
    def size(self) -> tuple[int, int, str]:
        """The order of programs: shorter ones first, and among equal lengths the simpler ones."""
        return len(self.steps), sum(len(str(each)) for each in self.steps), str(self.steps)


@dataclass(slots=True, kw_only=True)
class Search:
    """Programs from one start; ends after `steps` rule executions, when `has_time` returns False, or with a failure."""

    start: Start
    kind: StorageKind
    scratch: str
    encode: RowGroupEncoder
    steps: int
    has_time: HasTime = always
    on_progress: OnProgress = lambda done, total: None
    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    program_count: int = 0
    is_out_of_time: bool = False
    failure: Failure | None = None
    options: int = 0
    _is_over: bool = False
    _shrinking_steps: int = 0

    @property
    def explored(self) -> int:
        """Rule executions, without those of shrinking."""
        return self.counts.total()

    def run(self, number: int, *, shrinks: bool = True) -> None:
        """Explore batches of programs, with seeds that follow from `number`."""
        batch = 0
        while self.failure is None and not self._is_over:
            self.options = (number + batch) % len(OPTIONS)
            self._run_batch(number * 1_000_003 + batch, shrinks)
            batch += 1

    def _run_batch(self, number: int, shrinks: bool) -> None:
        chosen = quiet_settings(PROGRAMS_IN_BATCH, shrinks=shrinks, rules_max=STEPS_IN_PROGRAM)
        try:
            run_state_machine_as_test(seed(number)(_machine(self)), settings=chosen)
        except BudgetUsedUp:
            pass
        except Exception:
            # A failure and a run that was ended early are both noted, so what Hypothesis says of them does not matter.
            if self.failure is None and not self._is_over:
                raise

    def begin_step(self, name: str) -> None:
        """Count a rule execution, unless it only serves to shrink a program."""
        if self.failure is not None:
            self._shrinking_steps += 1
            if self._shrinking_steps > SHRINKING_STEPS:
                raise BudgetUsedUp
            return
        self.is_out_of_time = not self.has_time()
        self._is_over = self.is_out_of_time or self.explored >= self.steps
        if self._is_over:
            raise BudgetUsedUp
        self.counts[name] += 1
        if self.explored % 100 == 0:
            self.on_progress(self.explored, self.steps)

    def note(self, failure: Failure) -> None:
        """Keep the smallest program."""
        if self.failure is None or failure.size < self.failure.size:
            self.failure = failure


def replay(search: Search, options: int, steps: tuple[Step, ...]) -> ViolationError | None:
    """Run a program from the start, and return the violation, if any."""
    with ExitStack() as opened:
        try:
            search.options = options
            world = _new_world(search, opened)
            for each in steps:
                if not RULES[each["rule"]].is_possible(world):
                    return None
                take(world, each)
            world.check_everything()
        except ViolationError as violation:
            return violation
    return None


def _new_world(search: Search, opened: ExitStack) -> World:
    storage, path = opened.enter_context(fresh_copy(search.start, search.kind, search.scratch))
    world = World(search.start, storage, path, options=OPTIONS[search.options], encode=search.encode)
    opened.callback(world.end)
    take(world, {"rule": "reopen"})
    return world


def _machine(search: Search) -> type[RuleBasedStateMachine]:
    return type("Machine", (_Machine,), {"search": search})


class _Machine(RuleBasedStateMachine):
    search: Search
    world: World

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Step] = []
        self._has_ended = False
        self.search.program_count += self.search.failure is None
        with ExitStack() as opened:
            self._noting(lambda: setattr(self, "world", _new_world(self.search, opened)))
            self._opened = opened.pop_all()

    @rule(number=st.integers(0, len(WEIGHTED_RULES) - 1), data=st.data())
    def take(self, number: int, data: st.DataObject) -> None:
        """Draw a rule by its weight, which Hypothesis itself cannot do, and execute it."""
        name = possible(self.world, number)
        arguments = {each: data.draw(_ARGUMENTS[each]) for each in RULES[name].arguments}
        self._has_ended = True
        self.search.begin_step(name)
        self._steps.append({"rule": name, **arguments})
        self._noting(lambda: take(self.world, self._steps[-1]))
        self._has_ended = False

    def teardown(self) -> None:
        """Compare everything once more, unless the program has ended already."""
        try:
            if not self._has_ended:
                self._noting(self.world.check_everything)
        finally:
            if self.search.failure is None:
                self.search.reached += self.world.reached
            self._opened.close()

    def _noting(self, run: Callable[[], None]) -> None:
        try:
            run()
        except ViolationError as violation:
            self.search.note(Failure(steps=tuple(self._steps), options=self.search.options, violation=violation))
            raise
