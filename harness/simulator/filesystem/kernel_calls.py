"""What each call of the storage interface does to a kernel, and its answer."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem import kernel_files, kernel_names
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, CallRejectedError, Effect, Kernel, Rejected

EFFECTS: dict[CallKind, Effect] = {**kernel_names.EFFECTS, **kernel_files.EFFECTS}


def apply(kernel: Kernel, session: int, call: Call) -> Answer:
    """Make a call of a session, and return its answer."""
    try:
        return EFFECTS[call.kind](kernel, session, call)
    except CallRejectedError as rejected:
        return Rejected(rejected.reason)
