"""A frozen copy of a directory tree in memory, from which damaged copies are derived for the price of a dict copy."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Self

from tornproof.impl.errors import FileMissingError, StorageError, UnsupportedError
from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage, StorageReason

_NAME_BYTES_MAX = 255


class DiskImage(ReadableStorage):
    """Files that never change, with a clock that moves only when somebody sleeps.

    To a reader it looks like the operating system with the same tree: the same answers, refusals and words. A captured
    tree is found under the path that it was captured from; an absolute spelling and a relative one are two places.
    """

    def __init__(
        self, files: Mapping[str, bytes] = MappingProxyType({}), directories: frozenset[str] = frozenset({"/", "."})
    ) -> None:
        """Share `files` and `directories`, both spelled as `with_file` and `capture` spell them; else start empty."""
        self._files = files
        self._directories = directories
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
        """Copy all regular files below a directory; links are followed, devices, FIFOs and sockets left out.

        Files whose name is not wanted are there, but empty. Raises `UnsupportedError` before it holds more than
        `size_bytes_max` of content or `entry_count_max` entries.
        """
        files: dict[str, bytes] = {}
        directories = {"/", ".", *_positions(path)}
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
                    directories.add(_positions(entry_path)[-1])
                    pending_paths.append(entry_path)
                elif kind is EntryKind.FILE and not is_wanted(name):
                    files[_positions(entry_path)[-1]] = b""
                elif kind is EntryKind.FILE:
                    with storage.open_for_reading(entry_path) as file:
                        file_size_bytes = file.size_bytes()
                        size_bytes += file_size_bytes
                        if size_bytes > size_bytes_max:
                            raise _too_much(path, "size", f"at most {size_bytes_max} bytes", f"more, at {entry_path}")
                        files[_positions(entry_path)[-1]] = file.pread(file_size_bytes, 0)
        return cls(files, frozenset(directories))

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> DiskImage:
        """Return an image of these files and the directories that they need; raises as `with_file` does."""
        placed: dict[str, bytes] = {}
        directories = {"/", "."}
        for path, content in files.items():
            *way, position = _positions(path)
            placed[position] = content
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
        """All directories, as files are spelled."""
        return self._directories

    @property
    def files(self) -> Mapping[str, bytes]:
        """The content of every file by its path, in the order in which they came in."""
        return MappingProxyType(self._files)

    def with_file(self, path: str, content: bytes) -> DiskImage:
        """Derive an image in which `path` holds `content`; all other files, and this image, stay as they are.

        Directories on the way come into being. Raises `StorageError` where one of them is a file, or `path` is none.
        """
        if path in self._files:
            image = DiskImage({**self._files, path: content}, self._directories)
            image._listing = self._listing
            return image
        *way, position = _positions(path)
        if not self._files.keys().isdisjoint(way):
            raise StorageError(file=path, operation="put a file there", reason=StorageReason.NOT_A_DIRECTORY)
        directories = self._directories.union(way)
        if position in directories:
            raise StorageError(file=path, operation="put a file there", reason=StorageReason.IS_A_DIRECTORY)
        return DiskImage({**self._files, position: content}, directories)

    def without_file(self, path: str) -> DiskImage:
        """Derive an image in which the file is missing, though not its directory; refused where there is no file."""
        missing_position, _ = self._file(path, "take the file away")
        files = {position: content for position, content in self._files.items() if position != missing_position}
        return DiskImage(files, self._directories)

    def open_for_reading(self, path: str) -> ReadableFile:
        """Open a file of the image."""
        _, content = self._file(path, "open for reading")
        return _ImageFile(path, content)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Look the names up in an index, which images with the same paths share."""
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
        """Look at the entry."""
        try:
            position = self._resolve(path, "look at")
        except StorageError as error:
            if error.reason in (StorageReason.MISSING, StorageReason.NOT_A_DIRECTORY):
                return EntryKind.MISSING
            raise
        if position in self._files:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if position in self._directories else EntryKind.MISSING

    def monotonic_seconds(self) -> float:
        """Return how long this image has slept; a derived image starts at zero."""
        return self._now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Move the clock without waiting."""
        assert duration_seconds >= 0
        self._now_seconds += duration_seconds

    def _file(self, path: str, operation: str) -> tuple[str, bytes]:
        if path in self._files:
            # Spelled as its place is, so there is nothing to walk.
            return path, self._files[path]
        position = self._resolve(path, operation)
        if position in self._directories:
            raise StorageError(file=path, operation=operation, reason=StorageReason.IS_A_DIRECTORY)
        if position not in self._files:
            raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
        return position, self._files[position]

    def _resolve(self, path: str, operation: str) -> str:
        """Walk `path` as a kernel does, and return the place where it ends, whatever may be there."""
        if "\0" in path or not _is_encodable(path):
            raise StorageError(file=path, operation=operation, reason=StorageReason.NAME_UNUSABLE)
        if not path:
            raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
        positions = _positions(path)
        for directory, name in zip(positions, path.split("/"), strict=False):
            if directory in self._files:
                raise StorageError(file=path, operation=operation, reason=StorageReason.NOT_A_DIRECTORY)
            if directory not in self._directories:
                raise FileMissingError(file=path, operation=operation, reason=StorageReason.MISSING)
            if len(os.fsencode(name)) > _NAME_BYTES_MAX:
                raise StorageError(file=path, operation=operation, reason=StorageReason.NAME_TOO_LONG)
        return positions[-1]


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _positions(path: str) -> list[str]:
    """Return every place that a walk along `path` meets, its end last, each spelled in its one way."""
    positions = ["/" if path.startswith("/") else "."]
    for name in path.split("/"):
        positions.append(posixpath.normpath(posixpath.join(positions[-1], name)))
    return positions


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _too_much(path: str, field: str, expected: str, actual: str) -> UnsupportedError:
    return UnsupportedError(file=path, field=field, offset_bytes=None, expected=expected, actual=actual)
