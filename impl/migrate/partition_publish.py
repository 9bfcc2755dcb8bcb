"""How a file is published: it is written beside its path and synced, then renamed, then the name is synced.

At any time, and after a crash at any time, the path leads to nothing, to the old file or to the whole new one. The
unfinished file is locked until it is renamed, which tells one that is written from one that a killed process left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress

from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage, StorageReason

UNFINISHED_SUFFIX = ".migrating"


def publish_file(storage: Storage, path: str, content: bytes, *, is_new: bool = False) -> None:
    """Make `path` a durable file with this content, atomically; raises StorageError, then leaving no other file.

    One that `is_new` must not be there yet; raises BusyError if it is.
    """
    publish_parts(storage, path, (content,), is_new=is_new)


def replaceable_kind(storage: Storage, path: str) -> EntryKind:
    """Return whether a file is there or none; raises StorageError for anything else, which is not replaced.

    Nor is anything else replaced where the file is written first, except for a link.
    """
    kind = storage.own_kind(path)
    if kind is EntryKind.LINK:
        raise StorageError(path, "replace", "it is a symbolic link; name the file that it leads to")
    if kind not in (EntryKind.FILE, EntryKind.MISSING):
        raise StorageError(path, "replace", StorageReason.NOT_A_REGULAR_FILE)
    unfinished = path + UNFINISHED_SUFFIX
    if storage.own_kind(unfinished) not in (EntryKind.FILE, EntryKind.LINK, EntryKind.MISSING):
        raise StorageError(unfinished, "replace", StorageReason.NOT_A_REGULAR_FILE)
    return kind


def publish_parts(
    storage: Storage,
    path: str,
    parts: Iterable[bytes],
    check_last: Callable[[], None] = lambda: None,
    like: str = "",
    *,
    is_new: bool = False,
) -> None:
    """Make `path` a durable file of these parts, atomically, with the permissions that it has, or else those of `like`.

    What making them raises, or what is checked when all of them are durable, leaves no other file either. Raises
    BusyError while another process does the same, StorageError, also for a symbolic link.
    """
    kind = replaceable_kind(storage, path)
    if is_new and kind is not EntryKind.MISSING:
        # Another machine's view of a shared file system may have been stale before.
        raise BusyError(f"{path}: another process created it meanwhile; nothing was written")
    unfinished = path + UNFINISHED_SUFFIX
    with ExitStack() as held:
        file = _new_unfinished(storage, path, held)
        try:
            if like or kind is EntryKind.FILE:
                # Before there are bytes in it that others may not read.
                storage.take_permissions(path if kind is EntryKind.FILE else like, unfinished)
            write_durably(file, parts)
            check_last()
            storage.rename(unfinished, path)
        except BaseException:
            # After a failed sync it is unknown what is on the disk, so the file is not renamed.
            with suppress(StorageError):
                storage.unlink(unfinished)
            raise
    sync_name(storage, path)


def _new_unfinished(storage: Storage, path: str, held: ExitStack) -> File:
    """Open the file that is to become `path`, locked as long as `held`, in place of one that a killed process left."""
    unfinished = path + UNFINISHED_SUFFIX
    if storage.own_kind(unfinished) is EntryKind.FILE:
        # Locked to the end, too: its creator may only now come to lock it, and must not believe that it is still there.
        _lock(held.enter_context(storage.open_for_writing(unfinished)), path)
    remove_unfinished(storage, path)
    file = held.enter_context(storage.open_for_writing(unfinished, OpenMode.NEW))
    _lock(file, path)
    return file


def _lock(file: File, path: str) -> None:
    try:
        is_granted = file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
    except StorageError as error:
        if error.reason != StorageReason.NO_LOCKS:
            raise
        return
    if not is_granted:
        raise BusyError(f"{path}: another process is writing a new file for it; try again when it is done")


def write_durably(file: File, parts: Iterable[bytes]) -> None:
    """Write a new file and sync it."""
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
