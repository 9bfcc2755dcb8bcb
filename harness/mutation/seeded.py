"""Seeded runs: one seed is one run of the simulator on a scenario, with a preset and perhaps a planted fault.

The seed decides the schedule of each session, uniform or by PCT; the fault that is injected into the writer, and before
which call; and the legal disk that a power cut leaves. A run is recorded as its moves, which replay without the seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np

from tornproof.harness.common.history import Event
from tornproof.harness.common.read_numbers import integer_of
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.log import shortest, step_text
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.counterexamples.moves import moves_document, moves_of
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.counterexamples.step_names import StepNames
from tornproof.harness.explorers.random.random_run import FAULT_FREE, Trace, draw_injected_fault
from tornproof.harness.explorers.random.run_events import Recorder
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.mutation.baseline import Baseline, answer_all
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.process.case import WRITER, NotExplorableError, Readers, TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario
from tornproof.harness.systems.simulation import HARDENED, setting_of
from tornproof.harness.systems.table import TableTarget

PHASE, SEEDED = "campaign", "seeded"
NO_FAULT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What seeds are run on; with `watches_steps` the trace rules judge each step, too."""

    scenario: Scenario
    preset: str = HARDENED
    fault: str = NO_FAULT
    watches_steps: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of its results."""
        return self.scenario.name, self.preset, self.fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededRun:
    """One run: its verdict with the first violation, the injected fault and the step before it, and the moves.

    `model` is the persistence model of the crash, `disk` the kind of disk that it left. `is_seen_kept` is the
    `seen_survives` for the judge of its history. A run with an `error` did not finish and is UNKNOWN.
    """

    seed: int
    verdict: Verdict
    property: str = ""
    part: str = ""
    kind: str = ""
    sentence: str = ""
    step_count: int = 0
    transition_count: int = 0
    injected_fault: str = FAULT_FREE
    model: str = ""
    step: str = ""
    disk: str = ""
    is_seen_kept: bool = True
    reached: tuple[str, ...] = ()
    moves: str = "[]"
    events: tuple[Event, ...] = ()
    error: str = ""


class SeededRuns:
    """Runs seeds on one cell, whose nodes all runs share. A fault is planted while the block runs."""

    def __init__(self, cell: Cell, campaign_seed: int) -> None:
        """Prepare nothing before the block."""
        self.cell = cell
        self._seed = campaign_seed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Make the test case; raises NotExplorableError if the preset rejects it in a fault-free run."""
        with self._stack as stack:
            self.case = _case(self.cell, stack)
            self._points = Points()
            self._names = StepNames(self.case.path)
            self._sessions = {is_failing: Sessions.of(self.case, fails=is_failing) for is_failing in (False, True)}
            for sessions in self._sessions.values():
                stack.callback(sessions.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """End all greenlets, and remove the fault."""
        self._stack.close()

    def run(self, seed: int) -> SeededRun:
        """Return the run of a seed; an exception of the harness becomes its `error`."""
        try:
            return self._run(seed)[0]
        except Exception as error:
            return SeededRun(seed=seed, verdict=Verdict.UNKNOWN, error=f"{type(error).__name__}: {error}")

    def finding(self, seed: int) -> Finding:
        """Return the finding of a seed's run, shrunk if a log reproduces it, with all that a replay needs.

        If no log does, a replay runs the seed.
        """
        run, violation = self._run(seed)
        assert violation is not None, f"seed {seed} of {self.cell.key} breaks nothing"
        try:
            moves = moves_of(json.loads(run.moves))
            found = finding_or_moves(self.case, moves, violation, phase=PHASE, scenario=self.cell.scenario.name)
        except NotExplorableError as error:
            # With some faults a smaller case fails even in a fault-free run.
            evidence = {"moves": json.loads(run.moves), "note": str(error)}
            found = Finding(property=run.property, phase=PHASE, sentence=run.sentence, evidence=evidence)
        evidence = {**found.evidence, SEEDED: seeded_document(self.cell, self._seed, seed)}
        return replace(found, evidence=evidence | ({"fault": self.cell.fault} if self.cell.fault else {}))

    def _run(self, seed: int) -> tuple[SeededRun, Violation | None]:
        chance = generator_of(self._seed, self.cell, seed)
        injected_fault = draw_injected_fault(self.cell.scenario, chance)
        trace = Trace(self._sessions, chance, lambda case: Recorder(case.oracle, self._points))
        injected_fault = trace.go(injected_fault)
        recorder, crashed_at = trace.watcher, trace.crashed_at
        assert isinstance(recorder, Recorder)
        violations = trace.world.progress.violations
        first = violations[0] if violations else None
        signature = Signature("", "") if first is None else Signature.of(first)
        run = SeededRun(
            seed=seed,
            verdict=Verdict.VALID if first is None else Verdict.INVALID,
            **signature._asdict(),
            sentence="" if first is None else f"{first.process}: {first.property}, but: {first.sentence}",
            step_count=recorder.time,
            transition_count=trace.transition_count,
            injected_fault=injected_fault.name,
            model="" if injected_fault.model is None else injected_fault.model.name,
            step="" if crashed_at is None else step_text(self._names.name(WRITER, crashed_at)),
            disk=trace.disk,
            is_seen_kept=trace.is_seen_kept,
            reached=tuple(sorted(recorder.reached | {injected_fault.name})),
            moves=shortest(moves_document(trace.moves)),
            events=tuple(recorder.events),
        )
        return run, first


def seeded_document(cell: Cell, campaign_seed: int, seed: int) -> dict[str, Any]:
    """Return a run as JSON."""
    return {
        "scenario": msgspec.to_builtins(cell.scenario),
        "preset": cell.preset,
        "fault": cell.fault,
        "watches_steps": cell.watches_steps,
        "campaign_seed": campaign_seed,
        "seed": seed,
    }


def replay_seeded(finding: Finding) -> Verdict:
    """Run a finding's seed again: INVALID if it breaks the same property.

    Raises KeyError, TypeError, ValueError and NotExplorableError for a document that this release cannot run.
    """
    document = finding.evidence[SEEDED]
    cell = Cell(
        scenario=msgspec.convert(document["scenario"], Scenario),
        preset=str(document["preset"]),
        fault=str(document["fault"]),
        watches_steps=bool(document["watches_steps"]),
    )
    with SeededRuns(cell, integer_of(document["campaign_seed"])) as runs:
        run = runs.run(integer_of(document["seed"]))
    if run.verdict is Verdict.INVALID and run.property != finding.property:
        return Verdict.VALID
    return run.verdict


def run_seeds(cell: Cell, campaign_seed: int, seeds: Sequence[int]) -> list[SeededRun]:
    """Return the runs of these seeds; each is an error if the preset rejects the scenario in a fault-free run."""
    try:
        with SeededRuns(cell, campaign_seed) as runs:
            return [runs.run(seed) for seed in seeds]
    except NotExplorableError as error:
        return [SeededRun(seed=seed, verdict=Verdict.UNKNOWN, error=f"not explorable: {error}") for seed in seeds]


def generator_of(campaign_seed: int, cell: Cell, seed: int) -> np.random.Generator:
    """Return the random generator of one run, which depends on nothing but its name."""
    name = json.dumps([campaign_seed, *cell.key, seed]).encode()
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.blake2b(name, digest_size=16).digest())))


def _case(cell: Cell, stack: ExitStack) -> TestCase:
    """Return the test case of a cell with at least one reader; its fault is planted until the stack closes."""
    case = setting_of(cell.scenario, PRESETS[cell.preset]).case
    if not case.readers:
        case = replace(case, readers=(Readers(),))
    if not cell.watches_steps:
        case = replace(case, rules=NO_RULES)
    answer_all(case)
    if cell.fault:
        stack.enter_context(Mutant(fault_named(cell.fault)).planted())
        target = TableTarget(encode=remembered_encoder())
        case = Baseline(case).case(target, case.rules)
    stack.enter_context(remembered_decoding())
    return case
