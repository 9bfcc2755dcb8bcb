"""The random explorer: Hypothesis generates operations, schedules and crashes together, beyond the written scenarios.

A run that violates a property becomes a decision log, which our own shrinker makes small.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import hypothesis
from hypothesis import given

from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis, quiet_settings
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.signature import signature_of
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.explorers.random.random_runs import (
    COMMITS_MAX,
    READERS_MAX,
    TRANSITION_MAX,
    TRANSITIONS_MAX,
    Crash,
    Trace,
    random_scenarios,
    random_traces,
    run_trace,
)
from tornproof.harness.explorers.random.seeded_trace import CUT, FAILED, FAULT_FREE, KILLED, Moves
from tornproof.harness.explorers.schedules.crash import control_case
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.persistence.models import C_512, CDIR, B
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario
from tornproof.harness.systems.toy import NeverSyncs, NeverSyncsNames
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
from tornproof.harness.systems.toy_readers import GoesBack, Panics

PHASE = "drawn"
MakeTestCase = Callable[[Scenario, Preset], TestCase]
CONTROL, CONTROL_EXAMPLES = "questdb-9.4.2", 40
KILL, FAIL = Crash("kill"), Crash("fail")
TOYS: tuple[tuple[Target, str, Crash | None], ...] = (
    # What happens to the writer, and what a power cut leaves.
    (UndoesWhatWasSeen(), Property.SEEN_LOST, KILL),
    (CleansUpInPlace(), Property.STALE, FAIL),
    (NeverSyncs(), Property.LOST, Crash("power", B)),
    (NeverSyncsNames(), Property.LOST, Crash("power", CDIR)),
    (KeepsUndo(), Property.LOST, Crash("power", CDIR)),
    (TRUSTS_BLOCKS, Property.REJECTED, Crash("power", C_512)),
    # What is judged.
    (AppendsOnce(), Property.WRONG_SNAPSHOT, Crash("power", C_512)),
    (GoesBack(), Property.WENT_BACK, None),
    (FORBIDS_COMMITS, Property.COMMIT, KILL),
    (REJECTS_RECOVERY, Property.RECOVERY, KILL),
    (Panics(), Property.DISORDERLY, None),
    (LockFile(), Property.ENDS, KILL),
)
"""Broken toys, what is violated, and what happens to the writer."""
TOY_CALLS_MAX, TOY_CHOICES = 48, (0.0, 0.5, 1.0)
TOY_READ_CALLS, TOY_CLEANUP_CALLS = 4, 7
"""How many calls a read takes, and a writer after a failed sync until it has emptied its state."""
EXAMPLES_IN_BATCH = 20
SEED_STRIDE = 1_000_003
"""Keeps the seeds of the batches of different runs distinct."""
AFTER_CRASH, BESIDE = "a second life committed", "a reader read beside the writer"
COVERAGE_GOALS = (KILLED, CUT, FAILED, FAULT_FREE, AFTER_CRASH, BESIDE)
_KINDS = {"kill": KILLED, "power": CUT, "fail": FAILED}


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
        """Generate `examples` test cases, each with a few traces."""

        @hypothesis.seed(seed)
        @quiet_settings(examples, shrinks=False)
        @given(random_scenarios(), random_traces())
        def explore(scenario: Scenario, traces: list[Trace]) -> None:
            if self.has_time():
                self._explore(scenario, traces)

        with quiet_hypothesis(), remembered_decoding():
            explore()

    def _explore(self, scenario: Scenario, traces: list[Trace]) -> None:
        self.test_cases += 1
        try:
            case = self.make(scenario, self.preset)
            for trace in traces:
                self._run(case, trace)
        except NotExplorableError:
            # Another release may reject what ours accepts, even in a fault-free run.
            self.rejected += 1

    def _run(self, case: TestCase, trace: Trace) -> None:
        with sessions_of(case, trace.crash) as sessions:
            world, moves = run_trace(sessions, trace)
        self.runs += 1
        self.on_progress(self.runs, None)
        self.reached[FAULT_FREE if trace.crash is None else _KINDS[trace.crash.kind]] += 1
        self.reached[AFTER_CRASH] += trace.crash is not None and bool(case.second_session)
        self.reached[BESIDE] += len([move for move in moves if move[0] == 0]) > 1
        for violation in world.progress.violations:
            self.found.setdefault(Signature.of(violation), (case, moves, violation))


@contextmanager
def sessions_of(case: TestCase, crash: Crash | None) -> Iterator[Sessions]:
    """Start the processes of a test case whose writer ends in this way."""
    sessions = Sessions.of(case, fails=crash is not None and crash.kind == "fail")
    try:
        yield sessions
    finally:
        sessions.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The result of a batch of test cases; `found` has the first run of each kind of violation."""

    test_cases: int
    runs: int
    rejected: int
    reached: Counter[str]
    found: dict[Signature, Finding]


def explore_random(
    preset: Preset,
    make: MakeTestCase,
    *,
    examples: int,
    seed: int,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Explore `examples` random test cases in batches; `make` builds a test case from a scenario."""
    results = [
        explore_batch(preset, make, count, number, has_time, on_progress) for number, count in batches(examples, seed)
    ]
    return random_phase(results, failed_controls(make, seed), seed)


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
    """Let a reader read after each call of a toy's writer, to which something happens before or after that.

    Yields what is not detected.
    """
    for toy, violated, crash in TOYS:
        if not any(each.property == violated for each in _violations_of(control_case(toy), crash)):
            yield f"the toy {toy.name!r} was not detected: {violated}"


def _violations_of(case: TestCase, crash: Crash | None) -> Iterator[Violation]:
    with sessions_of(case, crash) as sessions:
        for call_count, choice in itertools.product(range(TOY_CALLS_MAX), TOY_CHOICES):
            called, read = (0, call_count), (1, TRANSITION_MAX)
            for before, later in (
                ([called], []),
                ([called, read], []),
                ([(1, TOY_READ_CALLS), called], []),
                ([called], [(0, TOY_CLEANUP_CALLS), read]),
            ):
                trace = Trace(before, crash and crash._replace(choice=choice), later)
                yield from run_trace(sessions, trace)[0].progress.violations


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
        f"commits, {READERS_MAX} readers, {TRANSITIONS_MAX} context switches before a crash and as many after it; "
        f"{STEP_BOUND}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={"situations": test_cases, "runs": runs, "refused undisturbed": rejected},
        reached={name: reached[name] for name in COVERAGE_GOALS},
        findings=tuple(findings.values())[::-1],
    )
    phase = phase.with_controls(failed).doubted("" if runs else "nothing was run")
    return phase.with_coverage_goals(COVERAGE_GOALS)
