"""Runs by number: one seed is one run of the simulator on a scenario, under a preset and perhaps a planted fault.

All that is left to chance is drawn from the seed: the schedule of each life, uniform or by PCT; what befalls the writer
and before which call; which of the legal disks a power cut leaves. What was drawn is told as moves, and the moves are
the run: nobody needs the seed to see it again.
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
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.counterexamples.step_names import StepNames
from tornproof.harness.explorers.random.seeded_trace import FAULT_FREE, Trace, draw_injected_fault, moves_of, moves_text
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.mutation.baseline import Baseline, answer_all
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.process.case import NotExplorableError, Readers, TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario
from tornproof.harness.systems.simulation import HARDENED, setting_of

PHASE, SEEDED = "campaign", "seeded"
NO_FAULT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What many seeds are run on; with `watches_steps` each step is judged by the trace rules, too."""

    scenario: Scenario
    preset: str = HARDENED
    fault: str = NO_FAULT
    watches_steps: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """What results are filed under."""
        return self.scenario.name, self.preset, self.fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededRun:
    """One run: its verdict with the first violation, what befell the writer before which of its steps, and the moves.

    `model` is what the crash left intact, `disk` which kind of disk that was. `is_seen_kept` says whether what was seen
    must survive, which is what `judge` of a history asks. With `error` the run came to no end and is UNKNOWN.
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
    """Runs seeds on one cell, whose clients learn once for all of them. A fault is planted while the block runs."""

    def __init__(self, cell: Cell, campaign_seed: int) -> None:
        """Wait for the block."""
        self.cell = cell
        self._seed = campaign_seed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Make the situation; raises NotExplorableError where the preset refuses it undisturbed."""
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
        """End all greenlets, and take the fault away."""
        self._stack.close()

    def run(self, seed: int) -> SeededRun:
        """Return the run of a seed; what goes wrong in the harness is told in it."""
        try:
            return self._run(seed)[0]
        except Exception as error:
            return SeededRun(seed=seed, verdict=Verdict.UNKNOWN, error=f"{type(error).__name__}: {error}")

    def finding(self, seed: int) -> Finding:
        """Return the finding of a seed's run, made small where a log shows it, with all that it takes to see it again.

        Where none does, the run itself is what is seen again.
        """
        run, violation = self._run(seed)
        assert violation is not None, f"seed {seed} of {self.cell.key} breaks nothing"
        try:
            moves = moves_of(run.moves)
            found = finding_or_moves(self.case, moves, violation, phase=PHASE, scenario=self.cell.scenario.name)
        except NotExplorableError as error:
            # Under some faults a smaller case does not work even where nothing disturbs it.
            evidence = {"moves": json.loads(run.moves), "note": str(error)}
            found = Finding(property=run.property, phase=PHASE, sentence=run.sentence, evidence=evidence)
        evidence = {**found.evidence, SEEDED: seeded_document(self.cell, self._seed, seed)}
        return replace(found, evidence=evidence | ({"fault": self.cell.fault} if self.cell.fault else {}))

    def _run(self, seed: int) -> tuple[SeededRun, Violation | None]:
        chance = generator_of(self._seed, self.cell, seed)
        injected_fault = draw_injected_fault(self.cell.scenario, chance)
        trace = Trace(self._sessions, chance, self._names, self._points)
        injected_fault = trace.go(injected_fault)
        violations = trace.world.progress.violations
        first = violations[0] if violations else None
        signature = Signature("", "") if first is None else Signature.of(first)
        run = SeededRun(
            seed=seed,
            verdict=Verdict.VALID if first is None else Verdict.INVALID,
            **signature._asdict(),
            sentence="" if first is None else f"{first.process}: {first.property}, but: {first.sentence}",
            step_count=trace.recorder.time,
            transition_count=trace.transition_count,
            injected_fault=injected_fault.name,
            model="" if injected_fault.model is None else injected_fault.model.name,
            step=trace.step,
            disk=trace.disk,
            is_seen_kept=trace.is_seen_kept,
            reached=tuple(sorted(trace.reached)),
            moves=moves_text(trace.moves),
            events=tuple(trace.recorder.events),
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
    """Run a finding's seed: INVALID where it breaks the same property by the same part of the cast.

    Raises KeyError, TypeError, ValueError and NotExplorableError for what is no run of this release.
    """
    document = finding.evidence[SEEDED]
    cell = Cell(
        scenario=msgspec.convert(document["scenario"], Scenario),
        preset=str(document["preset"]),
        fault=str(document["fault"]),
        watches_steps=bool(document["watches_steps"]),
    )
    with SeededRuns(cell, int(document["campaign_seed"])) as runs:
        run = runs.run(int(document["seed"]))
    if run.verdict is Verdict.INVALID and run.property != finding.property:
        return Verdict.VALID
    return run.verdict


def run_seeds(cell: Cell, campaign_seed: int, seeds: Sequence[int]) -> list[SeededRun]:
    """Return the runs of these seeds; where the preset refuses the scenario undisturbed, each says so."""
    try:
        with SeededRuns(cell, campaign_seed) as runs:
            return [runs.run(seed) for seed in seeds]
    except NotExplorableError as error:
        return [SeededRun(seed=seed, verdict=Verdict.UNKNOWN, error=f"not explorable: {error}") for seed in seeds]


def generator_of(campaign_seed: int, cell: Cell, seed: int) -> np.random.Generator:
    """Return the chance of one run, which follows from its name alone."""
    name = json.dumps([campaign_seed, *cell.key, seed]).encode()
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.blake2b(name, digest_size=16).digest())))


def _case(cell: Cell, stack: ExitStack) -> TestCase:
    """Return the situation of a cell, with its fault planted as long as the stack stands; readers are never missing."""
    case = setting_of(cell.scenario, PRESETS[cell.preset]).case
    if not case.readers:
        case = replace(case, readers=(Readers(),))
    if not cell.watches_steps:
        case = replace(case, rules=NO_RULES)
    answer_all(case)
    if cell.fault:
        mutant = Mutant(fault_named(cell.fault))
        stack.enter_context(mutant.planted())
        target = replace(mutant.target, encode=remembered_encoder())
        case = Baseline(case).case(target, case.rules)
    stack.enter_context(remembered_decoding())
    return case
