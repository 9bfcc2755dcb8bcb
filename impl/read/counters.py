"""Counters of a read: row groups skipped and why, chunks decoded, bytes of data.parquet read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.query.pruning import Reason
from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage
from tornproof.impl.table.partition import PartitionFiles


class ReadCounters(msgspec.Struct):
    """Updated during a read; native partitions are not counted.

    `scanned_row_count` counts the rows of the row groups that were not skipped, `data_bytes` the committed bytes of all
    data.parquet and `read_bytes` those of them that were read, for values and for bloom filters.
    """

    row_group_count: int = 0
    pruned: Counter[Reason] = msgspec.field(default_factory=Counter)
    scanned_row_count: int = 0
    returned_row_count: int = 0
    chunk_count: int = 0
    read_bytes: int = 0
    data_bytes: int = 0

    @property
    def kept_row_group_count(self) -> int:
        """The row groups that were not skipped."""
        return self.row_group_count - self.pruned.total()

    def watched(self, files: PartitionFiles) -> PartitionFiles:
        """Return the same files, counting here what is read of data.parquet."""
        return replace(files, storage=_WatchedStorage(files.storage, self))


class _WatchedStorage(msgspec.Struct, frozen=True):
    inner: ReadableStorage
    counters: ReadCounters

    def open_for_reading(self, path: str) -> ReadableFile:
        opened = self.inner.open_for_reading(path)
        return _WatchedFile(opened, self.counters) if path.endswith(f"/{DATA_FILE}") else opened

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.inner.listdir(path)

    def kind(self, path: str) -> EntryKind:
        return self.inner.kind(path)

    def own_kind(self, path: str) -> EntryKind:
        return self.inner.own_kind(path)

    def load_fence(self) -> None:
        self.inner.load_fence()

    def monotonic_seconds(self) -> float:
        return self.inner.monotonic_seconds()

    def sleep_seconds(self, duration_seconds: float) -> None:
        self.inner.sleep_seconds(duration_seconds)


@dataclass(frozen=True, slots=True)
class _WatchedFile(ReadableFile):
    inner: ReadableFile
    counters: ReadCounters

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        content = self.inner.pread(size_bytes, offset_bytes)
        self.counters.read_bytes += len(content)
        return content

    def size_bytes(self) -> int:
        return self.inner.size_bytes()

    def close(self) -> None:
        self.inner.close()
