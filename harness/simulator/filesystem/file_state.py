"""The content of a file as readers see it, and every content that the disk may hold: an immutable value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

PAGE_BYTES = 4096
REMEMBERED_BYTES_MAX = 1 << 14
"""Of larger files searches remember nothing, because whatever they remember stays in memory."""

Change = TypeVar("Change", bound=Callable[..., "FileState"])


def _remembered(change: Change) -> Change:
    def remembered(state: FileState, *arguments: Any) -> FileState:
        latest = state._latest
        if latest is not None and latest[0] is change and latest[1] == arguments:
            return latest[2]
        changed = change(state, *arguments)
        if changed is not state and len(changed.content) <= REMEMBERED_BYTES_MAX:
            state._latest = change, arguments, changed
        return changed

    return cast(Change, wraps(change)(remembered))


class FileState:
    """`content` is the page cache; `versions` is what the disk may hold: the synced content, then each later one.

    Each change adds the whole file as it is then, so any block may hold what it held in any version. After a failed
    sync the cache holds bytes that no version has, and only a page that is written again reaches the disk.

    It remembers the latest change and what that gave, because searches make the same changes in many orders of calls.
    """

    __slots__ = ("_digest", "_hash", "_latest", "content", "versions")

    def __init__(self, content: bytes = b"", versions: tuple[bytes, ...] | None = None) -> None:
        """Start with `content` on disk."""
        self.content = content
        self.versions = (content,) if versions is None else versions
        self._hash: int | None = None
        self._digest: bytes | None = None
        self._latest: tuple[Callable[..., FileState], tuple[Any, ...], FileState] | None = None

    @property
    def is_durable(self) -> bool:
        """Whether the disk holds the content, and nothing else."""
        return len(self.versions) == 1 and self.versions[0] == self.content

    def digest(self) -> bytes:
        """Return a digest of the content, computed once."""
        if self._digest is None:
            self._digest = hashlib.blake2b(self.content, digest_size=16).digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        """Compare content and versions."""
        return self is other or (
            isinstance(other, FileState) and (self.content, self.versions) == (other.content, other.versions)
        )

    def __hash__(self) -> int:
        """Hash content and versions once."""
        if self._hash is None:
            self._hash = hash((self.content, self.versions))
        return self._hash

    @_remembered
    def written(self, data: bytes, offset_bytes: int) -> FileState:
        """Return the file with `data` at an offset; a gap before it is filled with zeros."""
        old = self.content
        end_bytes = offset_bytes + len(data)
        head = old[:offset_bytes] if offset_bytes <= len(old) else old.ljust(offset_bytes, b"\0")
        return self._followed(head + data + old[end_bytes:], offset_bytes, end_bytes)

    @_remembered
    def resized(self, size_bytes: int) -> FileState:
        """Return the file truncated, or extended with zeros."""
        content = self.content[:size_bytes].ljust(size_bytes, b"\0")
        latest = self.versions[-1]
        if latest is self.content:
            return self if content == latest else FileState(content, (*self.versions, content))
        return FileState(content, (*self.versions, latest[:size_bytes].ljust(size_bytes, b"\0")))

    @_remembered
    def synced(self) -> FileState:
        """Return the file after a sync."""
        return self if len(self.versions) == 1 else FileState(self.content, self.versions[-1:])

    def synced_until(self, end_bytes: int) -> FileState:
        """Return the file after a sync of its first bytes, which guarantees nothing about its size."""
        return self.synced_between(0, end_bytes)

    @_remembered
    def synced_between(self, start_bytes: int, end_bytes: int) -> FileState:
        """Return the file after a sync of the bytes [start, end), which guarantees nothing about its size."""
        latest = self.versions[-1]
        is_whole = not start_bytes and end_bytes >= len(latest)
        if is_whole and all(len(version) == len(latest) for version in self.versions):
            return self.synced()
        reached = latest[start_bytes:end_bytes]
        if end_bytes > len(latest):
            # What is beyond the end of the file is written as zeros in its last page, and not at all in later ones.
            reached = latest.ljust(-(-len(latest) // PAGE_BYTES) * PAGE_BYTES, b"\0")[start_bytes:end_bytes]
        return self._with_versions([_overwritten(version, reached, start_bytes) for version in self.versions])

    def with_size_synced(self) -> FileState:
        """Return the file after a sync of its size."""
        size_bytes = len(self.versions[-1])
        return self._with_versions([version[:size_bytes].ljust(size_bytes, b"\0") for version in self.versions])

    def until(self, end_bytes: int | None) -> FileState:
        """Return its first bytes in each version, with zeros beyond the end of one that is shorter; None for all."""
        if end_bytes is None:
            return self
        versions = tuple(version[:end_bytes].ljust(end_bytes, b"\0") for version in self.versions)
        return FileState(self.content[:end_bytes], versions)

    def failed(self, written: bytes | None = None, end_bytes: int | None = None) -> FileState:
        """Return the file after a failed sync: its pages count as clean; the disk holds `written`, or what it held.

        Pages after the first `end_bytes` are as dirty as before.
        """
        on_disk = self.until(end_bytes).versions[0] if written is None else written
        if end_bytes is None:
            return FileState(self.content, (on_disk,))
        return self._with_versions([_overwritten(version, on_disk, 0) for version in self.versions])

    def _with_versions(self, versions: Sequence[bytes]) -> FileState:
        """Return the file with other versions, each of which is kept once."""
        kept = [version for index, version in enumerate(versions) if not index or version != versions[index - 1]]
        if self.content == kept[-1]:
            kept[-1] = self.content
        return FileState(self.content, tuple(kept))

    def _followed(self, content: bytes, start_bytes: int, end_bytes: int) -> FileState:
        latest = self.versions[-1]
        if latest is self.content:
            if content == latest:
                return self
            return FileState(content, (*self.versions, content))
        start = start_bytes // PAGE_BYTES * PAGE_BYTES
        end = min(-(-end_bytes // PAGE_BYTES) * PAGE_BYTES, len(content))
        latest = latest.ljust(start, b"\0")[:start] + content[start:end] + latest[end:]
        if latest == content:
            latest = content
        return FileState(content, (*self.versions, latest))


def _overwritten(version: bytes, content: bytes, start_bytes: int) -> bytes:
    """Return a version with this content from an offset on, which makes it no longer."""
    content = content[: max(0, len(version) - start_bytes)]
    return version[:start_bytes] + content + version[start_bytes + len(content) :]


def in_pages(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that lie in one page each; an empty range is one part."""
    while True:
        stop = min(end, (start // PAGE_BYTES + 1) * PAGE_BYTES)
        yield start, stop
        if stop >= end:
            return
        start = stop
