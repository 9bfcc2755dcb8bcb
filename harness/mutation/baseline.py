"""What a mutation run starts from: a scenario, and what its readers see without the fault; and its result."""

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
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.table_readers import Seen


class Catch(NamedTuple):
    """How many states, runs or damages were explored, and which property was broken first, "" where none was."""

    explored_count: int
    property: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One scenario, with expected answers from the implementation without faults."""

    sound: TestCase

    def case(self, target: TableTarget, rules: TraceRules = NO_RULES) -> TestCase:
        """Return the test case with a fault; its readers must see what those without it see."""
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
        """The numbers of the operations of each session."""
        return tuple(session for session in (self.sound.first_session, self.sound.second_session) if session)

    def operation(self, number: int) -> TableOperation:
        """Return an operation."""
        operation: TableOperation = self.sound.operations[number]
        return operation

    def expected(self, operations: Operations) -> Seen:
        """Return what a reader sees after these operations."""
        seen = self.sound.oracle(operations)
        assert isinstance(seen, Seen)
        return seen


@functools.lru_cache(maxsize=64)
def baseline_of(scenario: str) -> Baseline:
    """Return the baseline of a scenario; to be called while no fault is planted. Raises ScenarioError."""
    case = case_of(load_scenario(scenario), TableTarget())
    answer_all(case)
    return Baseline(case)


def answer_all(case: TestCase) -> None:
    """Compute every answer that may be right, so that nothing is computed while a fault is planted."""
    first, second = case.first_session, case.second_session
    for done, more in itertools.product(range(len(first) + 1), range(len(second) + 1)):
        case.oracle(first[:done] + second[:more])
        case.difference(first[:done] + second[:more])
