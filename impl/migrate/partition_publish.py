"""How a `_pm` gets its name: written beside it and made durable, then renamed, then the name is made durable.

At every moment of this, and after a crash at any, the name leads to nothing, to the old file or to the whole new one.
"""

from __future__ import annotations

from contextlib import suppress

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage

UNFINISHED_SUFFIX = ".migrating"


def publish_file(storage: Storage, path: str, content: bytes) -> None:
    """Make `path` a durable file with this content, in one step; raises StorageError and leaves no other file then."""
    unfinished = path + UNFINISHED_SUFFIX
    remove_unfinished(storage, path)
    try:
        write_durably(storage, unfinished, content)
        storage.rename(unfinished, path)
    except StorageError:
        # After a failed sync nobody knows what of the file is on the disk, so it never gets the name.
        with suppress(StorageError):
            storage.unlink(unfinished)
        raise
    sync_name(storage, path)


def write_durably(storage: Storage, path: str, content: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with storage.open_for_writing(path, OpenMode.NEW) as file:
        file.pwrite(content, 0)
        file.fsync()


def sync_name(storage: Storage, path: str) -> None:
    """Make the name of a file durable; also for one that an earlier run gave, which may have ended before this."""
    storage.sync_directory(parent_of(path))


def has_unfinished(storage: Storage, path: str) -> bool:
    """Say whether an interrupted run left a file unfinished that was to be `path`."""
    return storage.kind(path + UNFINISHED_SUFFIX) is EntryKind.FILE


def remove_unfinished(storage: Storage, path: str) -> None:
    """Remove what an interrupted run left."""
    if has_unfinished(storage, path):
        storage.unlink(path + UNFINISHED_SUFFIX)


def make_directories(storage: Storage, path: str) -> None:
    """Make a directory and those above it that are missing."""
    if path and storage.kind(path) is EntryKind.MISSING:
        make_directories(storage, path.rpartition("/")[0])
        storage.mkdir(path)
        storage.sync_directory(parent_of(path))


def parent_of(path: str) -> str:
    """Return the directory of a path's last name."""
    directory, slash, _ = path.rpartition("/")
    return directory or slash or "."
