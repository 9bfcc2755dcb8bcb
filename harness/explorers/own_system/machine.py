"""The machine: Hypothesis generates executions of any target with kills and failing calls, and shrinks a bad one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis, quiet_settings
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.plain_data import document_of
from tornproof.harness.explorers.kills.exploration import FAILED_CALL, OLD_STATE, POINTS
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.explorers.own_system.execution import NOTHING_FAILS, Execution, counted
from tornproof.harness.explorers.own_system.rehearsal import Rehearsal
from tornproof.harness.explorers.own_system.replaying import (
    NOT_REPLAYABLE,
    TAKEN,
    Step,
    operations_of,
    replay,
    violation_of,
    without_needless_steps,
)
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.harness.systems.toy import (
    AcknowledgesFirst,
    HeaderFirst,
    HidesAtItsEnd,
    NeverDone,
    RecoversInPlace,
    SwallowsErrors,
    SyncsAgain,
    Toy,
)
from tornproof.harness.systems.toy_locks import DropsUndo, LockFile, UndoesInVain
from tornproof.harness.systems.toy_losses import GivesIn, GoesOnBehindLoss, TakesUnreadForEmpty

PHASE = "machine"
COVERAGE_GOALS = (OLD_STATE, FAILED_CALL)
STEPS = "world_steps"
"""What evidence calls the steps of an execution; those of older releases, called `steps`, are not of the world."""
Operations: TypeAlias = "Sequence[Any] | st.SearchStrategy[Any]"


def explore_executions(
    target: Target,
    operations: Operations,
    *,
    path: str,
    steps: int,
    examples: int,
    seed: int,
) -> Phase:
    """Run `examples` executions of up to `steps` steps; the same seed gives the same ones.

    `operations` is a strategy, or the list to draw from. UNKNOWN when a coverage goal was not reached. Raises
    NotDeterministicError if the commits of a violation do something else each time, even where nothing fails.
    """
    failed = failed_controls()
    search = _Search(target=target, operations=operations, path=path)
    is_deterministic = search.run(steps=steps, examples=examples, seed=seed)
    if search.failure and is_deterministic:
        Rehearsal.of(target, search.failure.operations, path=path).repeat()
        search.failure = _smaller(search.failure, target, path, _listed(operations))
    notes = [] if is_deterministic else ["the same execution did not end the same way twice"]
    findings = (search.failure.finding(target.name, seed),) if search.failure and is_deterministic else ()
    phase = Phase(
        name=PHASE,
        explored=search.execution_count,
        complete=False,
        bound=f"a sample: {search.execution_count} executions of up to {steps} steps, random from seed {seed}; "
        f"{STEP_BOUND}",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        counts={"executions": search.execution_count, **search.counts},
        reached={**dict.fromkeys(POINTS, 0), **search.reached},
        note="; ".join(notes),
        findings=findings,
    )
    # Calls of mapped memory alone cannot fail.
    nothing_fails = search.counts[NOTHING_FAILS] and not search.reached[FAILED_CALL]
    goals = [goal for goal in COVERAGE_GOALS if goal != FAILED_CALL or not nothing_fails]
    return phase.with_controls(failed).with_coverage_goals(goals)


def replay_execution(target: Target, operations: Operations, finding: Finding, *, path: str) -> Verdict:
    """Return INVALID when the finding's execution violates the same property again, VALID when it violates none.

    UNKNOWN when it violates another one, or cannot be replayed: the target takes other steps now, an operation is no
    plain data, or an older release made it, which counted an access to several pages as one call. Raises
    NotDeterministicError for a target that does something else each time.
    """
    try:
        steps = finding.evidence[STEPS]
        Rehearsal.of(target, operations_of(steps, _listed(operations)), path=path).repeat()
        violation = violation_of(target, path, steps, _listed(operations))
    except NOT_REPLAYABLE:
        return Verdict.UNKNOWN
    return Verdict.VALID if violation is None else violation.verdict_on(finding)


def _listed(operations: Operations) -> Sequence[Any] | None:
    return None if isinstance(operations, st.SearchStrategy) else operations


# The search


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    violation: Violation
    steps: tuple[Step, ...]
    lines: tuple[str, ...]
    operations: tuple[Any, ...]

    def finding(self, target: str, seed: int) -> Finding:
        return Finding(
            property=self.violation.violated,
            phase=PHASE,
            sentence=f"After {counted(len(self.steps), 'step')}: {self.violation.reason}.",
            evidence={"target": target, "seed": seed, STEPS: list(self.steps), "narrative": list(self.lines)},
        )


def _smaller(failure: _Failure, target: Target, path: str, operations: Sequence[Any] | None) -> _Failure:
    steps = without_needless_steps(target, path, failure.steps, failure.violation.violated, operations)
    if steps == failure.steps:
        return failure
    violation, lines = replay(target, path, steps, operations)
    assert violation is not None, "the steps that are kept violate a property"
    return replace(failure, violation=violation, steps=steps, lines=lines)


@dataclass(slots=True, kw_only=True)
class _Search:
    target: Target
    operations: Operations
    path: str
    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    execution_count: int = 0
    failure: _Failure | None = None

    def run(self, *, steps: int, examples: int, seed: int) -> bool:
        """Return whether every execution that was repeated ended the same way."""
        chosen = quiet_settings(examples, shrinks=True, rules_max=steps)
        machine = type("Machine", (_Machine,), {"search": self})
        try:
            with quiet_hypothesis():
                run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=chosen)
        except Violation:
            pass
        except (Flaky, NotDeterministicError):
            return False
        return True

    def draw(self, data: st.DataObject) -> tuple[Any, Any]:
        """Return an operation as it is stored in a finding, and itself."""
        if isinstance(self.operations, st.SearchStrategy):
            operation = data.draw(self.operations)
            try:
                return document_of(operation), operation
            except TypeError as error:
                return {"unwritable": str(error)}, operation
        index = data.draw(st.integers(0, len(self.operations) - 1))
        return {"index": index}, self.operations[index]


class _Machine(RuleBasedStateMachine):
    search: _Search

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Step] = []
        self._execution: Execution | None = None
        self._is_counted = self.search.failure is None
        with self._noting():
            self._execution = Execution(self.search.target, self.search.path)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self._commit("commit", data)

    @rule(data=st.data())
    def commit_killed(self, data: st.DataObject) -> None:
        self._commit("commit killed", data)

    @rule(data=st.data())
    def commit_failing(self, data: st.DataObject) -> None:
        self._commit("commit failing", data)

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        self._take({"do": "reopen"}, data)

    @rule(data=st.data())
    def recovery_killed(self, data: st.DataObject) -> None:
        self._take({"do": "recovery killed"}, data)

    @rule(data=st.data())
    def opening_failing(self, data: st.DataObject) -> None:
        self._take({"do": "opening failing"}, data)

    @rule(data=st.data())
    def commit_and_its_recovery_killed(self, data: st.DataObject) -> None:
        """Kill twice in a row: rules drawn one by one seldom kill a recovery that has work to do."""
        self.commit_killed(data)
        self.recovery_killed(data)

    @rule(data=st.data())
    def written_back(self, data: st.DataObject) -> None:
        self._take({"do": "written back"}, data)

    @rule(data=st.data())
    def commit_killed_and_its_recovery_failing(self, data: st.DataObject) -> None:
        """Let a call fail in a recovery that has work to do, where the disk may have a part of what was done."""
        self.commit_killed(data)
        if data.draw(st.booleans()):
            self.written_back(data)
        self.opening_failing(data)

    def teardown(self) -> None:
        if self._execution is None:
            return
        self._execution.end()
        if self._is_counted:
            self.search.execution_count += 1
            self.search.counts += self._execution.counts
            self.search.reached += self._execution.reached

    def _commit(self, do: str, data: st.DataObject) -> None:
        document, operation = self.search.draw(data)
        self._take({"do": do, "operation": document}, data, operation)

    def _take(self, step: Step, data: st.DataObject, *operation: Any) -> None:
        choices: list[int] = []
        self._steps.append({**step, "choices": choices})

        def choose(count: int) -> int:
            choices.append(data.draw(st.integers(0, count - 1)))
            return choices[-1]

        assert self._execution is not None
        with self._noting():
            TAKEN[step["do"]](self._execution, *operation, choose)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note a violation: Hypothesis runs the smallest failing execution last."""
        try:
            yield
        except Violation as violation:
            lines, operations = (self._execution.lines, self._execution.operations) if self._execution else ([], [])
            self.search.failure = _Failure(
                violation=violation, steps=tuple(self._steps), lines=tuple(lines), operations=tuple(operations)
            )
            raise


# Controls


def _step(do: str, operation: bytes | None = None, *choices: int) -> Step:
    return {"do": do, "choices": choices} | ({} if operation is None else {"operation": {"bytes": operation.hex()}})


CONTROLS: tuple[tuple[Target, str, tuple[Step, ...]], ...] = (
    (HeaderFirst(), Property.REJECTED, (_step("commit killed", b"one", 2, 0),)),
    (AcknowledgesFirst(), Property.STALE, (_step("commit", b"one"),)),
    (SwallowsErrors(), Property.SYNCED, (_step("commit failing", b"one", 11, 0),)),
    (SyncsAgain(), Property.SYNCED, (_step("commit failing", b"one", 11, 0),)),
    (
        RecoversInPlace(),
        Property.STALE,
        (_step("commit", b"one"), _step("commit killed", b"two", 1), _step("recovery killed", None, 2, 0)),
    ),
    (NeverDone(), Property.IDEMPOTENT, (_step("reopen"), _step("reopen"))),
    (HidesAtItsEnd(), Property.STALE, (_step("commit", b"one"), _step("reopen"), _step("reopen"))),
    (LockFile(), Property.ENDS, (_step("commit killed", b"one", 2, 0),)),
    (GivesIn(), Property.STALE, (_step("commit failing", b"one", 0, 0), _step("commit", b"two"))),
    (
        TakesUnreadForEmpty(),
        Property.WRONG_SNAPSHOT,
        (_step("commit", b"one"), _step("opening failing", None, 3), _step("commit", b"two")),
    ),
    (GoesOnBehindLoss(), Property.STALE, (_step("commit failing", b"one", 7, 0), _step("commit", b"two"))),
    (
        UndoesInVain(),
        Property.WRONG_SNAPSHOT,
        (
            _step("commit", b"one"),
            _step("commit killed", b"two", 9, 1, 1),
            _step("written back"),
            _step("opening failing", None, 12),
        ),
    ),
    (
        DropsUndo(),
        Property.LOST,
        (_step("commit", b"one"), _step("commit killed", b"two", 9, 0, 1), _step("reopen")),
    ),
)
SOUND = (
    _step("commit", b"one"),
    _step("commit killed", b"two", 2, 1),
    _step("recovery killed", None, 0),
    _step("commit failing", b"three", 11, 0),
    _step("commit", b"four"),
    _step("opening failing", None, 0),
    _step("reopen"),
)


def failed_controls() -> list[str]:
    """Run each broken toy's steps; return in words which was not detected, and what the sound toy violates."""
    failures = []
    for target, violated, steps in CONTROLS:
        violation = violation_of(target, "toy", steps)
        if violation is None or violation.violated is not violated:
            failures.append(f"the toy that {target.name!r} was not detected: {violated}")
    false_alarm = violation_of(Toy(), "toy", SOUND)
    return failures if false_alarm is None else [*failures, f"the sound toy was said to be broken: {false_alarm}"]
