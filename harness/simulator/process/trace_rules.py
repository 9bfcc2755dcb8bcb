"""Rules about single steps, checked in every run: they find a misplaced write or a missing barrier without a crash.

I7: bytes of committed generations never change. I9: no version is stored before all that it names is durable
(docs/how-it-works.md). What is committed, only the target can tell.
"""

from __future__ import annotations

from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel


class Broken(NamedTuple):
    """A rule that a step breaks: that on content (I7), else that on barriers (I9)."""

    is_content: bool
    sentence: str


class TraceRules:
    """No rules; a target's own ones override `before` and `acknowledged`."""

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Judge a step that changes something, before it happens."""
        return None

    def acknowledged(self, kernel: Kernel) -> Broken | None:
        """Judge the moment at which a commit is acknowledged."""
        return None
