"""Sessions of a target's writer, in which calls can be made to fail, and the fault-free reference run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from tornproof.harness.common.system import Target, Writer
from tornproof.harness.explorers.kills.judge import Property, Violation
from tornproof.harness.explorers.kills.plan import Failure
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.memory_file import BusError
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.filesystem.written import RecordingStorage


class Session:
    """A writer that was opened on a disk, and its steps since."""

    def __init__(self, target: Target, path: str, storage: MemoryStorage) -> None:
        """Open the writer, recovery included."""
        self.start = storage.copy()
        self._recording = RecordingStorage(storage.fork_process())
        self._faulty = FaultyStorage(self._recording)
        self.context: AbstractContextManager[Writer] = target.open_writer(self._faulty, path)
        self.writer = self.context.__enter__()

    @property
    def steps(self) -> Sequence[Call]:
        """The writes and barriers of the writer since it was opened."""
        return self._recording.steps

    @property
    def calls(self) -> Sequence[Call]:
        """The calls of the writer since `arm`."""
        return self._faulty.calls

    @property
    def has_failed(self) -> bool:
        """Whether the call that `arm` chose was made, and failed."""
        return bool(self._faulty.fired)

    def arm(self, failure: Failure | None = None, calls: Sequence[Call] = ()) -> None:
        """Count calls from now on; let the one fail that `failure` names in `calls`, by its kind and occurrence."""
        if failure is None:
            self._faulty.arm()
            return
        kind = failure.call.kind
        occurrence = sum(call.kind is kind for call in calls[: failure.fault.at])
        self._faulty.arm(dataclasses.replace(failure.fault, at=occurrence, among=frozenset({kind})))

    def abandon(self) -> None:
        """Close a writer whose disk is no longer used."""
        with suppress(Exception, BusError, EndlessError):
            self.context.__exit__(None, None, None)


class Reference:
    """The fault-free run: what readers see before the first commit and after each."""

    def __init__(self, target: Target, path: str, start: MemoryStorage) -> None:
        """Read the state before the first commit, and open the writer."""
        self._target = target
        self._path = path
        self._storage = start.copy()
        self.operations: list[Any] = []
        with orderly(target, Property.FAULT_FREE, "the fault-free run"):
            self.observations = [target.read(start.copy(), path)]
            self.session = Session(target, path, self._storage)

    @property
    def calls(self) -> Sequence[Call]:
        """The calls of the last commit."""
        return self.session.calls

    def commit(self, operation: Any) -> None:
        """Commit and read; a rejection here is one without any fault."""
        self.session.arm()
        with orderly(self._target, Property.FAULT_FREE, "the fault-free run"):
            self.session.writer.commit(operation)
            self.observations.append(self._target.read(self._storage.copy(), self._path))
        self.operations.append(operation)


@contextmanager
def orderly(target: Target, rejected: Property | None, doing: str) -> Iterator[None]:
    """Turn an exception of the target into a violation: of `rejected`, if given, for one that it declares."""
    try:
        yield
    except BusError as error:
        raise Violation(Property.ORDERLY, f"{doing} met a bus error: {error}") from error
    except EndlessError as error:
        raise Violation(Property.ENDS, f"{doing} does not end: {error}") from error
    except Exception as error:
        if rejected is not None and isinstance(error, target.rejections):
            raise Violation(rejected, f"{doing} was rejected: {error}") from error
        raise Violation(Property.ORDERLY, f"{doing} ended with {type(error).__name__}: {error}") from error
