"""What a writer does first with files that an earlier process left, in any state.

The committed version is made durable, because after a failed sync the page cache has bytes that were never written to
the disk. Nothing is truncated, because there may be readers (docs/writing.md#recovery).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tornproof.impl import limits
from tornproof.impl.errors import StorageError
from tornproof.impl.pm.encode import FooterFacts, ReusedRowGroup, append_generation, append_point
from tornproof.impl.storage.interface import EntryKind, Storage, StorageReason
from tornproof.impl.table.column_versions import CV_FILE, is_ahead, take_back
from tornproof.impl.table.partition import PM_FILE, ResolvedPartition, resolve_partition
from tornproof.impl.table.partition_names import split_name
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.write.commit import HARDENED, RecoveryAction, publish

UNWRITABLE = (StorageReason.READ_ONLY, StorageReason.NOT_PERMITTED)


def recover_for_writing(
    storage: Storage, table: Table, actions: Sequence[RecoveryAction] = HARDENED.recovery
) -> Transaction:
    """Make the committed version durable and the newest in every `_pm`, and free the names that its successor needs.

    It is idempotent, also after an interruption. Raises CorruptError if the committed version is damaged,
    UnsupportedError, StorageError; the caller holds the writer's lock.
    """
    transaction = table.transaction()
    for action in actions:
        match action:
            case RecoveryAction.REMOVE_UNCOMMITTED:
                _remove_uncommitted(storage, table, transaction)
            case RecoveryAction.REPUBLISH_PARTITIONS:
                _republish_partitions(storage, table, transaction)
            case RecoveryAction.STORE_VERSION_AGAIN:
                _store_version_again(storage, table.path, transaction.version)
            case RecoveryAction.TAKE_COLUMN_VERSION_BACK:
                _take_column_version_back(storage, table.path, transaction.record.column_version)
    return transaction


def remove_directory(storage: Storage, path: str) -> None:
    """Remove a directory and its contents; can be repeated after an interruption.

    Of a symbolic link only the name goes: where it leads is a volume of somebody else.
    """
    if storage.own_kind(path) is not EntryKind.DIRECTORY:
        storage.unlink(path)
        return
    for name in storage.listdir(path):
        remove_directory(storage, f"{path}/{name}")
    storage.rmdir(path)


def _remove_uncommitted(storage: Storage, table: Table, transaction: Transaction) -> None:
    """Remove the directories of uncommitted writes: their names have the committed version or a later one.

    Older unreferenced directories may still be pinned, so only `purge.py` removes them.
    """
    uncommitted = [
        name for name in table.unreferenced_directories(transaction) if split_name(name)[1] >= transaction.version
    ]
    for name in uncommitted:
        remove_directory(storage, f"{table.path}/{name}")
    if uncommitted:
        storage.sync_directory(table.path)


def _republish_partitions(storage: Storage, table: Table, transaction: Transaction) -> None:
    """Restate the committed generation where a killed commit has left an orphan; nothing else is written.

    All that a committed version names was durable before its word was stored, so other partitions need no sync. An
    orphan on a read-only volume stays: readers find the generation below it, and no commit continues the partition.
    """
    for partition in transaction.partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm():
            resolved = resolve_partition(files, partition)
            if resolved.resolved.orphan_count:
                try:
                    _republish(storage, resolved)
                except StorageError as error:
                    if error.reason not in UNWRITABLE:
                        raise


def _republish(storage: Storage, resolved: ResolvedPartition) -> None:
    """Publish the committed generation again, restated in a footer behind the orphan."""
    files, published = resolved.files, resolved.published.content
    committed_bytes = resolved.resolved.position.end_bytes
    with ExitStack() as opened:
        handle = opened.enter_context(storage.open_for_writing(f"{files.path}/{PM_FILE}"))
        # The new CRC covers the orphan, which may only be in the page cache, so it is written again.
        again = published[committed_bytes:] + _restate(resolved)
        if committed_bytes + len(again) > limits.PM_LIMIT_BYTES:
            return  # a writer that knew no limits left it; readers find the generation below it
        handle.pwrite(again, committed_bytes)
        handle.fdatasync()
        publish(handle, committed_bytes + len(again), opened).msync()


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
        # A killed commit may have extended the file, and msync does not guarantee that the size is durable.
        handle.fsync()


def _take_column_version_back(storage: Storage, table_path: str, version: int) -> None:
    path = f"{table_path}/{CV_FILE}"
    if is_ahead(storage, path, version):
        take_back(storage, path, version)
