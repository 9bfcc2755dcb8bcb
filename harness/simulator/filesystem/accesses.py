"""What a call would read and change if it came now: the order of calls without a common access does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.image import walked_paths
from tornproof.harness.simulator.filesystem.intercept import OFFSET_BYTES_END, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import ROOT, CallRejectedError, Kernel, is_plain
from tornproof.impl.storage.interface import LockMode

SIZE = 1 << 62
"""The offset that stands for a file's size: beyond all its bytes, and below OFFSET_BYTES_END."""


class Access(NamedTuple):
    """A range that a call reads or, with `changes`, changes in `of`: a file, its locks, or a name in a directory."""

    of: object
    start: int
    stop: int
    changes: bool


Footprint: TypeAlias = tuple[Access, ...]
"""All that a call accesses."""


def are_dependent(some: Iterable[Access], others: tuple[Access, ...]) -> bool:
    """Say whether the order of two calls with these accesses can matter."""
    for one in some:
        for other in others:
            if (
                (one.changes or other.changes)
                and one.start < other.stop
                and other.start < one.stop
                and one.of == other.of
            ):
                return True
    return False


def as_look(access: Access) -> Access:
    """Return the access of a call that has changed nothing: a rejected change of a name is only a look at it."""
    of = access.of
    is_name = of.__class__ is tuple and of[1].__class__ is str
    return access._replace(changes=False) if access.changes and is_name else access


def accesses(kernel: Kernel, session: int, call: Call) -> Footprint:
    """Return what a call of a process accesses if it comes now.

    Syncs of files and fences access nothing that a call can see; the sync of a directory fails if there is none.
    """
    find = _ACCESSES.get(call.kind)
    return () if find is None else find(kernel, session, call)


def _lookup(kernel: Kernel, path: str) -> Footprint:
    lookups = kernel.directories.lookups
    found = lookups.get(path)
    if found is None:
        passed = (path,) if is_plain(path) else walked_paths(path)
        found = lookups[path] = tuple(name for each in passed for name in _names_on(kernel, each))
    return found


def _names_on(kernel: Kernel, path: str) -> Iterator[Access]:
    directory = ROOT
    for name in path.split("/"):
        yield Access((directory, name), 0, 1, False)
        found = kernel.directories[directory].get(name)
        if found is None or found not in kernel.directories:
            return
        directory = found


def _at_path(kernel: Kernel, session: int, call: Call) -> Footprint:
    return _lookup(kernel, call.path)


def _opening(kernel: Kernel, session: int, call: Call) -> Footprint:
    return _lookup(kernel, call.path) if kernel.find(call.path) is not None else _naming(kernel, session, call)


def _listing(kernel: Kernel, session: int, call: Call) -> Footprint:
    """Return the listing as a change: changes of names are reads here, and so depend on it but not on each other."""
    number = kernel.find(call.path)
    return _lookup(kernel, call.path) + (() if number is None else (Access((number, None), 0, 1, True),))


def _naming(kernel: Kernel, session: int, call: Call) -> Footprint:
    found: list[Access] = []
    for path in filter(None, (call.path, call.target_path)):
        found += _lookup(kernel, path)
        try:
            directory, name = kernel.way(path)
            removed = kernel.directories[directory].get(name)
        except CallRejectedError:
            continue
        found += (Access((directory, name), 0, 1, True), Access((directory, None), 0, 1, False))
        if removed in kernel.directories:
            # A directory can be removed only when it is empty.
            found.append(Access((removed, None), 0, 1, True))
    return tuple(found)


def _reading(kernel: Kernel, session: int, call: Call) -> Footprint:
    file = kernel.file_of(session, call)
    if file is None:
        return ()
    end_bytes = call.offset_bytes + call.size_bytes
    read = Access(file, call.offset_bytes, end_bytes, False)
    return (read,) if end_bytes <= len(kernel.files[file].content) else (read, Access(file, SIZE, SIZE + 1, False))


def _sizing(kernel: Kernel, session: int, call: Call) -> Footprint:
    file = kernel.file_of(session, call)
    return () if file is None else (Access(file, SIZE, SIZE + 1, False),)


def _writing(kernel: Kernel, session: int, call: Call) -> Footprint:
    """Return no change for bytes that are there already, since no reader can tell."""
    file = kernel.file_of(session, call)
    if file is None:
        return ()
    content, end_bytes = kernel.files[file].content, call.offset_bytes + len(call.content)
    if content[call.offset_bytes : end_bytes] == call.content:
        # It depends on calls that change the bytes, as a read does.
        return (Access(file, call.offset_bytes, end_bytes, False),)
    changed = Access(file, min(call.offset_bytes, len(content)), end_bytes, True)
    return (changed,) if end_bytes <= len(content) else (changed, Access(file, SIZE, SIZE + 1, True))


def _resizing(kernel: Kernel, session: int, call: Call) -> Footprint:
    file = kernel.file_of(session, call)
    if file is None:
        return ()
    return (Access(file, min(call.size_bytes, len(kernel.files[file].content)), OFFSET_BYTES_END, True),)


def _locking(kernel: Kernel, session: int, call: Call) -> Footprint:
    handle = kernel.handles.get((session, call.file))
    if handle is None:
        return ()
    start, stop = call.offset_bytes, call.offset_bytes + call.size_bytes
    # A shared lock in place of an exclusive lock of the same owner lets others in.
    changes = call.lock is LockMode.EXCLUSIVE or any(
        (lock.session, lock.handle) == (session, call.file) and lock.mode is LockMode.EXCLUSIVE
        for lock in kernel.locks.get(handle.file, ())
        if lock.start < stop and start < lock.stop
    )
    return (Access(("locks", handle.file), start, stop, changes),)


def _unlocking(kernel: Kernel, session: int, call: Call) -> Footprint:
    handle = kernel.handles.get((session, call.file))
    if handle is None:
        return ()
    return tuple(
        Access(("locks", handle.file), lock.start, lock.stop, lock.mode is LockMode.EXCLUSIVE)
        for lock in kernel.locks.get(handle.file, ())
        if (lock.session, lock.handle) == (session, call.file)
    )


_ACCESSES: dict[CallKind, Callable[[Kernel, int, Call], Footprint]] = {
    CallKind.OPEN_FOR_READING: _at_path,
    CallKind.OPEN_FOR_WRITING: _opening,
    CallKind.LISTDIR: _listing,
    CallKind.KIND: _at_path,
    CallKind.MKDIR: _naming,
    CallKind.RMDIR: _naming,
    CallKind.SYNC_DIRECTORY: _at_path,
    CallKind.RENAME: _naming,
    CallKind.LINK: _naming,
    CallKind.UNLINK: _naming,
    CallKind.PREAD: _reading,
    CallKind.SIZE: _sizing,
    CallKind.PWRITE: _writing,
    CallKind.TRUNCATE: _resizing,
    CallKind.MAP: _sizing,
    CallKind.LOCK: _locking,
    CallKind.UNLOCK: _unlocking,
    CallKind.CLOSE: _unlocking,
    CallKind.LOAD: _reading,
    CallKind.STORE: _writing,
    CallKind.READ_MAPPED: _reading,
    CallKind.VIEW: _reading,
    # A write before the view ends breaks the lease.
    CallKind.END_VIEW: _reading,
}
