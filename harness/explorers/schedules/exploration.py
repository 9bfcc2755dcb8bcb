"""One exploration of a situation's schedules: reduced, sampled and cut; what was found, met and counted on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, always, without_digits
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.search.crash_world import WRITER_PLACE
from tornproof.harness.search.cuts import Course, Cuts, NotOnlyAReaderError, schedule_of
from tornproof.harness.search.dpor import Counts, Run, explore_all
from tornproof.harness.search.outcome import Outcome, Outcomes
from tornproof.harness.search.random_schedules import Choose, Sampler, pct, uniform
from tornproof.harness.search.staleness import StaleReads
from tornproof.harness.search.turns import Schedule
from tornproof.harness.simulator.process.observer import Operations, Violation
from tornproof.harness.simulator.process.situation import Situation
from tornproof.harness.simulator.process.world import Cast, World

PHASE = "schedules"
UNIFORM = 0
METHODS = (UNIFORM, 2, 3, 4)
"""How schedules are sampled: uniformly at random, and by PCT of these depths."""
PROGRESS_EVERY = 256


class CutCounts(NamedTuple):
    """How many different runs of one reader there were, and whether those are all."""

    runs: int
    is_done: bool


class Exploration:
    """Explores the first life of a situation's writer beside all its readers; close it after use."""

    def __init__(self, situation: Situation, on_progress: OnProgress) -> None:
        """Cast the clients."""
        self.counts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.findings: dict[tuple[str, ...], Finding] = {}
        self.reduced: set[Outcome] = set()
        self.sampled: set[Outcome] = set()
        self.traces: set[tuple[int, ...]] = set()
        self.sample_count = 0
        self._cast = situation.cast()
        self._world = situation.begin(self._cast)
        self._situation = situation
        self._on_progress = on_progress
        self._ended_count = 0
        self._points = Points()
        self._stale = StaleReads()
        self._outcomes = Outcomes()

    def close(self) -> None:
        """End all greenlets."""
        self._cast.close()

    def reduce(self, has_time: HasTime = always, schedules_max: int | None = None) -> Counts:
        """Run DPOR to its end or to so many schedules; what a refuted belief let it run counts as an outcome too."""
        return explore_all(self._world, self._reduced, has_time=has_time, schedules_max=schedules_max)

    def sample(self, seed: int, rounds: int, has_time: HasTime = always, methods: Sequence[int] = METHODS) -> None:
        """Run a schedule of each method in turn, side by side because none finds all that the others do.

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
                choose = pct(generator, len(self._world.nodes), sampler.turn_count, depth)
                self._sample(sampler, f"PCT schedules of depth {depth}", choose)

    def cut(self, operations: Operations, has_time: HasTime = always) -> tuple[CutCounts, ...]:
        """Let a reader of each kind meet every moment of a writer's run; empty where one does more than read."""
        is_first_life = operations == self._situation.first_life
        cast = self._cast if is_first_life else self._situation.cast(operations)
        counts, place = [], WRITER_PLACE + 1
        try:
            course = Course(self._situation.begin(cast))
            for violation in course.progresses[-1].violations:
                self._find(violation, cast, lambda: ((WRITER_PLACE, len(course) - 1),))
            for group in self._situation.readers:
                counts.append(self._cut(cast, course, place, has_time))
                place += group.count
        except NotOnlyAReaderError:
            return ()
        finally:
            if not is_first_life:
                cast.close()
        return tuple(counts)

    def _reduced(self, run: Run) -> None:
        self.reduced.add(self._ended(run.world))
        for violation in run.world.progress.violations:
            self._find(violation, self._cast, lambda: run.schedule(None))
        for violation, late in self._stale.of(run):
            self._find(violation, self._cast, partial(run.schedule, late))

    def _sample(self, sampler: Sampler, name: str, choose: Choose) -> None:
        world, schedule, _ = sampler.run(choose)
        self.counts[name] += 1
        self.sample_count += 1
        self.traces.add(tuple(node.number for node in world.nodes))
        self.sampled.add(self._ended(world))
        for violation in world.progress.violations:
            self._find(violation, self._cast, lambda: schedule)

    def _cut(self, cast: Cast, course: Course, place: int, has_time: HasTime) -> CutCounts:
        cuts = Cuts(cast.clients[place], place, cast.judge)
        come = cuts.search(course, [cuts.root()], has_time=has_time)
        ends = [state for state in come if state.is_at_end]
        for state in ends:
            progress = course.progresses[-1]._replace(observations=state.progress.observations)
            self._ended(World(cast, course.kernels[-1], [state.node], progress))
            for violation in state.progress.violations:
                self._find(violation, cast, partial(schedule_of, place, come, state, len(course) - 1))
        return CutCounts(len(ends), cuts.is_done)

    def _ended(self, world: World) -> Outcome:
        self._ended_count += 1
        if self._ended_count % PROGRESS_EVERY == 0:
            self._on_progress(self._ended_count, None)
        self.reached.update(self._points.of(world))
        return self._outcomes.of(world)

    def _find(self, violation: Violation, cast: Cast, schedule: Callable[[], Schedule]) -> None:
        """Keep the first finding of each signature, and count the rest."""
        self.counts["violations"] += 1
        signature = tuple(map(without_digits, violation))
        if signature in self.findings:
            return
        turns = schedule()
        names = [client.name for client in cast.clients]
        words = ", ".join(f"{count} calls of {names[place]}" for place, count in turns)
        self.findings[signature] = Finding(
            property=violation.property,
            phase=PHASE,
            sentence=f"{violation.client}: {violation.sentence}. The schedule: {words}.",
            evidence={
                "target": self._situation.target.name,
                "clients": names,
                "schedule": [list(turn) for turn in turns],
            },
        )
