"""A long-lived reader of `_txn`, which finds changes by comparing entries instead of relying on version counters.

QuestDB's own readers reload an older partition's entry only if the partition table version or the column version has
changed (docs/format.md). They miss changes of a writer that does not update it; here such changes are reported.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.txn.transaction import Partition, Transaction, safe_read


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """The current committed version, and how its partitions differ from the last reload.

    `unchanged` may be kept open; `unannounced` are older partitions that changed, or are gone, without a change of the
    version counters, and the last one if anything but its row count changed so.
    """

    transaction: Transaction
    unchanged: tuple[Partition, ...]
    unannounced: tuple[Partition, ...]


class TransactionReader:
    """Follows one `_txn`; each reload returns a consistent version."""

    def __init__(self, storage: ReadableStorage, path: str) -> None:
        """Remember the file without opening it."""
        self._storage = storage
        self._path = path
        self._last: Transaction | None = None

    def reload(self) -> Reload:
        """Read the committed version; raises as `safe_read` does, and keeps the last version for the next call then."""
        transaction = safe_read(self._storage, self._path)
        last, self._last = self._last, transaction
        if last is None:
            return Reload(transaction=transaction, unchanged=(), unannounced=())
        # After TRUNCATE new rows may come back under the same name, token and count.
        kept = last.partitions if last.record.truncate_version == transaction.record.truncate_version else ()
        known = {partition.identity for partition in kept}
        unchanged = tuple(partition for partition in transaction.partitions if partition.identity in known)
        return Reload(transaction=transaction, unchanged=unchanged, unannounced=_unannounced(last, transaction))


def _unannounced(last: Transaction, now: Transaction) -> tuple[Partition, ...]:
    announced = (
        last.record.partition_table_version != now.record.partition_table_version
        or last.record.column_version != now.record.column_version
        or last.record.truncate_version != now.record.truncate_version
    )
    if announced:
        return ()
    # Every older entry must be unchanged, and of the last one all but the row count, unless new ones follow.
    older = last.partitions[:-1]
    if last.partitions and len(now.partitions) == len(last.partitions):
        older += (replace(last.partitions[-1], row_count=now.partitions[-1].row_count),)
    pairs = zip(now.partitions, older, strict=False)
    changed = tuple(partition for partition, before in pairs if partition.identity != before.identity)
    return changed + older[len(now.partitions) :]
