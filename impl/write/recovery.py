"""What a writer does before it goes on from files that another life left, at any moment of its work.

The committed version becomes what the disk holds, not only the page cache: after a failed sync the cache shows bytes
that were never written (docs/how-it-works.md). Nothing is cut, because readers may live (docs/how-it-works.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tornproof.impl.pm.encode import FooterFacts, ReusedRowGroup, append_generation, append_point
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE, ResolvedPartition, resolve_partition
from tornproof.impl.table.partition_names import split_name
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.write.commit import HARDENED, RecoveryAction, publish


def recover_for_writing(
    storage: Storage, table: Table, actions: Sequence[RecoveryAction] = HARDENED.recovery
) -> Transaction:
    """Make the committed version durable and the newest of every `_pm`, and free the names that its successor needs.

    Running it twice, or again after it was interrupted, ends in the same state. Raises CorruptError where the
    committed version is damaged, UnsupportedError, StorageError; the caller holds the writer's lock.
    """
    transaction = table.transaction()
    for action in actions:
        match action:
            case RecoveryAction.REPUBLISH_PARTITIONS:
                _republish_partitions(storage, table, transaction)
            case RecoveryAction.STORE_VERSION_AGAIN:
                _store_version_again(storage, table.path, transaction.version)
            case RecoveryAction.REMOVE_UNCOMMITTED:
                _remove_uncommitted(storage, table, transaction)
    return transaction


def remove_directory(storage: Storage, path: str) -> None:
    """Remove a directory with all that is in it; what an interruption leaves can be removed again."""
    for name in storage.listdir(path):
        entry_path = f"{path}/{name}"
        if storage.kind(entry_path) is EntryKind.DIRECTORY:
            remove_directory(storage, entry_path)
        else:
            storage.unlink(entry_path)
    storage.rmdir(path)


def _republish_partitions(storage: Storage, table: Table, transaction: Transaction) -> None:
    for partition in transaction.partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm():
            _republish(storage, resolve_partition(files, partition))


def _republish(storage: Storage, resolved: ResolvedPartition) -> None:
    """Publish the committed generation again: as it stands or, past an orphan, in a footer that restates it."""
    files, published = resolved.files, resolved.published.content
    with ExitStack() as opened:
        handle = opened.enter_context(storage.open_for_writing(f"{files.path}/{PM_FILE}"))
        end_bytes = len(published)
        if resolved.resolved.orphan_count:
            committed_bytes = resolved.resolved.position.end_bytes
            # The new CRC spans the orphan, which may stand in the page cache alone, so it is written once more.
            again = published[committed_bytes:] + _restate(resolved)
            handle.pwrite(again, committed_bytes)
            handle.fdatasync()
            end_bytes = committed_bytes + len(again)
        # An equal value too makes the block pending again, so that the sync has something to write.
        publish(handle, end_bytes, opened).msync()


def _restate(resolved: ResolvedPartition) -> bytes:
    metadata, published = resolved.metadata, resolved.published.content
    generation = metadata.generation
    return append_generation(
        metadata.header,
        append_point(published, generation.position, base_bytes=len(published)),
        [
            ReusedRowGroup(block_offset=offset_bytes, blooms=blooms)
            for offset_bytes, blooms in zip(generation.block_offsets, generation.blooms, strict=True)
        ],
        FooterFacts.of(generation),
    )


def _store_version_again(storage: Storage, table_path: str, version: int) -> None:
    with storage.open_for_writing(f"{table_path}/{TXN_FILE}") as handle, handle.map(handle.size_bytes()) as mapping:
        mapping.store_u64(0, version)
        mapping.msync()
        # A killed commit may have made the file longer, and msync does not promise the size (docs/format.md, B10).
        handle.fsync()


def _remove_uncommitted(storage: Storage, table: Table, transaction: Transaction) -> None:
    """Remove the directories of commits that never came about: their names carry the committed version or a later one.

    Older ones that nothing names may still be pinned, so they are the purger's (`tornproof.impl.write.purge`).
    """
    uncommitted = [
        name for name in table.unreferenced_directories(transaction) if split_name(name)[1] >= transaction.version
    ]
    for name in uncommitted:
        remove_directory(storage, f"{table.path}/{name}")
    if uncommitted:
        storage.sync_directory(table.path)
