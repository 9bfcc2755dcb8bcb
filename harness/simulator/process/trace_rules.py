"""Rules about single steps, checked in every run: they find a misplaced write or a missing barrier without a crash.

I7: bytes of committed generations never change. I9: no version is stored before all that it refers to is durable
(docs/how-it-works.md). Only the target knows what is committed, so the rules are its own.
"""

from __future__ import annotations

from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel


class Broken(NamedTuple):
    """A rule that a step breaks: the one on content (I7), else the one on barriers (I9)."""

    is_content: bool
    sentence: str


class TraceRules:
    """No rules; those of a target override `before` and `acknowledged`."""

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Judge a step that changes something, before it happens."""
        return None

    def acknowledged(self, kernel: Kernel) -> Broken | None:
        """Judge the state in which a commit is acknowledged."""
        return None
