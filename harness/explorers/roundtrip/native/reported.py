"""What `verify` reports of a place in a file, without its words, and images whose files cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from tornproof.harness.common.whose_error import needed
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import Problem, StorageError
from tornproof.impl.storage.interface import ReadableFile, StorageReason

Report: TypeAlias = tuple[str, str, int | None, list[str], list[str]]
"""What is reported of a place: file, field, offset, and the numbers and names in what was expected and found."""
REFUSED: Report = ("refused", "", None, [], [])
"""Instead, where a file that is there cannot be read."""
NOT_LOOKED_AT = ["not looked at"]
"""Instead of what was found, in a note."""


class FalteringImage(DiskImage):
    """An image with paths that cannot be read, and files that are said to be longer or shorter than they are."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        refused: frozenset[str] = frozenset(),
        sizes_bytes: Mapping[str, int] | None = None,
        directories: frozenset[str] = frozenset(),
    ) -> None:
        """Take the files, and directories that may be empty."""
        image = DiskImage.of_files(files)
        super().__init__(image.files, image.directories | directories)
        self._refused, self._sizes_bytes = refused, sizes_bytes or {}

    def open_for_reading(self, path: str) -> ReadableFile:
        """Open a file unless it is refused."""
        if path in self._refused:
            raise StorageError(path, "open", StorageReason.INPUT_OUTPUT)
        handle = super().open_for_reading(path)
        return _Resized(handle, self._sizes_bytes[path]) if path in self._sizes_bytes else handle

    def listdir(self, path: str) -> tuple[str, ...]:
        """List a directory unless it is refused."""
        if path in self._refused:
            raise StorageError(path, "list", StorageReason.INPUT_OUTPUT)
        return super().listdir(path)


class _Resized(ReadableFile):
    def __init__(self, handle: ReadableFile, size_bytes: int) -> None:
        self._handle, self._size_bytes = handle, size_bytes

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self._handle.pread(size_bytes, offset_bytes)

    def size_bytes(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        self._handle.close()


def report_of(each: Problem | str) -> Report:
    """Return what is reported of a place, or in a note of what was not looked at."""
    if isinstance(each, str):
        note = needed(re.fullmatch(r"(?:(\S+): )?(?:(.*) was )?not (?:looked at|compared): (.*)", each), each)
        return note[1] or "", note[2] or "", None, words_of(note[3]), NOT_LOOKED_AT
    return each.file, each.field, each.offset_bytes, words_of(each.expected), words_of(each.actual)


def words_of(text: str) -> list[str]:
    """Return the numbers and names of files in a text, and what says that something is not there."""
    return re.findall(r"(?<![^\s,:])(?!UTF)[^\s,:]*[.\d][^\s,:]*|\b(?:null|none|directory|unknown|missing)\b", text)
