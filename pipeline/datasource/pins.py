"""Pins that keep the files of a version while Spark reads them: of the driver, of Spark's helpers, of each task.

A pin ends with its process. Spark calls a source in helper processes that it keeps for about a minute after their last
use, so a pin taken there lasts from loading a table until its tasks, which have pins of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, Storage
from tornproof.impl.txn.pins import PINS_FILE, Pin, pin_committed
from tornproof.impl.txn.transaction import TXN_FILE, Transaction, safe_read

HOLD_SECONDS = 60.0
RENEWAL_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class _Hold:
    """A pin of this process and when it was taken; it also keeps the files of all later versions."""

    path: str
    pin: Pin
    taken_seconds: float


_HOLDS: list[_Hold] = []


def hold_committed(storage: Storage, path: str) -> Transaction:
    """Return the committed version, whose files our purger keeps for 45 seconds or longer while this process runs.

    Raises as `pin_committed`.
    """
    now_seconds = storage.monotonic_seconds()
    for hold in [hold for hold in _HOLDS if now_seconds - hold.taken_seconds > HOLD_SECONDS]:
        _HOLDS.remove(hold)
        hold.pin.release()
    if any(hold.path == path and now_seconds - hold.taken_seconds < RENEWAL_SECONDS for hold in _HOLDS):
        return safe_read(storage, f"{path}/{TXN_FILE}")
    pin = pin_committed(storage, path)
    _HOLDS.append(_Hold(path, pin, now_seconds))
    return pin.transaction


@contextmanager
def held(storage: Storage, path: str, version: int) -> Iterator[bool]:
    """Keep the files of a version within the `with` block; yields whether the pin was taken.

    Read-only tables and those of servers have no `_pins`, and some platforms and file systems have no such locks.
    Files that were removed before stay removed.
    """
    file = _lock(storage, path, version)
    try:
        yield file is not None
    finally:
        if file is not None:
            file.close()


def _lock(storage: Storage, path: str, version: int) -> File | None:
    try:
        file = storage.open_for_reading(f"{path}/{PINS_FILE}")
    except StorageError:
        return None
    try:
        if file.try_lock(LockMode.SHARED, offset_bytes=version, size_bytes=1):
            return file
    except StorageError:
        pass
    file.close()
    return None
