"""A control of an explorer of crashes: a toy, the models that must detect it, and those that must accept it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.persistence.models import MODELS, Model

EVERY = frozenset(MODELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A toy and the property that the models `detected_by` must find violated.

    By default all other models must accept it; of a toy that is broken in several ways, only those `accepted_by`.
    """

    target: Target
    violated: str = ""
    detected_by: frozenset[Model] = EVERY
    accepted_by: frozenset[Model] | None = None

    def failure(self, model: Model, violated: Callable[[Model, Target], Collection[str]]) -> str:
        """Describe a wrong verdict under a model; `violated` explores a toy and returns the violated properties."""
        accepted = EVERY - self.detected_by if self.accepted_by is None else self.accepted_by
        if model in self.detected_by and self.violated not in violated(model, self.target):
            return f"the toy {self.target.name!r} was not detected in {model}: {self.violated}"
        if model in accepted and violated(model, self.target):
            return f"the toy {self.target.name!r} was rejected in {model}"
        return ""
