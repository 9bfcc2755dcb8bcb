"""Planted faults for runs of real processes: each takes the original function and returns its replacement.

The first ones are mistakes of an implementation; the last three keep a process from judging it at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.chain import Resolved, walk
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.table import Table
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.txn.write import StorePlan
from tornproof.impl.write.commit import PartitionWrite, Protocol, RecoveryAction
from tornproof.impl.write.merge_plan import Keep, Span, Step, Timestamps


def newest_footer(original: Callable[..., Resolved]) -> Callable[..., Resolved]:
    """Take the footer that `_pm` published last, whatever token the version names."""

    def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
        return original(data, next(walk(data, file=file)).token, file=file)

    return resolve


def version_first(original: Callable[..., None]) -> Callable[..., None]:
    """Publish a version before the files that it names are written."""

    def execute(
        protocol: Protocol, storage: Storage, table_path: str, writes: Sequence[PartitionWrite], plan: StorePlan
    ) -> None:
        original(structs.replace(protocol, update=(), rewrite=()), storage, table_path, writes, plan)
        original(structs.replace(protocol, publish=()), storage, table_path, writes, plan)

    return execute


class _BlindLock(WriterLock):
    """A writer's lock that never meets a pin."""

    def __init__(self) -> None:
        """Hold nothing."""

    @contextmanager
    def exclude_pins(self, versions: range) -> Iterator[bool]:
        """Report that there is no reader."""
        yield True


def purge_regardless(original: Callable[..., tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    """Purge what readers have pinned."""

    def purge(
        storage: Storage, table: Table, transaction: Transaction, lock: WriterLock, named: Collection[str]
    ) -> tuple[str, ...]:
        return original(storage, table, transaction, _BlindLock(), named)

    return purge


def version_before(original: Callable[..., Transaction]) -> Callable[..., Transaction]:
    """Recover the version before the committed one, whose record is still there."""

    def recover(storage: Storage, table: Table, *actions: Sequence[RecoveryAction]) -> Transaction:
        version = table.transaction().version
        with storage.open_for_writing(f"{table.path}/{TXN_FILE}") as file, file.map(file.size_bytes()) as mapping:
            mapping.store_u64(0, max(version - 1, 0))
        return original(storage, table, *actions)

    return recover


def forgotten_row_groups(original: Callable[..., tuple[Step, ...]]) -> Callable[..., tuple[Step, ...]]:
    """Forget the row groups at the start of a file that a merge has to keep."""

    def plan_merge(spans: Sequence[Span], timestamps: Timestamps, *, has_keys: bool) -> tuple[Step, ...]:
        first, *others = original(spans, timestamps, has_keys=has_keys)
        return tuple(others) if isinstance(first, Keep) and others else (first, *others)

    return plan_merge


def bug(original: object) -> Callable[..., Any]:
    """Raise an error that no caller expects."""

    def fail(*_: object, **__: object) -> Any:
        raise LookupError("a planted bug")

    return fail


def rejection(original: object) -> Callable[..., Any]:
    """Reject the table as one that this writer does not support."""

    def reject(*_: object, **__: object) -> Any:
        raise UnsupportedError(file="_meta", field="x", offset_bytes=0, expected="what is known", actual="a novelty")

    return reject


def sleep(original: object) -> Callable[..., Any]:
    """Never return."""

    def hang(*_: object, **__: object) -> Any:
        while True:
            time.sleep(1)

    return hang
