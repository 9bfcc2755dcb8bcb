"""One random run: the fault injected into the writer, the schedules before and after it, and the resulting moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tornproof.harness.counterexamples.moves import Moves
from tornproof.harness.explorers.random.random_scenarios import one_of
from tornproof.harness.explorers.schedules.exploration import PCT_DEPTHS
from tornproof.harness.search.crash_world import FAILING, WRITER_INDEX, Sessions
from tornproof.harness.search.outcome import path_to
from tornproof.harness.search.random_schedules import Choose, Sampler, pct, uniform
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CHANGES
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import (
    C_4096,
    POWER_MODELS,
    A,
    Choice,
    D,
    Model,
)
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Progress
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.scenario import Scenario

FAULT_FREE, KILLED, CUT, FAILED = "nothing befell the writer", "process killed", "power cut", "sync failed"
SOUND_DISK, OLD_DISK, MIXED_DISK = "all that was written", "as little as is legal", "a mixture"
CHANGING_SHARE = 0.75
"""The share of crashes just before or after a call that changes files; the others are before any call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault of the writer; `model` says what the crash leaves, `is_failing` that one of its syncs fails first."""

    name: str
    model: Model | None = None
    is_failing: bool = False


def injected_faults_of(scenario: Scenario) -> tuple[str, ...]:
    """Return the names of the faults that may be injected under the models of a scenario."""
    return (FAULT_FREE, *(name for name, models in _MODELS.items() if _models(scenario, models)))


_MODELS = {KILLED: (A,), FAILED: (D,), CUT: POWER_MODELS}


def _models(scenario: Scenario, models: Sequence[Model]) -> list[Model]:
    return [model for model in models if not scenario.models or model.name in scenario.models]


def draw_injected_fault(scenario: Scenario, chance: np.random.Generator) -> InjectedFault:
    """Choose a fault at random among those of the scenario."""
    name = one_of(injected_faults_of(scenario), chance)
    if name == FAULT_FREE:
        return InjectedFault(name=name)
    return InjectedFault(name=name, model=one_of(_models(scenario, _MODELS[name]), chance), is_failing=name == FAILED)


class Watcher:
    """Lets the processes of a run go on; a subclass also notes what they do."""

    def step(self, world: World, process_index: int) -> None:
        """Let a process make its next call."""
        world.step(process_index)

    def fail(self, world: World, before: Progress) -> None:
        """Learn that a call of the writer has failed."""

    def kill(self, processes: Sequence[str]) -> None:
        """Learn that these processes were killed."""

    def look(self, world: World) -> None:
        """Learn what the world is before a crash, and at the end."""


class Trace:
    """One run in progress: each random choice is executed at once, step by step, and recorded."""

    def __init__(
        self,
        sessions: Mapping[bool, Sessions],
        chance: np.random.Generator,
        watch: Callable[[TestCase], Watcher] = lambda case: Watcher(),
    ) -> None:
        """Begin with the sessions in which no call fails; `sessions[True]` are judged less strictly."""
        self._all_sessions = sessions
        self._watch = watch
        self._take(sessions[False])
        self.moves: Moves = []
        self.transition_count = 0
        self.crashed_at: Node | None = None
        self.disk = ""
        self.is_seen_kept = True
        self._chance = chance

    def _take(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.world = sessions.case.begin(sessions.first)
        self.watcher = self._watch(sessions.case)

    def go(self, injected_fault: InjectedFault) -> InjectedFault:
        """Run to the end, and return the fault that was injected."""
        if injected_fault.model is None:
            self._follow(self._random_schedule()[0])
        else:
            injected_fault = self._run_until(injected_fault)
            self.watcher.look(self.world)
            self._crash(injected_fault)
            self._follow(self._random_schedule()[0])
        self.watcher.look(self.world)
        return injected_fault

    def _random_schedule(self) -> tuple[Schedule, World]:
        """Return a random schedule up to the end of all processes, and the world at that end."""
        sampler = Sampler(self.world)
        end, schedule, transition_count = sampler.run(self._policy(sampler.transition_count))
        self.transition_count += transition_count
        return schedule, end

    def _policy(self, transition_count: int) -> Choose:
        depth = int(self._chance.integers(len(PCT_DEPTHS) + 1))
        if depth == len(PCT_DEPTHS):
            return uniform(self._chance)
        return pct(self._chance, len(self.world.nodes), max(transition_count, 1), PCT_DEPTHS[depth])

    def _run_until(self, injected_fault: InjectedFault) -> InjectedFault:
        """Run up to the writer's call at which the fault comes, and return the fault, which may be another one."""
        schedule, end = self._random_schedule()
        kinds = [node.call.kind for node in path_to(end.nodes[WRITER_INDEX]) if node.call is not None]
        syncs = [index for index, kind in enumerate(kinds) if kind in FAILING]
        if injected_fault.is_failing and not syncs:
            # A writer that never syncs can only be killed.
            injected_fault = InjectedFault(name=KILLED, model=A)
        if injected_fault.is_failing:
            self._take(self._all_sessions[True])
            indices = syncs
        elif self._chance.random() < CHANGING_SHARE:
            changes = [index for index, kind in enumerate(kinds) if kind in CHANGES | BARRIERS]
            indices = sorted({*changes, *(index + 1 for index in changes)})
        else:
            indices = list(range(len(kinds) + 1))
        calls = [process_index for process_index, count in schedule for _ in range(count)]
        writer_calls = [number for number, process_index in enumerate(calls) if process_index == WRITER_INDEX]
        at = one_of(indices or [len(writer_calls)], self._chance)
        # Readers may go on up to the writer's next call.
        least = writer_calls[at - 1] + 1 if at else 0
        most = writer_calls[at] if at < len(writer_calls) else len(calls)
        self._follow_calls(calls[: int(self._chance.integers(least, most + 1))])
        self.crashed_at = self.world.nodes[WRITER_INDEX]
        return injected_fault

    def _crash(self, injected_fault: InjectedFault) -> None:
        model = injected_fault.model
        if injected_fault.is_failing:
            before = self.world.progress
            self.world = self.sessions.after_failed_sync(self.world)
            self.watcher.fail(self.world, before)
            self.moves.append(("fail",))
            self._follow(self._random_schedule()[0])
            # The pages that the sync has lost are still in the cache, unless a power cut follows.
            model = one_of((A, C_4096), self._chance)
        assert model is not None
        processes = [process.name for process in self.world.process_group.processes]
        if not model.everything_dies:
            self.moves.append(("kill",))
            self.watcher.kill(processes[: WRITER_INDEX + 1])
            self.world = self.sessions.after_kill(self.world)
            return
        legal = legal_disks(self.world.kernel, model)
        picked = next(itertools.islice(legal, int(self._chance.integers(legal.tried_count)), None))
        choice = legal.choice(picked)
        self.moves.append(("power", model.name, choice))
        self.disk = kind_of_disk(choice, picked.indexes)
        self.is_seen_kept = False
        self.watcher.kill(processes)
        self.world = self.sessions.after_power_cut(self.world, picked.disk.kernel())

    def _follow(self, schedule: Schedule) -> None:
        self._follow_calls([process_index for process_index, count in schedule for _ in range(count)])

    def _follow_calls(self, calls: Sequence[int]) -> None:
        for process_index in calls:
            self.watcher.step(self.world, process_index)
        self.moves += [(process_index, len(list(group))) for process_index, group in itertools.groupby(calls)]


def kind_of_disk(choice: Choice, positions: Sequence[int]) -> str:
    """Classify a legal disk; position 0 is the latest content of a file."""
    if choice.names is None and not any(positions):
        return SOUND_DISK
    is_old = all(file.base == 0 and not file.blocks for _, file in choice.files)
    return OLD_DISK if is_old and not choice.names else MIXED_DISK
