"""Lives of processes, and advisory locks that belong to an open file of one."""

from __future__ import annotations

from dataclasses import dataclass, field

from tornproof.impl.storage.interface import LockMode
from tornproof.impl.storage.operating_system_file import Tally


class Killed(BaseException):
    """The life that made this call is over; no `except Exception` of an implementation may outlive it."""


@dataclass(slots=True, eq=False)
class Session:
    """All that was opened through one storage object: it dies as a whole, and its locks with it."""

    tally: Tally = field(default_factory=Tally)
    is_dead: bool = False

    def check(self) -> None:
        """Let nobody act who is dead."""
        if self.is_dead:
            raise Killed

    def step(self) -> None:
        """Count a call."""
        self.check()
        self.tally.step_count += 1

    def sync(self) -> None:
        """Count a call that makes something durable; in memory everything is."""
        self.step()
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
        """Lock [start, stop) for an open file of a life, or say that another living one holds a lock against it."""
        self._locks = [lock for lock in self._locks if not lock.session.is_dead]
        for lock in self._locks:
            is_in_the_way = lock.owner is not owner and lock.start < stop and start < lock.stop
            if is_in_the_way and LockMode.EXCLUSIVE in (mode, lock.mode):
                return False
        self.unlock(owner, start, stop)
        self._locks.append(_Lock(owner, session, mode, start, stop))
        return True

    def unlock(self, owner: object, start: int, stop: int) -> None:
        """Take [start, stop) away from an open file's locks, which keep what they hold on both sides."""
        kept = []
        for lock in self._locks:
            if lock.owner is not owner:
                kept.append(lock)
                continue
            for left, right in ((lock.start, min(lock.stop, start)), (max(lock.start, stop), lock.stop)):
                if left < right:
                    kept.append(_Lock(owner, lock.session, lock.mode, left, right))
        self._locks = kept
