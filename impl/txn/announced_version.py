"""A version that is announced before its commit, so that it is recognized if the committing process is killed.

Nothing that others could write as well tells whose version it is, neither row counts nor sizes of files. So it gets a
PARTITION_TABLE_VERSION that no other commit would give it: readers ask only whether this number has changed.
"""

from __future__ import annotations

import hashlib

import msgspec

from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.txn.write import signed

STEP_BITS = 28
"""Commits that are not announced add 1, or a server a few; 2**34 that are announced fit into 64 bits."""


class AnnouncedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a version in `_txn`; releases that compared row counts wrote no `partition_table_version` down."""

    version: int
    partition_table_version: int | None

    def is_committed(self, transaction: Transaction) -> bool | None:
        """Return whether a committed version is the announced one, or None if nobody knows whether it was committed."""
        if transaction.version < self.version:
            return False
        if transaction.version > self.version or self.partition_table_version is None:
            return None
        return transaction.record.partition_table_version == self.partition_table_version


def announced_after(current: Transaction, identity: bytes) -> AnnouncedVersion:
    """Return the version that the commit with an identity makes of `current`."""
    digest = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest()) % (1 << STEP_BITS)
    step = (1 << STEP_BITS) + digest
    return AnnouncedVersion(
        version=current.version + 1,
        partition_table_version=signed(current.record.partition_table_version + step, 64),
    )
