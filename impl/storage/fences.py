"""Fences of this machine, which order loads and stores where Python's own do not.

x86 reorders neither loads with loads nor stores with stores, so nothing is needed. Other processors do. There Linux is
asked for a barrier of all of them ([membarrier](https://man7.org/linux/man-pages/man2/membarrier.2.html)), which takes
milliseconds. Where it has none, there is no fence, and nothing may be written.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import cache

_KEEPS_ORDER = ("x86_64", "amd64", "i386", "i686")
# Numbers of the system call: that of most Linux machines, and those of the older ones.
_MEMBARRIER = {"aarch64": 283, "riscv64": 283, "loongarch64": 283, "ppc64le": 365, "x86_64": 324}
_QUERY, _GLOBAL = 0, 1


def nothing_to_order() -> None:
    """Do nothing."""


@cache
def fence_of_this_machine() -> Callable[[], None] | None:
    """Return the fence for stores and for loads, None if there is none."""
    return fence_of(platform.machine())


def fence_of(machine: str) -> Callable[[], None] | None:
    """Return the fence of a machine of that name, None if it needs one and there is none."""
    return nothing_to_order if machine.lower() in _KEEPS_ORDER else membarrier_of(machine)


def membarrier_of(machine: str) -> Callable[[], None] | None:
    """Return Linux's barrier for all processors, None where there is none; raises OSError when called if it fails."""
    number = _MEMBARRIER.get(machine)
    if sys.platform != "linux" or number is None:
        return None
    import ctypes

    system_call = ctypes.CDLL(None, use_errno=True).syscall

    def barrier() -> None:
        if system_call(number, _GLOBAL, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    is_there = system_call(number, _QUERY, 0, 0)
    return barrier if is_there > 0 and is_there & _GLOBAL else None
