"""A release as a value: how it commits, how it reads, and how it encodes row groups."""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.encode import patch_header
from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE, PartitionFiles
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.write.commit import Action, PartitionWrite, Protocol
from tornproof.impl.write.partition_change import RowGroupEncoder
from tornproof.impl.write.recovery import remove_directory


class CommitMode(enum.StrEnum):
    """How much of a commit is made durable before it returns: QuestDB's `cairo.commit.mode`."""

    NOSYNC = "nosync"
    ASYNC = "async"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A release by its protocol, reader and encoder; `title` is a sentence about it (docs/presets.md).

    `is_server` says that it is a released one, which also has native partitions.
    """

    name: str
    title: str
    protocol: Protocol
    reader: ReaderProtocol
    commit_mode: CommitMode
    encode: RowGroupEncoder
    is_server: bool = False


def leaving_out(protocol: Protocol, actions: Container[Action]) -> Protocol:
    """Return a protocol whose commits omit some actions."""
    dictionary, update, rewrite, publish = (
        tuple(action for action in order if action not in actions)
        for order in (protocol.dictionary, protocol.update, protocol.rewrite, protocol.publish)
    )
    return replace(protocol, dictionary=dictionary, update=update, rewrite=rewrite, publish=publish)


def physical_length(storage: Storage, write: PartitionWrite) -> int:
    """Return the token of a write: the length that the file will have, dead bytes included (docs/presets.md).

    QuestDB takes the length after the write. With one writer that is the same number, and it is needed before.
    """
    end_bytes = write.data_offset_bytes + len(write.data)
    if write.is_new:
        return end_bytes
    with storage.open_for_reading(f"{write.directory_path}/{DATA_FILE}") as file:
        return max(file.size_bytes(), end_bytes)


def cut_both_files(storage: Storage, write: PartitionWrite) -> None:
    """Restore the header and truncate what a failed update has appended; recovery removes a new directory."""
    if write.is_new:
        return
    with storage.open_for_writing(f"{write.directory_path}/{PM_FILE}") as pm:
        pm.pwrite(patch_header(write.pm_offset_bytes), 0)
        with storage.open_for_writing(f"{write.directory_path}/{DATA_FILE}") as data:
            data.truncate(write.data_offset_bytes)
        pm.truncate(write.pm_offset_bytes)


def remove_at_once(storage: Storage, lock: WriterLock, version: int, files: Iterable[PartitionFiles]) -> None:
    """Remove directories without readers as soon as no version refers to them, durable or not."""
    with lock.exclude_pins(range(version)) as is_unpinned:
        for each in files if is_unpinned else ():
            if storage.kind(each.path) is EntryKind.DIRECTORY:
                remove_directory(storage, each.path)
