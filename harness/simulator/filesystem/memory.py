"""A writable storage in memory that behaves like the operating system on a separate tree."""

from __future__ import annotations

import errno
from collections.abc import Callable

from tornproof.harness.simulator.filesystem.image import DiskImage, is_usable
from tornproof.harness.simulator.filesystem.locks import Session
from tornproof.harness.simulator.filesystem.memory_file import MemoryFile
from tornproof.harness.simulator.filesystem.memory_tree import (
    Directory,
    Entry,
    Inode,
    SymbolicLink,
    Tree,
    as_directory,
    as_file,
    entry_of,
    is_name,
    reject,
)
from tornproof.harness.simulator.filesystem.step_bound import CLOCK_TICK_SECONDS, CallCount
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import Counters, EntryKind, File, OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system_file import TranslateOsErrors


class _OnPath(TranslateOsErrors):
    """Turn the system's error numbers into `StorageError`, and first reject a path that no system call can take."""

    __slots__ = ()

    def __init__(self, path: str, operation: str, *other_paths: str) -> None:
        super().__init__(path, operation)
        if not all(map(is_usable, (path, *other_paths))):
            raise StorageError(file=path, operation=operation, reason=StorageReason.NAME_UNUSABLE)


class MemoryStorage(Storage):
    """One session on a disk in memory; everything is durable at once, and the clock moves only when a caller sleeps.

    A change of a path that ends with a slash or dots is an error, not always with the reason that the system gives.
    """

    def __init__(self) -> None:
        """Start with an empty disk."""
        self._tree = Tree()
        self._session = Session()

    @classmethod
    def of(cls, image: DiskImage) -> MemoryStorage:
        """Start from the files and directories of an image, without copying their content.

        Raises `StorageError` for an image with files above its working directory.
        """
        return cls()._on(Tree.of(image))

    def _on(self, tree: Tree, *, is_bounded: bool = False) -> MemoryStorage:
        storage = MemoryStorage()
        storage._tree = tree
        if is_bounded or self._session.calls is not None:
            storage._session.calls = CallCount()
        return storage

    def _step(self, path: str, operation: str, *other_paths: str) -> _OnPath:
        self._session.step(operation, path)
        return _OnPath(path, operation, *other_paths)

    def image(self) -> DiskImage:
        """Return an immutable copy of the current content; two names of one file become two files."""
        return self._tree.image()

    def copy(self) -> MemoryStorage:
        """Return another disk with the current content: no open files, no locks, a clock at zero.

        Content is shared until either disk writes.
        """
        return self._on(self._tree.copy())

    def digest(self) -> bytes:
        """Return a digest of the disk: names, bytes, and which names are one file."""
        return self._tree.digest()

    def fork_process(self) -> MemoryStorage:
        """Return another process on the same disk, with counters of its own."""
        return self._on(self._tree)

    def bounded(self) -> MemoryStorage:
        """Return another process on the same disk; its calls, and those of all that is made from it, are bounded.

        One that makes too many ends with EndlessError. Looking at the clock takes time in it.
        """
        return self._on(self._tree, is_bounded=True)

    def kill_process(self) -> None:
        """End this process without closing anything: its locks are gone, and every further call raises `Killed`."""
        self._session.is_dead = True

    def open_for_reading(self, path: str) -> File:
        """Open a file of the tree."""
        with self._step(path, "open for reading"):
            return MemoryFile(path, as_file(self._tree.find(path)), self._session, is_writable=False)

    def open_for_writing(self, path: str, mode: OpenMode = OpenMode.EXISTING) -> File:
        """Open a file of the tree, or create an empty one."""
        with self._step(path, "open for writing"):
            if mode is OpenMode.EXISTING:
                return MemoryFile(path, as_file(self._tree.own_entry(path)), self._session, is_writable=True)
            directory, name = self._tree.way(path)
            if not is_name(name):
                reject(errno.EISDIR)
            found = entry_of(directory, name)
            if found is not None and mode is OpenMode.NEW:
                reject(errno.EEXIST)
            inode = directory.entries[name] = Inode() if found is None else as_file(found)
            return MemoryFile(path, inode, self._session, is_writable=True)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names in order, as every storage does."""
        with self._step(path, "list"):
            return tuple(sorted(as_directory(self._tree.find(path)).entries))

    def kind(self, path: str) -> EntryKind:
        """Return the kind of the entry."""
        return self._kind(path, self._tree.find)

    def own_kind(self, path: str) -> EntryKind:
        """Return the kind of the entry itself."""
        return self._kind(path, self._tree.own_entry)

    def _kind(self, path: str, find: Callable[[str], Entry]) -> EntryKind:
        with self._step(path, "look at"):
            try:
                entry = find(path)
            except (FileNotFoundError, NotADirectoryError):
                return EntryKind.MISSING
        if isinstance(entry, SymbolicLink):
            return EntryKind.LINK
        return EntryKind.FILE if isinstance(entry, Inode) else EntryKind.DIRECTORY

    def link_symbolically(self, target_path: str, path: str) -> None:
        """Put a symbolic link at `path` to an absolute path; no process makes one, so the interface has no call."""
        directory, name = self._tree.way(path)
        directory.entries[name] = SymbolicLink(target_path)

    def mkdir(self, path: str) -> None:
        """Make an empty directory."""
        with self._step(path, "make directory"):
            directory, name = self._tree.way(path)
            if not is_name(name) or entry_of(directory, name) is not None:
                reject(errno.EEXIST)
            directory.entries[name] = Directory(directory)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        with self._step(path, "remove directory"):
            removed = as_directory(self._tree.own_entry(path))
            directory, name = self._tree.way(path)
            if removed.entries or not is_name(name):
                reject(errno.ENOTEMPTY)
            del directory.entries[name]

    def rename(self, source_path: str, target_path: str) -> None:
        """Move a file or directory."""
        with self._step(source_path, f"rename to {target_path}", target_path):
            source_directory, source_name = self._tree.way(source_path)
            target_directory, target_name = self._tree.way(target_path)
            if not (is_name(source_name) and is_name(target_name)):
                reject(errno.EBUSY)
            moved = self._tree.own_entry(source_path)
            replaced = entry_of(target_directory, target_name)
            if replaced is moved:
                return
            if isinstance(moved, Directory):
                if moved.is_at_or_above(target_directory):
                    reject(errno.EINVAL)
                if replaced is not None and as_directory(replaced).entries:
                    reject(errno.ENOTEMPTY)
                moved.parent = target_directory
            elif isinstance(replaced, Directory):
                reject(errno.EISDIR)
            del source_directory.entries[source_name]
            target_directory.entries[target_name] = moved

    def link(self, source_path: str, target_path: str) -> None:
        """Put the inode under a second name."""
        with self._step(source_path, f"link as {target_path}", target_path):
            linked = self._tree.own_entry(source_path)
            directory, name = self._tree.way(target_path)
            if not is_name(name) or entry_of(directory, name) is not None:
                reject(errno.EEXIST)
            if isinstance(linked, Directory):
                reject(errno.EPERM)
            directory.entries[name] = linked

    def unlink(self, path: str) -> None:
        """Remove the name; open files keep the inode."""
        with self._step(path, "unlink"):
            if isinstance(self._tree.own_entry(path), Directory):
                reject(errno.EISDIR)
            directory, name = self._tree.way(path)
            del directory.entries[name]

    def sync_directory(self, path: str) -> None:
        """Count only."""
        self._session.sync("sync directory", path)
        with _OnPath(path, "sync directory"):
            as_directory(self._tree.find(path))

    def load_fence(self) -> None:
        """Count only: every load is in order here."""
        self._session.step("fence loads")

    def store_fence(self) -> None:
        """Count only: every store is in order here."""
        self._session.step("fence stores")

    def monotonic_seconds(self) -> float:
        """Return how long all processes on this disk have slept."""
        self._session.check("ask for the time")
        if self._session.calls is not None:
            self._tree.now_seconds += self._session.calls.lasting_seconds(CLOCK_TICK_SECONDS)
        return self._tree.now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Move the clock without waiting."""
        assert duration_seconds >= 0
        self._session.check("sleep")
        calls = self._session.calls
        self._tree.now_seconds += duration_seconds if calls is None else calls.lasting_seconds(duration_seconds)

    def mapped_by(self, path: str) -> tuple[str, ...]:
        """Return whoever `serve` was called for."""
        return self._tree.mapped_by.get(path, ())

    def serve(self, path: str, process: str) -> None:
        """Let a process that is not one of this disk's map a file."""
        self._tree.mapped_by[path] = (*self.mapped_by(path), process)

    def counters(self) -> Counters:
        """Return the counts of this session."""
        tally = self._session.tally
        return Counters(
            step_count=tally.step_count,
            read_bytes=tally.read_bytes,
            written_bytes=tally.written_bytes,
            sync_count=tally.sync_count,
        )
