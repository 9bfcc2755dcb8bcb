"""What a fault is hunted on, which is a scenario with what its readers see without the fault, and what is caught."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Operations
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.scenario_case import case_of
from tornproof.harness.systems.table import TableOperation, TableTarget
from tornproof.harness.systems.table_readers import Seen


class Catch(NamedTuple):
    """How many states, runs or damages were explored, and which property was broken first, "" where none was."""

    explored_count: int
    property: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One scenario; all that is remembered of it was made by the implementation as it is."""

    sound: TestCase

    def case(self, target: TableTarget, rules: TraceRules = NO_RULES) -> TestCase:
        """Return the situation under a fault, whose readers must see what those without it see."""
        return dataclasses.replace(self.sound, target=target, rules=rules).expecting(self.sound)

    def storage(self) -> MemoryStorage:
        """Return the files of the start."""
        return MemoryStorage.of(self.start)

    @property
    def start(self) -> DiskImage:
        """The files of the start, which do not change."""
        assert self.sound.start is not None
        return self.sound.start

    @property
    def sessions(self) -> tuple[Operations, ...]:
        """The numbers of the operations, life by life."""
        return tuple(session for session in (self.sound.first_session, self.sound.second_session) if session)

    def operation(self, number: int) -> TableOperation:
        """Return an operation."""
        operation: TableOperation = self.sound.operations[number]
        return operation

    def expected(self, operations: Operations) -> Seen:
        """Return what a reader sees after these."""
        seen = self.sound.oracle(operations)
        assert isinstance(seen, Seen)
        return seen


@functools.lru_cache(maxsize=64)
def baseline_of(scenario: str) -> Baseline:
    """Return the ground of a scenario; to be asked for while no fault is planted. Raises ScenarioError."""
    case = case_of(load_scenario(scenario), TableTarget())
    answer_all(case)
    return Baseline(case)


def answer_all(case: TestCase) -> None:
    """Ask for all that may be right to see, so that whoever judges under a fault finds it and computes nothing."""
    first, second = case.first_session, case.second_session
    for done, more in itertools.product(range(len(first) + 1), range(len(second) + 1)):
        case.oracle(first[:done] + second[:more])
