"""What a disk in memory holds: directories, and files whose bytes are shared between copies until a write."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Iterator
from typing import NoReturn, TypeAlias

from tornproof.harness.simulator.filesystem.image import NAME_BYTES_MAX, DiskImage
from tornproof.harness.simulator.filesystem.locks import LockTable
from tornproof.impl.errors import StorageError


class Inode:
    """The bytes of a file and its locks."""

    __slots__ = ("_content", "_digest", "_frozen", "_outgrown", "locks")

    def __init__(self, content: bytes = b"") -> None:
        """Share `content`."""
        self._content: bytes | bytearray = content
        self._frozen: bytes | None = content
        self._digest: bytes | None = None
        self._outgrown: list[bytearray] = []
        self.locks = LockTable()

    @property
    def size_bytes(self) -> int:
        """The current size."""
        return len(self._content)

    def copy(self) -> Inode:
        """Return an unlocked inode with the same bytes."""
        copied = Inode(self.frozen())
        copied._digest = self._digest
        return copied

    def frozen(self) -> bytes:
        """Return the current bytes, cached until the next change."""
        if self._frozen is None:
            self._frozen = bytes(self._content)
        return self._frozen

    def digest(self) -> bytes:
        """Return a digest of the bytes, cached until the next change."""
        if self._digest is None:
            self._digest = hashlib.blake2b(self._content, digest_size=16).digest()
        return self._digest

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Return the part of a range that exists."""
        return bytes(self._content[offset_bytes : offset_bytes + size_bytes])

    def write(self, content: bytes, offset_bytes: int) -> None:
        """Write bytes at an offset; a gap before it is filled with zeros."""
        if offset_bytes + len(content) > len(self._content):
            self.resize(offset_bytes + len(content))
        self._change()[offset_bytes : offset_bytes + len(content)] = content
        for buffer in self._outgrown:
            part = content[: max(0, len(buffer) - offset_bytes)]
            buffer[offset_bytes : offset_bytes + len(part)] = part

    def resize(self, size_bytes: int) -> None:
        """Truncate, or extend with zeros."""
        content = self._change()
        try:
            content.extend(bytes(max(0, size_bytes - len(content))))
            del content[size_bytes:]
        except BufferError:  # a lease pins this buffer, and must still see later writes
            self._outgrown.append(content)
            self._content = content[:size_bytes].ljust(size_bytes, b"\0")

    def lease(self, size_bytes: int, offset_bytes: int) -> memoryview:
        """Return a read-only view that sees later writes."""
        return memoryview(self._thawed())[offset_bytes : offset_bytes + size_bytes].toreadonly()

    def _thawed(self) -> bytearray:
        if isinstance(self._content, bytes):
            self._content = bytearray(self._content)
        return self._content

    def _change(self) -> bytearray:
        self._frozen = self._digest = None
        return self._thawed()


class SymbolicLink:
    """An absolute path that a walk goes on from; links in a circle are not made."""

    __slots__ = ("target_path",)

    def __init__(self, target_path: str) -> None:
        """Lead to a path, whether or not something is there."""
        assert target_path.startswith("/")
        self.target_path = target_path


class Directory:
    """Names; the parent of a root is itself."""

    __slots__ = ("entries", "parent")

    def __init__(self, parent: Directory | None) -> None:
        """Start without names."""
        self.entries: dict[str, Entry] = {}
        self.parent = parent or self

    def is_at_or_above(self, directory: Directory) -> bool:
        """Say whether this is `directory` or one above it."""
        while directory is not self and directory.parent is not directory:
            directory = directory.parent
        return directory is self


Entry: TypeAlias = Inode | Directory | SymbolicLink


class Tree:
    """Everything on a disk, and its clock. Absolute and relative paths have separate roots.

    Walking a path raises the OSError that a kernel would give.
    """

    def __init__(self) -> None:
        """Start empty, at zero seconds."""
        self._roots = {"/": Directory(None), ".": Directory(None)}
        self.now_seconds = 0.0
        self.mapped_by: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, image: DiskImage) -> Tree:
        """Share the content of an image; raises `StorageError` if it has files above its working directory."""
        tree = cls()
        pending_paths = ["/", "."]
        missing_paths = set(image.files)
        for directory_path in pending_paths:
            for name in image.listdir(directory_path):
                path = posixpath.normpath(posixpath.join(directory_path, name))
                directory, _ = tree.way(path)
                if path in missing_paths:
                    missing_paths.remove(path)
                    directory.entries[name] = Inode(image.files[path])
                else:
                    directory.entries[name] = Directory(directory)
                    pending_paths.append(path)
        if missing_paths:
            raise StorageError(
                file=min(missing_paths), operation="keep it in memory", reason="it is above the working directory"
            )
        return tree

    def image(self) -> DiskImage:
        """Return an immutable copy, without symbolic links; two names of one file become two files."""
        files: dict[str, bytes] = {}
        directories = {"/", "."}
        for path, entry in self._paths():
            if isinstance(entry, Inode):
                files[path] = entry.frozen()
            elif isinstance(entry, Directory):
                directories.add(path)
        return DiskImage(files, frozenset(directories))

    def copy(self) -> Tree:
        """Return a separate tree with the same names and bytes, unlocked, at zero seconds."""
        copied = Tree()
        inodes: dict[Inode, Inode] = {}
        pending = [(root, copied._roots[name]) for name, root in self._roots.items()]
        for source, target in pending:
            for name, entry in source.entries.items():
                if isinstance(entry, Inode):
                    if entry not in inodes:
                        inodes[entry] = entry.copy()
                    target.entries[name] = inodes[entry]
                elif isinstance(entry, SymbolicLink):
                    target.entries[name] = entry
                else:
                    target.entries[name] = made = Directory(target)
                    pending.append((entry, made))
        return copied

    def digest(self) -> bytes:
        """Return a digest of names, bytes, and which names are one file."""
        numbers: dict[Inode, int] = {}
        total = hashlib.blake2b(digest_size=16)
        for path, entry in sorted(self._paths(), key=lambda pair: pair[0]):
            total.update(path.encode("utf-8", "surrogateescape") + b"\0")
            if isinstance(entry, Inode):
                total.update(b"%d " % numbers.setdefault(entry, len(numbers)) + entry.digest())
            elif isinstance(entry, SymbolicLink):
                total.update(f"-> {entry.target_path}".encode("utf-8", "surrogateescape") + b"\0")
        return total.digest()

    def find(self, path: str) -> Inode | Directory:
        """Return the entry at a path, links followed."""
        return self._followed(self.own_entry(path))

    def own_entry(self, path: str) -> Entry:
        """Return the entry at a path, which may be a link."""
        return _step(*self.way(path))

    def _followed(self, entry: Entry) -> Inode | Directory:
        if isinstance(entry, SymbolicLink):
            return self._followed(self.own_entry(entry.target_path))
        return entry

    def way(self, path: str) -> tuple[Directory, str]:
        """Return the directory of a path's last name, and that name, which may be empty or dots and need not exist."""
        if not path:
            reject(errno.ENOENT)
        *way, last = path.split("/")
        entry: Inode | Directory = self._roots["/" if path.startswith("/") else "."]
        for name in way:
            entry = self._followed(_step(entry, name))
        return as_directory(entry), last

    def _paths(self) -> Iterator[tuple[str, Entry]]:
        """Yield every entry below the roots with its normalised path."""
        pending = [("/", self._roots["/"]), ("", self._roots["."])]
        for prefix, directory in pending:
            for name, entry in directory.entries.items():
                yield prefix + name, entry
                if isinstance(entry, Directory):
                    pending.append((f"{prefix}{name}/", entry))


def entry_of(directory: Directory, name: str) -> Entry | None:
    """Return the entry of this name, or None; raises OSError for a name that is too long."""
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        reject(errno.ENAMETOOLONG)
    return directory.entries.get(name)


def is_name(name: str) -> bool:
    """Say whether the last part of a path is a name that an entry can have."""
    return name not in ("", ".", "..")


def as_file(entry: Entry) -> Inode:
    """Return the entry, or raise the error of a kernel that needs a file and follows no link."""
    if isinstance(entry, Directory):
        reject(errno.EISDIR)
    if isinstance(entry, SymbolicLink):
        reject(errno.ELOOP)
    return entry


def as_directory(entry: Entry) -> Directory:
    """Return the entry, or raise the error of a kernel that needs a directory."""
    if not isinstance(entry, Directory):
        reject(errno.ENOTDIR)
    return entry


def reject(number: int) -> NoReturn:
    """Raise the system's error of this number."""
    raise OSError(number, os.strerror(number))


def _step(entry: Entry, name: str) -> Entry:
    directory = as_directory(entry)
    if name in ("", "."):
        return directory
    if name == "..":
        return directory.parent
    return entry_of(directory, name) or reject(errno.ENOENT)
