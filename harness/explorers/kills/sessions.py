"""Sessions of a target's writer, in which calls can be made to fail, and what they violate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from tornproof.harness.common.system import TARGET_ERRORS, Target
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import BusError
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.filesystem.written import RecordingStorage
from tornproof.harness.simulator.process.observer import Property

REWORDED = {
    "a reader sees exactly what one commit left": Property.WRONG_SNAPSHOT,
    "a reader can read": Property.REJECTED,
    "recovery never goes back behind what was read": Property.SEEN_LOST,
    "a writer can be opened": Property.RECOVERY,
    "recovery of a recovered state changes nothing": Property.IDEMPOTENT,
    "a recovered writer goes on to the same end": Property.COMMIT,
    "what goes wrong is said in an orderly way": Property.DISORDERLY,
}
"""The properties by the words that older findings have for them."""


class Violation(Exception):  # noqa: N818  # a verdict, raised by the judge
    """One property does not hold; `reason` ends a sentence."""

    def __init__(self, violated: str, reason: str) -> None:
        self.violated = violated
        self.reason = reason
        super().__init__(f"{violated}: {reason}")

    def verdict_on(self, finding: Finding) -> Verdict:
        """Return INVALID if a finding is of this property, which older releases may have worded differently."""
        wanted = REWORDED.get(finding.property, finding.property)
        return Verdict.INVALID if self.violated == wanted else Verdict.UNKNOWN


class Session:
    """A writer that was opened on a disk, and its steps since."""

    def __init__(self, target: Target, path: str, storage: MemoryStorage, *faults: Fault) -> None:
        """Open the writer, recovery included, while these calls fail."""
        self.start = storage.copy()
        self._recording = RecordingStorage(storage.fork_process())
        self._faulty = FaultyStorage(self._recording, *faults)
        self._context = target.open_writer(self._faulty, path)
        self.writer = self._context.__enter__()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        """Close the writer."""
        return self._context.__exit__(*exception)

    @property
    def steps(self) -> Sequence[Call]:
        """The writes and barriers of the writer since it was opened."""
        return self._recording.steps

    @property
    def calls(self) -> Sequence[Call]:
        """The calls of the writer since it was opened, or since `arm`."""
        return self._faulty.calls

    @property
    def has_failed(self) -> bool:
        """Whether the call that `arm` chose was made, and failed."""
        return bool(self._faulty.fired)

    def arm(self, *faults: Fault) -> None:
        """Count calls from now on, and let some fail."""
        self._faulty.arm(*faults)


@contextmanager
def orderly(target: Target, rejected: str | None, doing: str) -> Iterator[None]:
    """Turn an exception of the target into a violation: of `rejected`, if given, for one that it declares."""
    try:
        yield
    except Violation:
        raise
    except BusError as error:
        raise Violation(Property.DISORDERLY, f"{doing} met a bus error: {error}") from error
    except EndlessError as error:
        raise Violation(Property.ENDS, f"{doing} does not end: {error}") from error
    except TARGET_ERRORS as error:
        if rejected is not None and isinstance(error, target.rejections):
            raise Violation(rejected, f"{doing} was rejected: {error}") from error
        raise Violation(Property.DISORDERLY, f"{doing} ended with {type(error).__name__}: {error}") from error
