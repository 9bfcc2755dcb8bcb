"""One exploration of a test case's schedules by DPOR, random sampling and reader reduction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, always, without_digits
from tornproof.harness.counterexamples.moves import BOTH_SESSIONS
from tornproof.harness.counterexamples.words import title_of
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.search.crash_world import WRITER_INDEX
from tornproof.harness.search.dpor import Counts, Run, explore_all
from tornproof.harness.search.outcome import Outcome, Outcomes
from tornproof.harness.search.random_schedules import Choose, Sampler, pct, uniform
from tornproof.harness.search.reader_reduction import NotOnlyAReaderError, ReaderReduction, Trace, schedule_of
from tornproof.harness.search.staleness import StaleReads
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Operations, Violation
from tornproof.harness.simulator.process.world import ProcessGroup, World

PHASE = "schedules"
UNIFORM = 0
PCT_DEPTHS = (2, 3, 4)
METHODS = (UNIFORM, *PCT_DEPTHS)
"""How schedules are sampled: uniformly at random, or by PCT with this depth."""
PROGRESS_EVERY = 256


class ReductionCounts(NamedTuple):
    """How many different runs of one reader there were, and whether these are all."""

    runs: int
    is_done: bool


class Exploration:
    """Explores the first session of a test case's writer with all its readers; close it after use."""

    def __init__(self, case: TestCase, on_progress: OnProgress) -> None:
        """Start the processes."""
        self.counts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.findings: dict[tuple[str, ...], Finding] = {}
        self.reduced: set[Outcome] = set()
        self.sampled: set[Outcome] = set()
        self.traces: set[tuple[int, ...]] = set()
        self.sample_count = 0
        self._process_group = case.process_group()
        self._world = case.begin(self._process_group)
        self._case = case
        self._on_progress = on_progress
        self._ended_count = 0
        self._points = Points()
        self._stale = StaleReads()
        self._outcomes = Outcomes()

    def close(self) -> None:
        """End all greenlets."""
        self._process_group.close()

    def reduce(self, has_time: HasTime = always, schedules_max: int | None = None) -> Counts:
        """Run DPOR to its end or to `schedules_max`; the outcomes of a search that had to start anew are kept."""
        return explore_all(self._world, self._reduced, has_time=has_time, schedules_max=schedules_max)

    def sample(self, seed: int, rounds: int, has_time: HasTime = always, methods: Sequence[int] = METHODS) -> None:
        """Run one schedule of each method per round, because no method finds all that the others do.

        A method is a depth of PCT, or UNIFORM.
        """
        generator = np.random.default_rng(seed)
        sampler = Sampler(self._world)
        for _ in range(rounds):
            for depth in methods:
                if not has_time():
                    return
                if depth == UNIFORM:
                    self._sample(sampler, "uniform random schedules", uniform(generator))
                    continue
                choose = pct(generator, len(self._world.nodes), sampler.transition_count, depth)
                self._sample(sampler, f"PCT schedules of depth {depth}", choose)

    def reduce_readers(
        self, operations: Operations, has_time: HasTime = always, runs_max: int | None = None
    ) -> tuple[ReductionCounts, ...]:
        """Run one reader of each group against every state of the writer; empty where a reader does more than read.

        Of more than `runs_max` different runs of a reader that many are made.
        """
        is_first_session = operations == self._case.first_session
        process_group = self._process_group if is_first_session else self._case.process_group(operations)
        counts, process_index = [], WRITER_INDEX + 1
        try:
            trace = Trace(self._case.begin(process_group))
            for violation in trace.progresses[-1].violations:
                self._find(violation, process_group, lambda: ((WRITER_INDEX, len(trace) - 1),))
            for group in self._case.readers:
                counts.append(self._reduce_reader(process_group, trace, process_index, has_time, runs_max))
                process_index += group.count
        except NotOnlyAReaderError:
            return ()
        finally:
            if not is_first_session:
                process_group.close()
        return tuple(counts)

    def _reduced(self, run: Run) -> None:
        self.reduced.add(self._ended(run.world))
        for violation in run.world.progress.violations:
            self._find(violation, self._process_group, lambda: run.schedule(None))
        for violation, late in self._stale.of(run):
            self._find(violation, self._process_group, partial(run.schedule, late))

    def _sample(self, sampler: Sampler, name: str, choose: Choose) -> None:
        world, schedule, _ = sampler.run(choose)
        self.counts[name] += 1
        self.sample_count += 1
        self.traces.add(tuple(node.number for node in world.nodes))
        self.sampled.add(self._ended(world))
        for violation in world.progress.violations:
            self._find(violation, self._process_group, lambda: schedule)

    def _reduce_reader(
        self, process_group: ProcessGroup, trace: Trace, process_index: int, has_time: HasTime, runs_max: int | None
    ) -> ReductionCounts:
        reduction = ReaderReduction(process_group.processes[process_index], process_index, process_group.judge)
        has_more = has_time if runs_max is None else lambda: reduction.end_count < runs_max and has_time()
        states = reduction.search(trace, [reduction.root()], has_time=has_more)
        ends = [state for state in states if state.is_at_end]
        for state in ends:
            progress = trace.progresses[-1]._replace(observations=state.progress.observations)
            self._ended(World(process_group, trace.kernels[-1], [state.node], progress))
            for violation in state.progress.violations:
                self._find(violation, process_group, partial(schedule_of, process_index, states, state, len(trace) - 1))
        return ReductionCounts(len(ends), reduction.is_done)

    def _ended(self, world: World) -> Outcome:
        self._ended_count += 1
        if self._ended_count % PROGRESS_EVERY == 0:
            self._on_progress(self._ended_count, None)
        self.reached.update(self._points.of(world))
        return self._outcomes.of(world)

    def _find(self, violation: Violation, process_group: ProcessGroup, schedule: Callable[[], Schedule]) -> None:
        """Keep the first finding of each signature, and count the rest."""
        self.counts["violations"] += 1
        signature = tuple(map(without_digits, violation))
        if signature in self.findings:
            return
        transitions = schedule()
        names = [process.name for process in process_group.processes]
        # A reader is also explored beside a writer that does at once what it does in both sessions.
        both = () if process_group is self._process_group else (*self._case.first_session, *self._case.second_session)
        self.findings[signature] = Finding(
            property=violation.property,
            phase=PHASE,
            sentence=title_of(violation.property, violation.process, violation.sentence),
            evidence={
                "target": self._case.target.name,
                "clients": names,
                "schedule": [list(transition) for transition in transitions],
                **({BOTH_SESSIONS: list(both)} if both else {}),
            },
        )
