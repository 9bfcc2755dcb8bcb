"""Hypothesis generates programs of rules; one that violates a property is made smaller here.

Each program leaves out some rules and repeats another one (swarm testing), so that a rule that is rare among all of
them is common in some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tornproof.harness.common.quiet_hypothesis import quiet_settings
from tornproof.harness.common.verdict import HasTime, OnProgress, always
from tornproof.harness.explorers.model_based.cause import Watch
from tornproof.harness.explorers.model_based.commit import FAULT_KINDS
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.other_footers import CHANGES
from tornproof.harness.explorers.model_based.other_writers import FORM_COUNT
from tornproof.harness.explorers.model_based.rules import (
    FAVOURED_RULES,
    OPTIONAL_RULES,
    RULES,
    WEIGHTED_RULES,
    Step,
    possible,
    take,
)
from tornproof.harness.explorers.model_based.smaller import Failure, smallest
from tornproof.harness.explorers.model_based.start import Start, StorageKind, fresh_copy, prepare
from tornproof.harness.explorers.model_based.world import World, orderly
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.write.partition_change import RowGroupEncoder

STEPS_IN_PROGRAM = 40
PROGRAMS_IN_BATCH = 50
SHRINKING_STEPS = 4_000
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
    "form": st.integers(0, FORM_COUNT - 1),
    "footer": st.integers(0, len(CHANGES) - 1),
}


FIRST_STEPS: tuple[Step, ...] = (
    {"rule": "insert", "rows": [0, 3, 7, 10, 12]},
    {"rule": "commit"},
    {"rule": "insert", "rows": [2, 8, 16, 16, 26]},
    {"rule": "commit"},
    {"rule": "append", "place": 0, "count": 3},
    {"rule": "commit"},
    {"rule": "close"},
)
"""What is done to a table of our own before its programs begin."""


class BudgetUsedUp(BaseException):
    """Ends a run of Hypothesis from inside a rule."""


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
    failure: Failure | None = None
    options: int = 0
    _is_over: bool = False

    @property
    def explored(self) -> int:
        """Rule executions, without those of shrinking."""
        return self.counts.total()

    def run(self, number: int) -> None:
        """Explore batches of programs, with seeds that follow from `number`."""
        batch = 0
        while self.failure is None and not self._is_over:
            self._run_batch(number * 1_000_003 + batch, first=number + batch * PROGRAMS_IN_BATCH)
            batch += 1

    def _run_batch(self, number: int, first: int) -> None:
        chosen = quiet_settings(PROGRAMS_IN_BATCH, shrinks=False, rules_max=STEPS_IN_PROGRAM)
        try:
            run_state_machine_as_test(seed(number)(_machine(self, first)), settings=chosen)
        except BudgetUsedUp:
            pass
        except Exception:
            # A failure and a run that was ended early are both noted, so what Hypothesis says of them does not matter.
            if self.failure is None and not self._is_over:
                raise

    def begin_step(self, name: str) -> None:
        """Count a rule execution."""
        if self.failure is not None:
            raise BudgetUsedUp
        self._is_over = not self.has_time() or self.explored >= self.steps
        if self._is_over:
            raise BudgetUsedUp
        self.counts[name] += 1
        if self.explored % 100 == 0:
            self.on_progress(self.explored, self.steps)

    def run_fixed(self, steps: tuple[Step, ...], number: int) -> None:
        """Run a program that is given, and note what it reaches and violates."""
        self.program_count += 1
        violation = replay(self, number % len(self.start.options), steps, notes=True)
        if violation is not None and self.failure is None:
            self.failure = Failure(steps=steps, options=self.options, violation=violation)

    def smallest(self, failure: Failure) -> Failure:
        """Return a program that violates the same property, of which nothing more can be left out alone."""
        return smallest(failure, lambda options, steps: replay(self, options, steps), steps_max=SHRINKING_STEPS)


def replay(
    search: Search, options: int, steps: tuple[Step, ...], *, notes: bool = False, watch: Watch | None = None
) -> ViolationError | None:
    """Run a program from the start, without the rules that are not possible, and return the violation, if any.

    With `notes` the search counts its rules, and what it reaches.
    """
    with ExitStack() as opened:
        try:
            search.options = options
            world = _new_world(search, opened, watch)
            for each in steps:
                if RULES[each["rule"]].is_possible(world):
                    search.counts[each["rule"]] += notes
                    _take(world, each, watch)
            world.check_everything()
            search.reached += world.reached if notes else Counter()
        except ViolationError as violation:
            return violation.alone()
    return None


def filled(search: Search) -> Start:
    """Return the start after some commits, which leave several generations and row groups; raises ViolationError."""
    with ExitStack() as opened:
        world = _new_world(search, opened)
        for each in FIRST_STEPS:
            take(world, each)
        world.check_everything()
        storage = world.files.storage
        assert isinstance(storage, MemoryStorage), "our own tables are made in memory"
        with orderly("reading a new table"):
            return prepare(storage.image(), world.files.path)


def _take(world: World, step: Step, watch: Watch | None) -> None:
    if watch is None:
        take(world, step)
        return
    watch.stepping(world, step)
    try:
        take(world, step)
    finally:
        watch.stepped(world)


def _new_world(search: Search, opened: ExitStack, watch: Watch | None = None) -> World:
    copy = opened.enter_context(fresh_copy(search.start, search.kind, search.scratch))
    if watch is not None:
        copy = watch.watched(copy)
    world = World(search.start, copy, options=search.start.options[search.options], encode=search.encode)
    opened.callback(world.end)
    _take(world, {"rule": "reopen"}, watch)
    return world


def _machine(search: Search, first: int) -> type[RuleBasedStateMachine]:
    return type("Machine", (_Machine,), {"search": search, "numbers": count(first)})


class _Machine(RuleBasedStateMachine):
    search: Search
    numbers: Iterator[int]
    world: World
    left_out: frozenset[str] = frozenset()
    favoured: str = "commit"

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Step] = []
        self._has_ended = False
        self.search.program_count += self.search.failure is None
        self.search.options = next(self.numbers) % len(self.search.start.options)
        with ExitStack() as opened:
            self._noting(lambda: setattr(self, "world", _new_world(self.search, opened)))
            self._opened = opened.pop_all()

    @initialize(left_out=st.frozensets(st.sampled_from(OPTIONAL_RULES)), favoured=st.sampled_from(FAVOURED_RULES))
    def choose(self, left_out: frozenset[str], favoured: str) -> None:
        """Draw the rules that the program leaves out, and the one that it repeats."""
        self.left_out, self.favoured = left_out, favoured

    @rule(repeats=st.integers(0, 3), number=st.integers(0, len(WEIGHTED_RULES) - 1), data=st.data())
    def take(self, repeats: int, number: int, data: st.DataObject) -> None:
        """Draw a rule by its weight, which Hypothesis itself cannot do, and execute it."""
        drawn = self.favoured if repeats == 1 else WEIGHTED_RULES[number]
        name = possible(self.world, drawn, self.left_out)
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
            options = self.search.options
            self.search.failure = Failure(steps=tuple(self._steps), options=options, violation=violation.alone())
            raise
