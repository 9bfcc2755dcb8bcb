"""What each call of the seam does to a kernel, and the plain answer that it gives."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem import kernel_files, kernel_names
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, Effect, Kernel, NoError, Rejected

EFFECTS: dict[CallKind, Effect] = {**kernel_names.EFFECTS, **kernel_files.EFFECTS}


def apply(kernel: Kernel, session: int, call: Call) -> Answer:
    """Do a call of a process, and return what it gets back."""
    try:
        return EFFECTS[call.kind](kernel, session, call)
    except NoError as rejected:
        return Rejected(rejected.reason)
