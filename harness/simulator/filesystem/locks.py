"""Sessions of the storage in memory, and the advisory locks of their open files."""

from __future__ import annotations

from dataclasses import dataclass, field

from tornproof.harness.simulator.filesystem.step_bound import CallCount
from tornproof.impl.storage.interface import LockMode
from tornproof.impl.storage.operating_system_file import Tally


class Killed(BaseException):
    """The session that made this call is dead; not an `Exception`, so that no implementation can catch it and go on."""


@dataclass(slots=True, eq=False)
class Session:
    """Everything opened through one storage object, which dies as a whole, and its locks with it.

    `calls` is the count of a bounded session.
    """

    calls: CallCount | None = None
    tally: Tally = field(default_factory=Tally)
    is_dead: bool = False

    def check(self, operation: str, path: str = "", offset_bytes: int = 0) -> None:
        """Raise `Killed` if the session is dead, and EndlessError for a call too many."""
        if self.is_dead:
            raise Killed
        if self.calls is not None:
            self.calls.add(operation, path, offset_bytes)

    def step(self, operation: str, path: str = "", offset_bytes: int = 0) -> None:
        """Count a call."""
        self.check(operation, path, offset_bytes)
        self.tally.step_count += 1

    def sync(self, operation: str, path: str = "") -> None:
        """Count a call that makes something durable; in memory everything is durable anyway."""
        self.step(operation, path)
        self.tally.sync_count += 1


@dataclass(frozen=True, slots=True, eq=False)
class _Lock:
    owner: object
    session: Session
    mode: LockMode
    start: int
    stop: int


class LockTable:
    """The locks on byte ranges of one inode."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        """Start unlocked."""
        self._locks: list[_Lock] = []

    def try_lock(self, owner: object, session: Session, mode: LockMode, start: int, stop: int) -> bool:
        """Lock [start, stop) for an open file of a session; False if another one of a live session conflicts."""
        self._locks = [lock for lock in self._locks if not lock.session.is_dead]
        for lock in self._locks:
            overlaps = lock.owner is not owner and lock.start < stop and start < lock.stop
            if overlaps and LockMode.EXCLUSIVE in (mode, lock.mode):
                return False
        self.unlock(owner, start, stop)
        self._locks.append(_Lock(owner, session, mode, start, stop))
        return True

    def unlock(self, owner: object, start: int, stop: int) -> None:
        """Unlock [start, stop) of an open file; its locks stay on both sides of the range."""
        kept = []
        for lock in self._locks:
            if lock.owner is not owner:
                kept.append(lock)
                continue
            for left, right in ((lock.start, min(lock.stop, start)), (max(lock.start, stop), lock.stop)):
                if left < right:
                    kept.append(_Lock(owner, lock.session, lock.mode, left, right))
        self._locks = kept
