"""The drawn explorer: Hypothesis draws operations, schedules and crashes together, and each run is judged as any other.

It goes where no scenario has been written for. What it finds becomes a decision log, made small by our own shrinker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import hypothesis
from hypothesis import given

from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis, quiet_settings
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.explorers.random.random_runs import (
    COMMITS_MAX,
    READERS_MAX,
    TRANSITIONS_MAX,
    Moves,
    Trace,
    random_scenarios,
    random_traces,
    run_trace,
)
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario

PHASE = "drawn"
MakeTestCase = Callable[[Scenario, Preset], TestCase]
CONTROL, CONTROL_EXAMPLES = "questdb-9.4.2", 40
EXAMPLES_IN_BATCH = 20
SEED_STRIDE = 1_000_003
"""Keeps the seeds of batches apart from those of other seeds."""
KILLED, CUT, FAILED, FAULT_FREE = "process killed", "power cut", "sync failed", "nothing befell the writer"
AFTER_CRASH, BESIDE = "a second life committed", "a reader read beside the writer"
MUST_REACH, SOON = (KILLED, CUT, FAILED, FAULT_FREE, AFTER_CRASH, BESIDE), 200
_KINDS = {"kill": KILLED, "power": CUT, "fail": FAILED}


@dataclass(slots=True, kw_only=True)
class Search:
    """What was drawn so far; `found` keeps the first run of each kind of violation."""

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
        """Draw so many situations, each with a few courses."""

        @hypothesis.seed(seed)
        @quiet_settings(examples, shrinks=False)
        @given(random_scenarios(), random_traces())
        def draw(scenario: Scenario, traces: list[Trace]) -> None:
            if self.has_time():
                self._explore(scenario, traces)

        with quiet_hypothesis(), remembered_decoding():
            draw()

    def _explore(self, scenario: Scenario, traces: list[Trace]) -> None:
        self.test_cases += 1
        try:
            case = self.make(scenario, self.preset)
            for trace in traces:
                self._run(case, trace)
        except NotExplorableError:
            # Another release may refuse what ours takes, without any disturbance.
            self.rejected += 1

    def _run(self, case: TestCase, trace: Trace) -> None:
        sessions = Sessions.of(case, fails=trace.crash is not None and trace.crash.kind == "fail")
        try:
            world, moves = run_trace(sessions, trace)
        finally:
            sessions.close()
        self.runs += 1
        self.on_progress(self.runs, None)
        self.reached[FAULT_FREE if trace.crash is None else _KINDS[trace.crash.kind]] += 1
        self.reached[AFTER_CRASH] += trace.crash is not None and bool(case.second_session)
        self.reached[BESIDE] += len([move for move in moves if move[0] == 0]) > 1
        for violation in world.progress.violations:
            self.found.setdefault(Signature.of(violation), (case, moves, violation))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What a batch of situations came to; `found` has the first run of each kind of violation."""

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
    """Draw `examples` situations from `seed`, batch by batch; `make` builds each of them."""
    results = [
        explore_batch(preset, make, count, number, has_time, on_progress) for number, count in batches(examples, seed)
    ]
    return random_phase(results, is_control_detected(make, seed), seed)


def batches(examples: int, seed: int) -> list[tuple[int, int]]:
    """Return the seed of each batch and how many situations it draws."""
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
    """Draw so many situations from a seed of their own."""
    search = Search(preset=preset, make=make, has_time=has_time, on_progress=on_progress)
    search.run(examples, seed)
    return BatchResult(
        test_cases=search.test_cases,
        runs=search.runs,
        rejected=search.rejected,
        reached=search.reached,
        found={signature: finding_or_moves(*found, phase=PHASE) for signature, found in search.found.items()},
    )


def is_control_detected(make: MakeTestCase, seed: int) -> bool:
    """Say whether a release with known defects is found to have one."""
    control = Search(preset=PRESETS[CONTROL], make=make, has_time=lambda: not control.found)
    control.run(CONTROL_EXAMPLES, seed)
    return bool(control.found)


def random_phase(results: Sequence[BatchResult], is_detected: bool | None, seed: int) -> Phase:
    """Put together what the batches came to; `is_detected` is None where the control was not tried."""
    test_cases, runs, rejected = (
        sum(counted) for counted in zip(*((each.test_cases, each.runs, each.rejected) for each in results), strict=True)
    )
    reached = sum((each.reached for each in results), Counter[str]())
    findings = {signature: finding for each in reversed(results) for signature, finding in each.found.items()}
    missing = [name for name in MUST_REACH if not reached[name]] if runs >= SOON else []
    phase = Phase(
        name=PHASE,
        explored=runs,
        complete=False,
        bound=f"{runs} runs of {test_cases} situations, drawn from seed {seed}: up to {COMMITS_MAX} "
        f"commits, {READERS_MAX} readers, {TRANSITIONS_MAX} turns before a crash and as many after it",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={"situations": test_cases, "runs": runs, "refused undisturbed": rejected},
        reached={name: reached[name] for name in MUST_REACH},
        findings=tuple(findings.values()),
    )
    failed = [] if is_detected else [f"{CONTROL} was not convicted in {CONTROL_EXAMPLES} situations"]
    return phase.with_controls(None if is_detected is None else failed).doubted(
        f"never reached: {', '.join(missing)}" if missing and not findings else "",
        "" if runs else "nothing was run",
    )
