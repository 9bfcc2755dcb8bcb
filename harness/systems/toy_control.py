"""A control of an explorer of crashes: a toy, the models that must detect it, and those that must accept it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.models import MODELS, Model
from tornproof.harness.simulator.process.bodies import COMMIT
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.simulator.process.simulated_process import Node, Process, Say
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES, ProcessGroup
from tornproof.impl.storage.interface import Storage

EVERY = frozenset(MODELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A toy, rules for its single steps, the judge of its reports, and the property that must be found violated.

    The models `detected_by` must find it. By default all other models must accept it; of a toy that is broken in
    several ways, only those `accepted_by`.
    """

    target: Target
    rules: TraceRules = NO_RULES
    judge: type[Judge] = Judge
    violated: str = ""
    detected_by: frozenset[Model] = EVERY
    accepted_by: frozenset[Model] | None = None

    @property
    def accepting(self) -> frozenset[Model]:
        """The models that must find nothing in it."""
        return EVERY - self.detected_by if self.accepted_by is None else self.accepted_by

    def failure(self, model: Model, violated: Callable[[Model, Target], Collection[str]]) -> str:
        """Describe a wrong verdict under a model; `violated` explores a toy and returns the violated properties."""
        if model in self.detected_by and self.violated not in violated(model, self.target):
            return f"the toy {self.target.name!r} was not detected in {model}: {self.violated}"
        if model in self.accepting and violated(model, self.target):
            return f"the toy {self.target.name!r} was rejected in {model}"
        return ""


class ForgetsReads(Judge):
    """Broken: each read counts as the first one of its reader, and nothing was acknowledged before; the model knows."""

    def observe(self, progress: Progress, process: str, node: Node) -> Progress:
        """Judge what is reported at a node without what is known of the readers."""
        return super().observe(progress._replace(readings=()), process, node)


def unfollowed_reports() -> Iterator[str]:
    """Let a process report what the model does not allow, and describe it if nobody follows what is reported."""
    group = ProcessGroup(processes=(Process("writer", _commits_twice),), judge=Judge(lambda operations: None))
    world = group.begin(Kernel(), Progress())
    world.run(0)
    if not any(violation.property == Property.BEHAVIOUR for violation in world.progress.violations):
        yield f"a commit within a commit was not detected: {Property.BEHAVIOUR}"


def _commits_twice(storage: Storage, say: Say) -> None:
    for number in range(2):
        say(COMMIT, number)
        storage.kind("")
