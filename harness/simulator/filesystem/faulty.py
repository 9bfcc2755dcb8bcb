"""A storage that fails on purpose: at a chosen call, in a chosen way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import Killed
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, Storage, StorageReason

# Calls that can fail. A load or store of a mapping cannot report an error, and errors of `close` are ignored.
FALLIBLE = frozenset(CallKind) - {
    CallKind.LOAD_FENCE,
    CallKind.STORE_FENCE,
    CallKind.CLOCK,
    CallKind.SLEEP,
    CallKind.UNLOCK,
    CallKind.CLOSE,
    CallKind.LOAD,
    CallKind.STORE,
    CallKind.READ_MAPPED,
    CallKind.VIEW,
    CallKind.UNMAP,
}
# Steps that may need more space.
GROWING = STEPS & FALLIBLE - {CallKind.UNLINK, CallKind.RMDIR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens instead of the `at`-th call (from 0) of the kinds in `among`.

    A write still writes its first `written_bytes`. `reason` is that of the error; None kills the session instead.
    """

    at: int
    reason: StorageReason | None
    among: frozenset[CallKind] = STEPS
    written_bytes: int = 0

    @classmethod
    def kill(cls, step_count: int, written_bytes: int = 0) -> Fault:
        """Kill the session after that many steps, and that many bytes of the next one."""
        return cls(at=step_count, reason=None, written_bytes=written_bytes)


class FaultyStorage(InterceptedStorage):
    """A storage over another one that makes each fault happen once.

    `fired` counts how often each happened, `failed` is the last call that did not, and `calls` holds those since the
    faults were set.
    """

    def __init__(self, inner: Storage, *faults: Fault) -> None:
        """Set the first faults."""
        super().__init__(inner)
        self._is_killed = False
        self.failed: Call | None = None
        self.arm(*faults)

    def arm(self, *faults: Fault) -> None:
        """Replace the faults; their calls are counted from the next one on."""
        self._remaining = {fault: fault.at for fault in faults}
        self.fired: Counter[Fault] = Counter()
        self.calls: list[Call] = []

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Make the call, unless a fault is due."""
        fault = self._due(call)
        if fault is not None:
            self._fail(fault, call)
        return run()

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        """Write as much as the fault lets through."""
        fault = self._due(call)
        if fault is None:
            run()
            return
        if fault.written_bytes:
            file.pwrite(call.content[: fault.written_bytes], call.offset_bytes)
        self._fail(fault, call)

    def _due(self, call: Call) -> Fault | None:
        if self._is_killed:
            raise Killed
        self.calls.append(call)
        due = None
        for fault, remaining in self._remaining.items():
            if call.kind in fault.among:
                self._remaining[fault] = remaining - 1
                if remaining == 0:
                    due = due or fault
        return due

    def _fail(self, fault: Fault, call: Call) -> None:
        self.fired[fault] += 1
        self.failed = call
        if fault.reason is None:
            self._is_killed = True
            raise Killed
        raise StorageError(file=call.path, operation=call.kind.value, reason=fault.reason)


class RefusingStorage(InterceptedStorage):
    """A storage over another one that refuses each call for the reason that `reason_of` gives, and makes the others."""

    def __init__(self, inner: Storage, reason_of: Callable[[Call], StorageReason | None]) -> None:
        """Refuse nothing yet."""
        super().__init__(inner)
        self._reason_of = reason_of

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Make the call, unless there is a reason not to."""
        reason = self._reason_of(call)
        if reason is not None:
            raise StorageError(file=call.path, operation=call.kind.value, reason=reason)
        return run()
