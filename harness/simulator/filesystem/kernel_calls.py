"""What each call of the seam does to a kernel, and the plain answer that it gives."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem import kernel_files, kernel_names
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, Deed, Kernel, NoError, Refused

DEEDS: dict[CallKind, Deed] = {**kernel_names.DEEDS, **kernel_files.DEEDS}


def apply(kernel: Kernel, life: int, call: Call) -> Answer:
    """Do a call of a process, and return what it gets back."""
    try:
        return DEEDS[call.kind](kernel, life, call)
    except NoError as refused:
        return Refused(refused.reason)
