"""How other releases read: which generation they take, and which checks they omit (docs/presets.md)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tornproof.impl.errors import CorruptError, Problem
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.chain import Resolved, check_checksum, decode_metadata
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition, resolve_partition
from tornproof.impl.txn.transaction import Partition


class PinnedFiles(PartitionFiles, frozen=True, kw_only=True):
    """The files of a partition, with data.parquet mapped exactly up to the length that a version has for it."""

    data_length_bytes: int

    def open_data(self) -> ReadableFile:
        """Open data.parquet; reading a range that ends after the pinned length raises CorruptError."""
        return _PinnedFile(PartitionFiles.open_data(self), self.data_label, self.data_length_bytes)


class _PinnedFile(ReadableFile):
    def __init__(self, inner: ReadableFile, label: str, length_bytes: int) -> None:
        self._inner = inner
        self._label = label
        self._length_bytes = length_bytes

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        end_bytes = offset_bytes + size_bytes
        if end_bytes > self._length_bytes:
            raise CorruptError(
                file=self._label,
                field="column chunk range",
                offset_bytes=offset_bytes,
                expected=f"bytes before {self._length_bytes}, the committed length",
                actual=f"Column chunk range {offset_bytes}..{end_bytes} exceeds data length {self._length_bytes}",
            )
        return self._inner.pread(size_bytes, offset_bytes)

    def size_bytes(self) -> int:
        return min(self._inner.size_bytes(), self._length_bytes)

    def close(self) -> None:
        self._inner.close()


def by_newest(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Look the token up, but take the newest generation (docs/presets.md).

    Its CRC is checked too. Raises CorruptError and UnsupportedError.
    """
    committed = resolve_partition(files, partition)
    return replace(
        _newest(committed),
        files=PinnedFiles(
            storage=files.storage, path=files.path, name=files.name, data_length_bytes=max(partition.token, 0)
        ),
    )


def by_header(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Take the newest generation, committed or not, with its whole files, as the specification permits writers."""
    return _newest(resolve_partition(files, partition))


def unchecked(_: ResolvedPartition) -> Iterator[Problem]:
    """Do not compare the row count and the end of data.parquet with the resolved generation."""
    return iter(())


def without_statistics(block: Block) -> Block:
    """Drop counts and bounds, so that values which contradict them are returned (docs/presets.md)."""
    chunks = (
        replace(chunk, null_count=None, distinct_count=None, minimum=None, maximum=None) for chunk in block.chunks
    )
    return replace(block, chunks=tuple(chunks))


def _newest(committed: ResolvedPartition) -> ResolvedPartition:
    content, label = committed.published.content, committed.files.pm_label
    position = locate_footer(content, len(content), file=label)
    check_checksum(content, position, file=label)
    return replace(
        committed,
        resolved=Resolved(position=position, orphan_count=0),
        metadata=decode_metadata(content, position, file=label),
    )


BY_TOKEN = ReaderProtocol(resolve=resolve_partition, check=unchecked, described=without_statistics)
BY_NEWEST = ReaderProtocol(resolve=by_newest, check=unchecked, described=without_statistics)
BY_HEADER = ReaderProtocol(resolve=by_header, check=unchecked, described=without_statistics)
