"""An immutable copy of a directory tree in memory; a damaged copy is derived at the cost of copying a dict."""

from __future__ import annotations

import functools
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tornproof.impl.errors import FileMissingError, StorageError, UnsupportedError
from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage, StorageReason

NAME_BYTES_MAX = 255
PATHS_REMEMBERED = 4096


class DiskImage(ReadableStorage):
    """Files that never change, with a clock that moves only when a caller sleeps.

    Readers get the same answers and errors as from the operating system on the same tree. A captured tree has the path
    that it was captured from; an absolute path and a relative one never lead to the same file.
    """

    def __init__(
        self,
        files: Mapping[str, bytes] = MappingProxyType({}),
        directories: frozenset[str] = frozenset({"/", "."}),
        links: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        """Share `files` and `directories`, with paths normalised as by `with_file` and `capture`; else start empty.

        `links` are as `with_links` makes them.
        """
        self._files = files
        self._directories = directories
        self._links = links
        self._now_seconds = 0.0
        self._listing: dict[str, list[str]] | None = None

    @classmethod
    def capture(
        cls,
        storage: ReadableStorage,
        path: str,
        *,
        size_bytes_max: int,
        entry_count_max: int = 100_000,
        is_wanted: Callable[[str], bool] = lambda name: True,
    ) -> DiskImage:
        """Copy all regular files below a directory; links are followed; devices, FIFOs and sockets are left out.

        Files whose name is not wanted are empty in the image. Raises `UnsupportedError` before it holds more than
        `size_bytes_max` of content or `entry_count_max` entries.
        """
        files: dict[str, bytes] = {}
        directories = {"/", ".", *walked_paths(path)}
        pending_paths = [path]
        size_bytes = entry_count = 0
        while pending_paths:
            directory_path = pending_paths.pop()
            for name in storage.listdir(directory_path):
                entry_path = f"{directory_path}/{name}"
                entry_count += 1
                if entry_count > entry_count_max:
                    raise _too_much(path, "entries", f"at most {entry_count_max}", f"more, at {entry_path}")
                kind = storage.kind(entry_path)
                if kind is EntryKind.DIRECTORY:
                    directories.add(walked_paths(entry_path)[-1])
                    pending_paths.append(entry_path)
                elif kind is EntryKind.FILE and not is_wanted(name):
                    files[walked_paths(entry_path)[-1]] = b""
                elif kind is EntryKind.FILE:
                    with storage.open_for_reading(entry_path) as file:
                        file_size_bytes = file.size_bytes()
                        size_bytes += file_size_bytes
                        if size_bytes > size_bytes_max:
                            raise _too_much(path, "size", f"at most {size_bytes_max} bytes", f"more, at {entry_path}")
                        files[walked_paths(entry_path)[-1]] = file.pread(file_size_bytes, 0)
        return cls(files, frozenset(directories))

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> DiskImage:
        """Return an image of these files and the directories that they need; raises as `with_file` does."""
        placed: dict[str, bytes] = {}
        directories = {"/", "."}
        for path, content in files.items():
            *way, plain_path = walked_paths(path)
            placed[plain_path] = content
            directories.update(way)
        if not directories.isdisjoint(placed):
            raise StorageError(
                file=min(directories.intersection(placed)),
                operation="put a file there",
                reason=StorageReason.IS_A_DIRECTORY,
            )
        return cls(placed, frozenset(directories))

    @property
    def directories(self) -> frozenset[str]:
        """The normalised paths of all directories."""
        return self._directories

    @property
    def files(self) -> Mapping[str, bytes]:
        """The content of every file by its normalised path, in insertion order."""
        return MappingProxyType(self._files)

    def is_same(self, other: DiskImage) -> bool:
        """Return whether the other has the same names and bytes, and the same names are one file."""
        return (self.files, self.directories, set(self.links)) == (other.files, other.directories, set(other.links))

    @property
    def links(self) -> tuple[tuple[str, ...], ...]:
        """The names of each file that has several, with each of which its content is in `files`."""
        return self._links

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(map(len, self._files.values()))

    def with_file(self, path: str, content: bytes) -> DiskImage:
        """Derive an image in which `path` holds `content`, with the directories that it needs.

        Raises `StorageError` if one of these is a file, or `path` is a directory.
        """
        if path in self._files:
            image = DiskImage(self._changed(path, content), self._directories, self._links)
            image._listing = self._listing
            return image
        *way, plain_path = walked_paths(path)
        if not self._files.keys().isdisjoint(way):
            raise StorageError(file=path, operation="put a file there", reason=StorageReason.NOT_A_DIRECTORY)
        directories = self._directories.union(way)
        if plain_path in directories:
            raise StorageError(file=path, operation="put a file there", reason=StorageReason.IS_A_DIRECTORY)
        return DiskImage(self._changed(plain_path, content), directories, self._links)

    def without_file(self, path: str) -> DiskImage:
        """Derive an image without a file, but with its directory; raises `StorageError` if there is no such file."""
        missing_path, _ = self._file(path, "take the file away")
        files = {plain_path: content for plain_path, content in self._files.items() if plain_path != missing_path}
        links = (tuple(name for name in names if name != missing_path) for names in self._links)
        return DiskImage(files, self._directories, tuple(names for names in links if len(names) > 1))

    def with_links(self, links: Iterable[Iterable[str]]) -> DiskImage:
        """Derive an image in which the names of each group are one file; raises `StorageError` where they cannot be."""
        groups = tuple(tuple(sorted(names)) for names in links)
        every = [name for names in groups for name in names]
        contents = [{self._files.get(name) for name in names} for names in groups]
        if len(set(every)) < len(every) or any(len(held) > 1 or None in held for held in contents):
            raise StorageError(
                file=", ".join(every), operation="keep links", reason="these are not names of one file each"
            )
        return DiskImage(self._files, self._directories, groups)

    def open_for_reading(self, path: str) -> ReadableFile:
        """Open a file of the image."""
        _, content = self._file(path, "open for reading")
        return _ImageFile(path, content)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names from an index that images with the same paths share."""
        directory = self._resolve(path, "list")
        if directory in self._files:
            raise StorageError(file=path, operation="list", reason=StorageReason.NOT_A_DIRECTORY)
        if directory not in self._directories:
            raise FileMissingError(file=path, operation="list", reason=StorageReason.MISSING)
        if self._listing is None:
            self._listing = {}
            for parent, name in map(posixpath.split, (*self._files, *self._directories)):
                if name not in ("", ".", ".."):
                    self._listing.setdefault(parent or ".", []).append(name)
        return tuple(sorted(self._listing.get(directory, ())))

    def kind(self, path: str) -> EntryKind:
        """Return the kind of the entry."""
        try:
            plain_path = self._resolve(path, "look at")
        except StorageError as error:
            if error.reason in (StorageReason.MISSING, StorageReason.NOT_A_DIRECTORY):
                return EntryKind.MISSING
            raise
        if plain_path in self._files:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if plain_path in self._directories else EntryKind.MISSING

    def own_kind(self, path: str) -> EntryKind:
        """Return the same: an image has no links."""
        return self.kind(path)

    def load_fence(self) -> None:
        """Do nothing: files that never change are read in any order."""

    def monotonic_seconds(self) -> float:
        """Return how long this image has slept; a derived image starts at zero."""
        return self._now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Move the clock without waiting."""
        assert duration_seconds >= 0
        self._now_seconds += duration_seconds

    def _changed(self, path: str, content: bytes) -> dict[str, bytes]:
        names = next((names for names in self._links if path in names), (path,))
        return {**self._files, **dict.fromkeys(names, content)}

    def _file(self, path: str, operation: str) -> tuple[str, bytes]:
        if path in self._files:
            # It is normalised already.
            return path, self._files[path]
        plain_path = self._resolve(path, operation)
        if plain_path in self._directories:
            raise StorageError(file=path, operation=operation, reason=StorageReason.IS_A_DIRECTORY)
        if plain_path not in self._files:
            raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
        return plain_path, self._files[plain_path]

    def _resolve(self, path: str, operation: str) -> str:
        """Walk `path` as a kernel does, and return its normalised path, whether or not there is an entry."""
        if not is_usable(path):
            raise StorageError(file=path, operation=operation, reason=StorageReason.NAME_UNUSABLE)
        if not path:
            raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
        walked = walked_paths(path)
        for directory, name in zip(walked, path.split("/"), strict=False):
            if directory in self._files:
                raise StorageError(file=path, operation=operation, reason=StorageReason.NOT_A_DIRECTORY)
            if directory not in self._directories:
                raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
            if len(os.fsencode(name)) > NAME_BYTES_MAX:
                raise StorageError(file=path, operation=operation, reason=StorageReason.NAME_TOO_LONG)
        return walked[-1]


class _ImageFile(ReadableFile):
    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content: bytes | None = content

    def _open_content(self, operation: str) -> bytes:
        if self._content is None:
            raise StorageError(file=self._path, operation=operation, reason=StorageReason.NOT_OPEN)
        return self._content

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        assert size_bytes >= 0 and offset_bytes >= 0
        return self._open_content("read")[offset_bytes : offset_bytes + size_bytes]

    def size_bytes(self) -> int:
        return len(self._open_content("ask for the size"))

    def close(self) -> None:
        self._content = None


def walked_paths(path: str) -> list[str]:
    """Return the normalised path of each directory that a walk along `path` passes, and of its end last."""
    paths = ["/" if path.startswith("/") else "."]
    for name in path.split("/"):
        paths.append(posixpath.normpath(posixpath.join(paths[-1], name)))
    return paths


@functools.lru_cache(maxsize=PATHS_REMEMBERED)
def is_usable(path: str) -> bool:
    """Say whether a path can be passed to a system call."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _too_much(path: str, field: str, expected: str, actual: str) -> UnsupportedError:
    return UnsupportedError(file=path, field=field, offset_bytes=None, expected=expected, actual=actual)
