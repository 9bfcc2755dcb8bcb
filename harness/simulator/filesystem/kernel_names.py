"""What calls on paths do to a kernel: opening, listing, and changing names."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, CallRejectedError, Directories, Effect, Handle, Kernel
from tornproof.impl.storage.interface import EntryKind, OpenMode, StorageReason


def _open_for_reading(kernel: Kernel, session: int, call: Call) -> Answer:
    number = kernel.entry(call.path)
    if number in kernel.directories:
        raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
    kernel.handles[session, call.file] = Handle(number, False)
    return None


def _open_for_writing(kernel: Kernel, session: int, call: Call) -> Answer:
    directory, name = kernel.way(call.path)
    if call.path.endswith("/") and (call.mode is not OpenMode.EXISTING or kernel.entry(call.path)):
        # What must be a directory is neither made as a file nor opened as one.
        raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
    number = kernel.directories[directory].get(name)
    if number is None:
        if call.mode is OpenMode.EXISTING:
            raise CallRejectedError(StorageReason.MISSING)
        number = kernel.new_number(session)
        kernel.files[number] = FileState()
        kernel.change_entries((directory, name, number))
    elif call.mode is OpenMode.NEW:
        raise CallRejectedError(StorageReason.ALREADY_THERE)
    elif number in kernel.directories:
        raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
    kernel.handles[session, call.file] = Handle(number, True)
    return None


def _directory(kernel: Kernel, path: str) -> int:
    number = kernel.entry(path)
    if number not in kernel.directories:
        raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
    return number


def _listdir(kernel: Kernel, session: int, call: Call) -> Answer:
    # The absolute root has no name.
    return tuple(sorted(filter(None, kernel.directories[_directory(kernel, call.path)])))


def _kind(kernel: Kernel, session: int, call: Call) -> Answer:
    number = kernel.find(call.path)
    if number is None:
        return EntryKind.MISSING
    return EntryKind.DIRECTORY if number in kernel.directories else EntryKind.FILE


def _mkdir(kernel: Kernel, session: int, call: Call) -> Answer:
    directory, name = kernel.way(call.path)
    if name in kernel.directories[directory]:
        raise CallRejectedError(StorageReason.ALREADY_THERE)
    number = kernel.new_number(session)
    kernel.directories = Directories({**kernel.directories, number: {}})
    kernel.change_entries((directory, name, number))
    return None


def _rmdir(kernel: Kernel, session: int, call: Call) -> Answer:
    if kernel.directories[_directory(kernel, call.path)]:
        raise CallRejectedError(StorageReason.NOT_EMPTY)
    kernel.change_entries((*kernel.way(call.path), None))
    return None


def _rename(kernel: Kernel, session: int, call: Call) -> Answer:
    source = kernel.way(call.path)
    directory, name = kernel.way(call.target_path)
    moved = kernel.entry(call.path)
    is_directory = moved in kernel.directories
    if not is_directory and call.target_path.endswith("/"):
        raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
    replaced = kernel.directories[directory].get(name)
    if replaced == moved:
        return None
    if is_directory and _contains(kernel.directories, moved, directory):
        raise CallRejectedError(os.strerror(errno.EINVAL))
    if replaced is not None:
        if replaced in _directories_above(kernel, call.path):
            # A folder is asked whether it is empty before what it holds may take its place.
            raise CallRejectedError(StorageReason.NOT_EMPTY)
        if is_directory and replaced not in kernel.directories:
            raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
        if not is_directory and replaced in kernel.directories:
            raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
        if is_directory and kernel.directories[replaced]:
            raise CallRejectedError(StorageReason.NOT_EMPTY)
    kernel.change_entries((*source, None), (directory, name, moved))
    return None


def _contains(directories: Mapping[int, Mapping[str, int]], outer: int, inner: int) -> bool:
    """Return whether a directory is in another one, or is that one, whatever path leads to it.

    After a power cut a directory may have two names, of which a path shows one.
    """
    pending = [outer]
    while pending:
        directory = pending.pop()
        if directory == inner:
            return True
        pending += [number for number in directories[directory].values() if number in directories]
    return False


def _directories_above(kernel: Kernel, path: str) -> Iterator[int]:
    """Yield the directories in which an entry is, but the root."""
    parts = kernel.plain(path.rstrip("/")).split("/")
    return (kernel.entry("/".join(parts[:end]) or "/") for end in range(1, len(parts)))


def _link(kernel: Kernel, session: int, call: Call) -> Answer:
    number = kernel.entry(call.path)
    directory, name = kernel.way(call.target_path)
    if name in kernel.directories[directory]:
        raise CallRejectedError(StorageReason.ALREADY_THERE)
    if call.target_path.endswith("/"):
        raise CallRejectedError(StorageReason.MISSING)
    if number in kernel.directories:
        raise CallRejectedError(StorageReason.NOT_PERMITTED)
    kernel.change_entries((directory, name, number))
    return None


def _unlink(kernel: Kernel, session: int, call: Call) -> Answer:
    if kernel.entry(call.path) in kernel.directories:
        raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
    kernel.change_entries((*kernel.way(call.path), None))
    return None


def _sync_directory(kernel: Kernel, session: int, call: Call) -> Answer:
    kernel.sync_entries(_directory(kernel, call.path))
    return None


EFFECTS: dict[CallKind, Effect] = {
    CallKind.OPEN_FOR_READING: _open_for_reading,
    CallKind.OPEN_FOR_WRITING: _open_for_writing,
    CallKind.LISTDIR: _listdir,
    CallKind.KIND: _kind,
    CallKind.MKDIR: _mkdir,
    CallKind.RMDIR: _rmdir,
    CallKind.RENAME: _rename,
    CallKind.LINK: _link,
    CallKind.UNLINK: _unlink,
    CallKind.SYNC_DIRECTORY: _sync_directory,
}
