"""The schedule × crash explorer: one test case under each crash model, with its controls and its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tornproof.harness.common import model_controls
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.explorers.schedules import small_programs
from tornproof.harness.search.crash_world import READER_INDEX, Sessions
from tornproof.harness.search.crashed_schedules import CrashedSchedules
from tornproof.harness.search.product_reduction import (
    IN_COMMIT,
    KEPT,
    LIVED_THROUGH,
    READER_AT_WORK,
    SEEN_EARLY,
    Moves,
    OnStates,
    ProductReduction,
    ReductionCounts,
    met_by_kills,
)
from tornproof.harness.search.reader_reduction import NotOnlyAReaderError
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.legal_files import WIDE_LIMITS
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    CDIR,
    N_512,
    POWER_MODELS,
    W_512,
    A,
    B,
    D,
    Model,
    model_named,
)
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Judge, Property, Violation
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.toy import HeaderFirst, NeverSyncs, NeverSyncsNames, Toy
from tornproof.harness.systems.toy_control import EVERY, Control, ForgetsReads
from tornproof.harness.systems.toy_locks import Undo, UndoesTogether, UndoesUnsynced
from tornproof.harness.systems.toy_losses import (
    BREAKS_IN_RECOVERY,
    FORBIDS_COMMITS,
    FORGETS,
    REJECTS_RECOVERY,
    SYNCS_RENAMED,
    SYNCS_RENAMED_DATA,
    TRUSTS_BLOCKS,
    WAITS_IN_RECOVERY,
    AppendsOnce,
    CleansUpInPlace,
    GivesIn,
    KeepsUndo,
    TrustsOrder,
    TrustsRename,
    TrustsZeros,
    UndoesWhatWasSeen,
)
from tornproof.harness.systems.toy_readers import Counter as LetterCounter
from tornproof.harness.systems.toy_readers import GoesBack, ReadsEarly, ToyRules
from tornproof.harness.systems.toy_specified import LosesALetter, Specified

PHASE = "product"
PRODUCT_MODELS = ("A", "D", "N-512")
"""N-512 leaves all disks that the other models leave but C-8, which has too many."""
POWER = frozenset(POWER_MODELS)
UNORDERED_NAMES = frozenset({CDIR, N_512})
CONTROLS = (
    Control(target=Toy(), detected_by=frozenset()),
    # What is lost, and how it is torn.
    Control(target=NeverSyncs(), violated=Property.LOST, detected_by=POWER),
    Control(target=NeverSyncsNames(), violated=Property.LOST, detected_by=POWER),
    Control(target=KeepsUndo(), violated=Property.LOST, detected_by=POWER, accepted_by=frozenset()),
    Control(target=SYNCS_RENAMED_DATA, violated=Property.LOST, detected_by=POWER),
    Control(target=SYNCS_RENAMED, violated=Property.LOST, detected_by=UNORDERED_NAMES),
    # Beside a reader that is slow it is broken in other ways, too.
    Control(target=TrustsRename(), violated=Property.REJECTED, detected_by=frozenset({N_512}), accepted_by=frozenset()),
    Control(target=TrustsOrder(), violated=Property.REJECTED, detected_by=POWER - {B}),
    Control(target=AppendsOnce(), violated=Property.WRONG_SNAPSHOT, detected_by=POWER - {B}),
    Control(target=TRUSTS_BLOCKS, violated=Property.REJECTED, detected_by=frozenset({C_512, C_8, W_512, N_512})),
    Control(target=TrustsZeros(), violated=Property.WRONG_SNAPSHOT, detected_by=frozenset({W_512, N_512})),
    # What a reader sees before a crash, after it, and after a sync that failed.
    Control(target=HeaderFirst(), violated=Property.REJECTED),
    *(
        Control(
            target=UndoesWhatWasSeen(is_brief=is_brief),
            violated=Property.SEEN_LOST,
            detected_by=frozenset({A}),
            accepted_by=frozenset(),
        )
        for is_brief in (False, True)
    ),
    Control(target=CleansUpInPlace(), violated=Property.STALE, detected_by=frozenset({D})),
    *(
        Control(
            target=CleansUpInPlace(kind), violated=Property.STALE, detected_by=frozenset({D}), accepted_by=frozenset()
        )
        for kind in (CallKind.FSYNC, CallKind.MSYNC)
    ),
    # A writer that goes on after a commit that it rejected.
    Control(target=GivesIn(), violated=Property.STALE, detected_by=frozenset({D})),
    # What is judged.
    Control(target=FORGETS, violated=Property.WENT_BACK),
    Control(target=FORBIDS_COMMITS, violated=Property.COMMIT, detected_by=EVERY - {D}, accepted_by=frozenset()),
    Control(target=REJECTS_RECOVERY, violated=Property.RECOVERY, detected_by=EVERY - {D}, accepted_by=frozenset()),
    Control(target=BREAKS_IN_RECOVERY, violated=Property.DISORDERLY),
    Control(target=WAITS_IN_RECOVERY, violated=Property.ENDS, detected_by=EVERY - {D}, accepted_by=frozenset()),
    Control(target=LosesALetter(), violated=Property.CONTENT),
    Control(target=LetterCounter(), rules=ToyRules(), violated=Property.IMMUTABLE, accepted_by=frozenset()),
    Control(target=NeverSyncs(), rules=ToyRules(), violated=Property.BARRIERS, accepted_by=frozenset()),
    Control(target=ReadsEarly(), violated=Property.STALE, accepted_by=frozenset()),
    Control(target=GoesBack(), judge=ForgetsReads, violated=Property.BEHAVIOUR, accepted_by=frozenset()),
    Control(target=Specified(), detected_by=frozenset()),
)
CONTROLS_THAT_LOCK = (
    Control(target=Undo(), detected_by=frozenset()),
    Control(
        target=UndoesUnsynced(), violated=Property.WRONG_SNAPSHOT, detected_by=POWER - {B}, accepted_by=frozenset({A})
    ),
    # Only beside a recovery.
    Control(target=UndoesTogether(), violated=Property.REJECTED),
)
"""Of a test case whose reader locks or changes something, with a bound for each."""
STATES_OF_A_CONTROL = 4_000
COVERAGE_GOALS = (IN_COMMIT, KEPT)
COVERAGE_GOALS_OF_KILLS = (*COVERAGE_GOALS, SEEN_EARLY, READER_AT_WORK, LIVED_THROUGH)
NOT_IN_EVERY_SYSTEM = frozenset({KEPT, SEEN_EARLY})
"""A commit that ends with its rename is not kept, and a reader that waits for the writer's lock sees nothing early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """What was explored under one model; `found` has one violation of each kind, with the moves that lead to it."""

    model: str
    counts: dict[str, int]
    reached: Counter[str]
    is_complete: bool
    is_cut: bool
    failed: tuple[str, ...] | None
    """Where the reader locks or changes something, so that single schedules were run: the controls that failed."""
    found: dict[Signature, tuple[Violation, Moves]]
    impossible: frozenset[str] = frozenset()
    """The coverage goals that the system cannot reach."""

    @property
    def has_finding(self) -> bool:
        """Whether it has one at least."""
        return bool(self.found)


def explore_under(
    case: TestCase,
    name: str,
    states_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> ModelResult:
    """Explore under one model; raises NotExplorableError."""
    is_cut = False

    def still_has_time() -> bool:
        nonlocal is_cut
        is_cut = is_cut or not has_time()
        return not is_cut

    counts, is_sampled, affects = _search(
        case,
        model_named(name),
        states_max=states_max,
        has_time=still_has_time,
        on_progress=lambda states: on_progress(states, states_max),
    )
    found: dict[Signature, tuple[Violation, Moves]] = {}
    for violation, moves in counts.found:
        found.setdefault(Signature.of(violation), (violation, moves))
    is_complete = counts.is_complete and not is_sampled
    missing = frozenset(goal for goal in NOT_IN_EVERY_SYSTEM if not counts.reached[goal])
    if missing and not is_complete:
        # A search of a part may have missed what a few kills meet.
        missing -= NOT_IN_EVERY_SYSTEM if is_cut else _met_by_kills(case)
    if not counts.reached[READER_AT_WORK] and _reads_in_one_call(case):
        missing |= {READER_AT_WORK, LIVED_THROUGH}
    return ModelResult(
        model=name,
        counts={
            "schedule x crash states": counts.states,
            "crash points": counts.crash_points,
            "distinct worlds after a crash": counts.traces,
        },
        reached=counts.reached,
        is_complete=is_complete,
        is_cut=is_cut,
        failed=_failures_that_lock(name) if affects else None,
        found=found,
        impossible=missing,
    )


def _met_by_kills(case: TestCase) -> frozenset[str]:
    """Return which of the goals that not every system reaches a kill at some step of the writer meets."""
    sessions = Sessions.of(case)
    try:
        return frozenset(met_by_kills(sessions))
    finally:
        sessions.close()


def _reads_in_one_call(case: TestCase) -> bool:
    """Return whether a reader has ended after its first call, so that none is ever at work when the writer dies."""
    group = case.process_group()
    try:
        world = case.begin(group)
        world.step(READER_INDEX)
        return world.nodes[READER_INDEX].call is None
    finally:
        group.close()


def _search(
    case: TestCase,
    model: Model,
    *,
    states_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnStates = lambda states: None,
) -> tuple[ReductionCounts, bool, bool]:
    """Return the counts of a search, whether only some disks of a crash point were tried, and if the reader affects."""
    is_sampled = False

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        nonlocal is_sampled
        legal = legal_disks(kernel, model, WIDE_LIMITS)
        is_sampled = is_sampled or not legal.is_complete
        for picked in legal:
            yield picked.disk.kernel(), legal.choice(picked)

    sessions = Sessions.of(case, fails=model.fails_syncs)
    bounds = states_max, has_time, on_progress
    try:
        try:
            return ProductReduction(sessions, model.name, disks, *bounds).run(), is_sampled, False
        except NotOnlyAReaderError:
            return CrashedSchedules(sessions, model.name, disks, *bounds).run(), is_sampled, True
    finally:
        sessions.close()


def product_phase(results: Sequence[ModelResult], failed: Sequence[str] | None, findings: Sequence[Finding]) -> Phase:
    """Combine the results of all models; `failed` are the controls that failed, None where none was tried."""
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
        reached.update(result.reached)
    complete = [result.model for result in results if result.is_complete]
    sampled = [result.model for result in results if not result.is_complete]
    has_kills = any(not model_named(result.model).everything_dies for result in results)
    goals = COVERAGE_GOALS_OF_KILLS if has_kills else COVERAGE_GOALS
    impossible = frozenset.intersection(*(result.impossible for result in results)) if results else frozenset()
    is_found = any(result.found for result in results)
    phase = Phase(
        name=PHASE,
        explored=counts["schedule x crash states"],
        complete=bool(results) and not sampled,
        bound=f"{_what(results)} (a range within a page is one step), {STEP_BOUND}, complete under "
        + (", ".join(complete) or "no model")
        + (f"; a sample of them under {', '.join(sampled)}" if sampled else ""),
        verdict=Verdict.INVALID if is_found else Verdict.VALID,
        counts=dict(counts),
        reached={**dict.fromkeys(goals, 0), **reached},
        findings=tuple(findings),
    )
    if failed is not None:
        failed = [*failed, *(each for result in results for each in result.failed or ())]
    return phase.with_controls(failed).with_coverage_goals([goal for goal in goals if goal not in impossible])


def _what(results: Sequence[ModelResult]) -> str:
    if any(result.failed is not None for result in results):
        return (
            "a crash at each step of reduced schedules of 1 reader that locks or changes something, and such after it"
        )
    return "every crash point x every schedule of 1 reader"


@cache
def controls_of_run(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return the failed controls, which every exploration of this process asks for."""
    return tuple(failures(models))


def failed_controls(models: Sequence[str] = PRODUCT_MODELS) -> list[str]:
    """Explore all toys under these models, and return a description of each wrong verdict."""
    return [*failures(models)]


def failures(models: Sequence[str] = PRODUCT_MODELS) -> Iterator[str]:
    """Explore one toy after the other under each of these models, and describe each wrong verdict."""
    for name in models:
        for control in CONTROLS:
            explore = partial(violated, rules=control.rules, judge=control.judge)
            if failure := control.failure(model_named(name), explore):
                yield failure
        if model_named(name) in (A, D) and not small_programs.has_every_outcome(control_case(LetterCounter()), name):
            yield f"the outcomes of every order of calls with every crash were not found in {name}"
    if not small_programs.reaches_every_state_early(control_case(LetterCounter())):
        yield "a reader goes on from a later state of the writer than it can"
    yield from model_controls.failed_controls()


@cache
def _failures_that_lock(name: str) -> tuple[str, ...]:
    """Explore the toys that lock under a model, once in a process, and describe each wrong verdict."""
    failures = (control.failure(model_named(name), violated_by_locking) for control in CONTROLS_THAT_LOCK)
    return tuple(filter(None, failures))


def violated_by_locking(model: Model, toy: Target) -> frozenset[str]:
    """Return the properties that a model finds violated in a toy that locks: in one commit, a read, and one after."""
    case = replace(control_case(toy), first_session=(0,), second_session=(1,), readers=(Readers(),))
    return _violated(case, model, STATES_OF_A_CONTROL)


def violated(model: Model, toy: Target, *, rules: TraceRules = NO_RULES, judge: type[Judge] = Judge) -> frozenset[str]:
    """Return the properties that a model finds violated in a toy."""
    return _violated(control_case(toy, rules, judge), model)


def _violated(case: TestCase, model: Model, states_max: int | None = None) -> frozenset[str]:
    counts, *_ = _search(case, model, states_max=states_max)
    return frozenset(violation.property for violation, _ in counts.found)


def control_case(toy: Target, rules: TraceRules = NO_RULES, judge: type[Judge] = Judge) -> TestCase:
    """Return a test case of two commits of a toy, a third after a crash, and a reader."""
    return TestCase(
        target=toy,
        path="toy",
        operations=(b"one", b"t", b"three"),
        first_session=(0, 1),
        second_session=(2,),
        readers=(Readers(read_count=2),),
        rules=rules,
        judge=judge,
        goes_on=True,
    )
