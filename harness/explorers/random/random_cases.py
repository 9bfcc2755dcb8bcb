"""The random explorer: operations, schedules and crashes are generated together, beyond the written scenarios.

A run that violates a property becomes a decision log, which our own shrinker makes small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.signature import signature_of
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.counterexamples.moves import Moves
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.explorers.random.random_run import (
    CUT,
    FAILED,
    FAULT_FREE,
    KILLED,
    InjectedFault,
    Trace,
    draw_injected_fault,
)
from tornproof.harness.explorers.random.random_scenarios import COMMITS_MAX, READERS_MAX, random_scenario
from tornproof.harness.explorers.schedules.crash import control_case
from tornproof.harness.search.crash_world import WRITER_INDEX, Sessions
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.persistence.models import C_512, CDIR, A, B, D, Model
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Judge, Property, Violation
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario
from tornproof.harness.systems.toy import NeverSyncs, NeverSyncsNames, SwallowsErrors, Toy
from tornproof.harness.systems.toy_control import ForgetsReads
from tornproof.harness.systems.toy_locks import LockFile
from tornproof.harness.systems.toy_losses import (
    FORBIDS_COMMITS,
    REJECTS_RECOVERY,
    TRUSTS_BLOCKS,
    AppendsOnce,
    CleansUpInPlace,
    KeepsUndo,
    UndoesWhatWasSeen,
)
from tornproof.harness.systems.toy_readers import Counter as LetterCounter
from tornproof.harness.systems.toy_readers import GoesBack, LeasesInPlace, Panics, ReadsEarly, ToyRules
from tornproof.harness.systems.toy_specified import LosesALetter, Specified

PHASE = "random"
MakeTestCase = Callable[[Scenario, Preset], TestCase]
CONTROL, CONTROL_EXAMPLES = "questdb-9.4.2", 40
KILL, FAIL = InjectedFault(name=KILLED, model=A), InjectedFault(name=FAILED, model=D, is_failing=True)
NOTHING = InjectedFault(name=FAULT_FREE)


def power(model: Model) -> InjectedFault:
    """Return a power cut under a model."""
    return InjectedFault(name=CUT, model=model)


class BrokenToy(NamedTuple):
    """A broken toy, what is violated, what happens to the writer, and what judges its steps and reports."""

    target: Target
    violated: str
    injected_fault: InjectedFault = NOTHING
    rules: TraceRules = NO_RULES
    judge: type[Judge] = Judge


TOYS = (
    # What happens to the writer, and what a power cut leaves.
    BrokenToy(UndoesWhatWasSeen(), Property.SEEN_LOST, KILL),
    BrokenToy(CleansUpInPlace(), Property.STALE, FAIL),
    BrokenToy(SwallowsErrors(), Property.LOST, FAIL),
    BrokenToy(NeverSyncs(), Property.LOST, power(B)),
    BrokenToy(NeverSyncsNames(), Property.LOST, power(CDIR)),
    BrokenToy(KeepsUndo(), Property.LOST, power(CDIR)),
    BrokenToy(TRUSTS_BLOCKS, Property.REJECTED, power(C_512)),
    # What is judged.
    BrokenToy(AppendsOnce(), Property.WRONG_SNAPSHOT, power(C_512)),
    BrokenToy(GoesBack(), Property.WENT_BACK),
    BrokenToy(FORBIDS_COMMITS, Property.COMMIT, KILL),
    BrokenToy(REJECTS_RECOVERY, Property.RECOVERY, KILL),
    BrokenToy(Panics(), Property.DISORDERLY),
    BrokenToy(LockFile(), Property.ENDS, KILL),
    BrokenToy(ReadsEarly(), Property.STALE),
    BrokenToy(GoesBack(), Property.BEHAVIOUR, judge=ForgetsReads),
    BrokenToy(LosesALetter(), Property.CONTENT),
    BrokenToy(LeasesInPlace(), Property.LEASE),
    BrokenToy(LetterCounter(), Property.IMMUTABLE, rules=ToyRules()),
    BrokenToy(NeverSyncs(), Property.BARRIERS, rules=ToyRules()),
)
SOUND = ((Toy(), ToyRules()), (Specified(), NO_RULES))
"""Toys that are right, with rules for their steps, whatever happens to the writer."""
FAULTS_OF_TOYS = tuple(dict.fromkeys(each.injected_fault for each in TOYS))
TOY_RUNS_MAX, SOUND_RUNS = 400, 5
RUNS_OF_A_TEST_CASE = 3
EXAMPLES_IN_BATCH = 20
SEED_STRIDE = 1_000_003
"""Keeps the seeds of the batches of different runs distinct."""
AFTER_CRASH, BESIDE = "a second life committed", "a reader read beside the writer"
COVERAGE_GOALS = (KILLED, CUT, FAILED, FAULT_FREE, AFTER_CRASH, BESIDE)


@dataclass(slots=True, kw_only=True)
class Search:
    """What was generated so far; `found` keeps the first run of each kind of violation."""

    preset: Preset
    make: MakeTestCase
    has_time: HasTime
    on_progress: OnProgress = lambda done, total: None
    test_cases: int = 0
    runs: int = 0
    rejected: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    found: dict[Signature, tuple[TestCase, Moves, Violation]] = field(default_factory=dict)

    def run(self, examples: int, seed: int) -> None:
        """Generate `examples` test cases, each with a few runs."""
        chance = np.random.Generator(np.random.PCG64(seed))
        with remembered_decoding():
            for _ in range(examples):
                if not self.has_time():
                    return
                self._explore(random_scenario(chance), chance)

    def _explore(self, scenario: Scenario, chance: np.random.Generator) -> None:
        self.test_cases += 1
        try:
            case = self.make(scenario, self.preset)
            with sessions_of(case) as sessions:
                for _ in range(RUNS_OF_A_TEST_CASE):
                    self.explore(Trace(sessions, chance), case, draw_injected_fault(scenario, chance))
        except NotExplorableError:
            # Another release may reject what ours accepts, even in a fault-free run.
            self.rejected += 1

    def explore(self, trace: Trace, case: TestCase, injected_fault: InjectedFault) -> None:
        """Run a test case once with a fault, and keep what it violates."""
        fault = trace.go(injected_fault).name
        self.runs += 1
        self.on_progress(self.runs, None)
        self.reached[fault] += 1
        self.reached[AFTER_CRASH] += fault != FAULT_FREE and bool(case.second_session)
        self.reached[BESIDE] += len([move for move in trace.moves if move[0] == WRITER_INDEX]) > 1
        for violation in trace.world.progress.violations:
            self.found.setdefault(Signature.of(violation), (case, trace.moves, violation))


@contextmanager
def sessions_of(case: TestCase) -> Iterator[dict[bool, Sessions]]:
    """Start the processes of a test case, those of which calls may fail as well."""
    sessions = {fails: Sessions.of(case, fails=fails) for fails in (False, True)}
    try:
        yield sessions
    finally:
        for each in sessions.values():
            each.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The result of a batch of test cases; `found` has the first run of each kind of violation."""

    test_cases: int
    runs: int
    rejected: int
    reached: Counter[str]
    found: dict[Signature, Finding]

    @property
    def has_finding(self) -> bool:
        """Whether it has one at least."""
        return bool(self.found)


def batches(examples: int, seed: int) -> list[tuple[int, int]]:
    """Return the seed of each batch and the number of its test cases."""
    starts = range(0, examples, EXAMPLES_IN_BATCH)
    return [
        (seed * SEED_STRIDE + number, min(EXAMPLES_IN_BATCH, examples - start)) for number, start in enumerate(starts)
    ]


def explore_batch(
    preset: Preset,
    make: MakeTestCase,
    examples: int,
    seed: int,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> BatchResult:
    """Explore one batch: `examples` random test cases."""
    search = Search(preset=preset, make=make, has_time=has_time, on_progress=on_progress)
    search.run(examples, seed)
    return BatchResult(
        test_cases=search.test_cases,
        runs=search.runs,
        rejected=search.rejected,
        reached=search.reached,
        found={signature: finding_or_moves(*found, phase=PHASE) for signature, found in search.found.items()},
    )


def failed_controls(make: MakeTestCase, seed: int) -> tuple[str, ...]:
    """Return in words what was not detected: a release with known defects, and broken toys."""
    release = Search(preset=PRESETS[CONTROL], make=make, has_time=lambda: not release.found)
    release.run(CONTROL_EXAMPLES, seed)
    failed = () if release.found else (f"{CONTROL} was not detected in {CONTROL_EXAMPLES} test cases",)
    return (*failed, *failed_toys())


def failed_toys() -> Iterator[str]:
    """Run each toy at random until what it breaks is found; yield what is not detected, and what in a sound one is."""
    for toy, violated, injected_fault, rules, judge in TOYS:
        with sessions_of(control_case(toy, rules, judge)) as sessions:
            if not any(violated in _violated(sessions, seed, injected_fault) for seed in range(TOY_RUNS_MAX)):
                yield f"the toy {toy.name!r} was not detected: {violated}"
    for sound, rules in SOUND:
        with sessions_of(control_case(sound, rules)) as sessions:
            runs = product(range(SOUND_RUNS), FAULTS_OF_TOYS)
            found = {violated for seed, fault in runs for violated in _violated(sessions, seed, fault)}
        yield from (f"the sound toy {sound.name!r} was rejected: {violated}" for violated in sorted(found))


def _violated(sessions: dict[bool, Sessions], seed: int, injected_fault: InjectedFault) -> set[str]:
    case = sessions[False].case
    search = Search(preset=PRESETS[CONTROL], make=lambda scenario, preset: case, has_time=always)
    search.explore(Trace(sessions, np.random.Generator(np.random.PCG64(seed))), case, injected_fault)
    return {signature.property for signature in search.found}


def random_phase(results: Sequence[BatchResult], failed: Sequence[str] | None, seed: int) -> Phase:
    """Combine the results of all batches; `failed` are the controls that failed, None where none was tried."""
    test_cases, runs, rejected = (
        sum(counted) for counted in zip(*((each.test_cases, each.runs, each.rejected) for each in results), strict=True)
    )
    reached = sum((each.reached for each in results), Counter[str]())
    every = [finding for each in results for finding in each.found.values()]
    findings = {signature_of(finding): finding for finding in reversed(every)}
    phase = Phase(
        name=PHASE,
        explored=runs,
        complete=False,
        bound=f"{runs} runs of {test_cases} test cases, random from seed {seed}: up to {COMMITS_MAX} "
        f"commits, {READERS_MAX} readers, a crash at most, uniform and PCT schedules before and after it; {STEP_BOUND}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={"situations": test_cases, "runs": runs, "refused undisturbed": rejected},
        reached={name: reached[name] for name in COVERAGE_GOALS},
        findings=tuple(findings.values())[::-1],
    )
    phase = phase.with_controls(failed).doubted("" if runs else "nothing was run")
    return phase.with_coverage_goals(COVERAGE_GOALS)
