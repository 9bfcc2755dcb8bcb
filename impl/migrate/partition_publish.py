"""How a file is published: it is written beside its path and synced, then renamed, then the name is synced.

At any time, and after a crash at any time, the path leads to nothing, to the old file or to the whole new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tornproof.impl.errors import StorageError, TornproofError
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage

UNFINISHED_SUFFIX = ".migrating"


def publish_file(storage: Storage, path: str, content: bytes) -> None:
    """Make `path` a durable file with this content, atomically; raises StorageError, then leaving no other file."""
    publish_parts(storage, path, (content,))


def publish_parts(
    storage: Storage, path: str, parts: Iterable[bytes], check_last: Callable[[], None] = lambda: None
) -> None:
    """Make `path` a durable file of these parts, atomically.

    What making them raises, or what is checked when all of them are durable, leaves no other file either.
    """
    unfinished = path + UNFINISHED_SUFFIX
    remove_unfinished(storage, path)
    try:
        write_durably(storage, unfinished, parts)
        check_last()
        storage.rename(unfinished, path)
    except TornproofError:
        # After a failed sync it is unknown what is on the disk, so the file is not renamed.
        with suppress(StorageError):
            storage.unlink(unfinished)
        raise
    sync_name(storage, path)


def write_durably(storage: Storage, path: str, parts: Iterable[bytes]) -> None:
    """Write a new file and sync it."""
    with storage.open_for_writing(path, OpenMode.NEW) as file:
        offset_bytes = 0
        for part in parts:
            file.pwrite(part, offset_bytes)
            offset_bytes += len(part)
        file.fsync()


def sync_name(storage: Storage, path: str) -> None:
    """Make the name of a file durable, also after an earlier run that may have ended before doing so."""
    storage.sync_directory(parent_of(path))


def has_unfinished(storage: Storage, path: str) -> bool:
    """Return whether an interrupted run left an unfinished file that was to become `path`."""
    return storage.own_kind(path + UNFINISHED_SUFFIX) in (EntryKind.FILE, EntryKind.LINK)


def remove_unfinished(storage: Storage, path: str) -> None:
    """Remove the unfinished file that an interrupted run left."""
    if has_unfinished(storage, path):
        storage.unlink(path + UNFINISHED_SUFFIX)


def make_directories(storage: Storage, path: str) -> None:
    """Create a directory and its missing parents."""
    if path and storage.kind(path) is EntryKind.MISSING:
        make_directories(storage, path.rpartition("/")[0])
        storage.mkdir(path)
        storage.sync_directory(parent_of(path))


def parent_of(path: str) -> str:
    """Return the directory that contains the path."""
    directory, slash, _ = path.rpartition("/")
    return directory or slash or "."
