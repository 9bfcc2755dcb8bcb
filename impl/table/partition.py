"""One parquet partition of a committed version: its `_pm`, resolved and checked, and its data.parquet."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, FileMissingError, Problem, StorageError, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, ParquetTail
from tornproof.impl.layout.txn import SEQ_TXN_BITS, SEQ_TXN_MARK
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata, Resolved, TokenMissingError, decode_metadata, resolve
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.footer import GENERATION_END_MINIMUM, FooterPosition, locate_footer
from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage
from tornproof.impl.txn.transaction import TXN_FILE, Partition

PM_FILE = "_pm"
COLUMN_FILE_SUFFIX = ".d"
SIZE_FIELD = "size"
TAIL_BYTES = ParquetTail.layout.size_bytes
GAP_MAX_BYTES = 1 << 10
"""Servers write a copy of each chunk's metadata behind it; a call takes longer than to read so much for nothing."""


class PartitionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of a partition at `path`; `name` is used in errors."""

    storage: ReadableStorage
    path: str
    name: str

    @property
    def pm_label(self) -> str:
        """The name of `_pm` in errors."""
        return f"{self.name}/{PM_FILE}"

    @property
    def data_label(self) -> str:
        """The name of data.parquet in errors."""
        return f"{self.name}/{DATA_FILE}"

    def has_pm(self) -> bool:
        """Return whether anything exists at the path of `_pm`."""
        return self.storage.kind(f"{self.path}/{PM_FILE}") is not EntryKind.MISSING

    def open_data(self) -> ReadableFile:
        """Open data.parquet; raises CorruptError if it is missing, because `_txn` names it."""
        return self._open(DATA_FILE, self.data_label)

    def open_pm(self) -> ReadableFile:
        """Open `_pm`; raises CorruptError if it is missing, because `_txn` names it."""
        return self._open(PM_FILE, self.pm_label)

    def _open(self, file_name: str, label: str) -> ReadableFile:
        path = f"{self.path}/{file_name}"
        try:
            return self.storage.open_for_reading(path)
        except FileMissingError as error:
            raise CorruptError(label, "file", None, f"a file, because {TXN_FILE} names it", "none") from error
        except StorageError as error:
            if self.storage.kind(path) is EntryKind.FILE:
                raise
            raise CorruptError(label, "file", None, "a regular file", error.reason) from error


class PublishedMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of `_pm` up to the published size, and the actual size of the file."""

    content: bytes
    file_size_bytes: int


class ResolvedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition with its committed generation; no file is kept open."""

    files: PartitionFiles
    partition: Partition
    published: PublishedMetadata
    resolved: Resolved
    metadata: Metadata


def read_published(files: PartitionFiles) -> PublishedMetadata:
    """Read `_pm` up to the size that its header publishes; the file's own size is only used to reject that.

    Raises CorruptError, and UnsupportedError above 64 MiB.
    """
    label = files.pm_label
    field = layout.Header.layout.field("parquet_meta_file_size")
    with files.open_pm() as handle:
        head = handle.pread(field.wire.size_bytes, field.offset_bytes)
        published = int.from_bytes(head, "little")
        file_size_bytes = handle.size_bytes()
        if len(head) < field.wire.size_bytes or not GENERATION_END_MINIMUM <= published <= file_size_bytes:
            expected = f"{GENERATION_END_MINIMUM} to {file_size_bytes}, the size of the file"
            actual = published if len(head) == field.wire.size_bytes else f"only {len(head)} bytes"
            raise CorruptError(label, field.format_name, field.offset_bytes, expected, actual)
        if published > limits.PM_LIMIT_BYTES:
            expected = f"at most {limits.PM_LIMIT_BYTES}"
            raise UnsupportedError(label, field.format_name, field.offset_bytes, expected, published)
        content = handle.pread(published, 0)
        if len(content) < published:
            expected = f"{published} bytes, as the header says"
            raise CorruptError(label, "size", None, expected, f"{len(content)}: the file was cut while it was read")
        return PublishedMetadata(content=content, file_size_bytes=file_size_bytes)


def resolve_partition(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Find and decode the committed generation: chain walk, CRC, structure; raises CorruptError, UnsupportedError."""
    published = read_published(files)
    label = files.pm_label
    try:
        resolved = resolve(published.content, partition.token, file=label)
    except TokenMissingError as error:
        raise _token_missing(files, partition, published, error) from error
    metadata = decode_metadata(published.content, resolved.position, file=label)
    return ResolvedPartition(
        files=files, partition=partition, published=published, resolved=resolved, metadata=metadata
    )


def check_partition(resolved: ResolvedPartition) -> Iterator[Problem]:
    """Yield what contradicts the committed generation, without reading a page.

    Checked are the consistency of `_pm`, the row count in `_txn`, and the size and last bytes of data.parquet
    (docs/format.md).
    """
    metadata, partition, files = resolved.metadata, resolved.partition, resolved.files
    yield from check_metadata(resolved.published.content, metadata, file=files.pm_label)
    if metadata.row_count != partition.row_count:
        expected = f"{metadata.row_count}, the rows of its row groups"
        actual = str(partition.row_count)
        yield Problem(TXN_FILE, f"ROW_COUNT of {files.name}", partition.row_count_offset_bytes, expected, actual)
    yield from check_data_size(resolved)


def check_data_size(resolved: ResolvedPartition) -> Iterator[Problem]:
    """Yield what is wrong with the size and the last bytes of data.parquet; raises CorruptError if it is missing."""
    footer_length = resolved.metadata.generation.position.fixed.parquet_footer_length
    yield from _check_data(resolved.files, resolved.partition.token, footer_length)


def check_unmigrated(files: PartitionFiles, partition: Partition) -> Iterator[Problem]:
    """Yield what is wrong with a partition of a release without `_pm`: data.parquet must exist and end at the token.

    This distinguishes it from a native partition with a damaged flag. Raises UnsupportedError if a server has the file
    elsewhere.
    """
    if partition.is_remote and files.storage.kind(f"{files.path}/{DATA_FILE}") is EntryKind.MISSING:
        actual = "none: the partition is remote, and a server has its file elsewhere"
        raise UnsupportedError(files.data_label, "file", None, "a file", actual)
    if partition.token < TAIL_BYTES:
        expected = f"at least {TAIL_BYTES}, because the entry of {files.name} says parquet"
        yield Problem(TXN_FILE, "token", partition.token_offset_bytes, expected, str(partition.token))
        return
    try:
        yield from _check_data(files, partition.token, None)
    except CorruptError as error:
        yield error.problem


def check_native(files: PartitionFiles, partition: Partition) -> Iterator[Problem]:
    """Yield what contradicts that the partition is native: rows of one that is not would silently be missing."""
    has_seq_txn = partition.token >> SEQ_TXN_BITS == SEQ_TXN_MARK
    if partition.token > 0 and not has_seq_txn and not partition.parquet_was_generated:
        expected = f"-1, 0 or a SEQ_TXN, because the flags say that there is no {DATA_FILE}"
        yield Problem(TXN_FILE, f"TOKEN of {files.name}", partition.token_offset_bytes, expected, str(partition.token))
    if files.storage.kind(files.path) is not EntryKind.DIRECTORY:
        return
    names = files.storage.listdir(files.path)
    # The file of a column that was added or renamed has the number of that behind its name.
    if DATA_FILE in names and not any(f"{COLUMN_FILE_SUFFIX}." in f"{name}." for name in names):
        expected = f"1, because the directory holds {DATA_FILE} and no column file"
        yield Problem(TXN_FILE, f"PARQUET_FORMAT of {files.name}", partition.flags_offset_bytes, expected, "0")


def read_chunk(handle: ReadableFile, chunk: Chunk, *, file: str) -> bytes:
    """Read the bytes of one column chunk; CorruptError if the file ends before it, UnsupportedError above 128 MiB."""
    if chunk.total_compressed > limits.CHUNK_LIMIT_BYTES:
        expected = f"at most {limits.CHUNK_LIMIT_BYTES} bytes"
        raise UnsupportedError(file, "column chunk", chunk.byte_range_start, expected, chunk.total_compressed)
    content = handle.pread(chunk.total_compressed, chunk.byte_range_start)
    if len(content) < chunk.total_compressed:
        expected = f"{chunk.total_compressed} bytes"
        actual = f"{len(content)} bytes before the file ends"
        raise CorruptError(file, "column chunk", chunk.byte_range_start, expected, actual)
    return content


def read_chunks(handle: ReadableFile, chunks: Sequence[Chunk], *, file: str) -> Iterator[bytes]:
    """Yield the bytes of each chunk, all of them small; those that are close together in the file are read by one call.

    Raises as `read_chunk` does when it is the first chunk's turn that cannot be read.
    """
    found: dict[int, bytes] = {}
    ordered = sorted({chunk.byte_range_start: chunk.byte_range_end for chunk in chunks}.items())
    gaps = [start - end_before for (_, end_before), (start, _) in itertools.pairwise(ordered)]
    breaks = [place for place, gap_bytes in enumerate(gaps, 1) if not 0 <= gap_bytes <= GAP_MAX_BYTES]
    for first, behind in itertools.pairwise([0, *breaks, len(ordered)]):
        run = ordered[first:behind]
        start, end = run[0][0], run[-1][1]
        try:
            content = handle.pread(end - start, start)
        except StorageError:
            continue
        found.update({each: content[each - start : each_end - start] for each, each_end in run})
    for chunk in chunks:
        content = found.get(chunk.byte_range_start, b"")
        yield content if len(content) == chunk.total_compressed else read_chunk(handle, chunk, file=file)


def _check_data(files: PartitionFiles, token: int, footer_length: int | None) -> Iterator[Problem]:
    """Yield what is wrong with the size and the last bytes of data.parquet; raises CorruptError if it is missing."""
    label = files.data_label
    with files.open_data() as handle:
        size_bytes = handle.size_bytes()
        # The file may be truncated after its size was read.
        tail = handle.pread(TAIL_BYTES, token - TAIL_BYTES) if token <= size_bytes else b""
    if len(tail) < TAIL_BYTES:
        expected = f"{token} bytes or more, the committed token"
        actual = f"{size_bytes} bytes" if size_bytes < token else "a file that was cut meanwhile"
        yield Problem(label, SIZE_FIELD, None, expected, actual)
        return
    start = token - TAIL_BYTES
    parsed = ParquetTail.unpack(tail, 0, file=label)
    if parsed.magic != MAGIC:
        offset_bytes = start + ParquetTail.layout.offset_of("magic")
        yield Problem(label, "MAGIC", offset_bytes, str(MAGIC), str(parsed.magic))
    if footer_length is not None and parsed.footer_length != footer_length:
        yield Problem(label, "FOOTER_LENGTH", start, f"{footer_length}, as _pm says", str(parsed.footer_length))


def _token_missing(
    files: PartitionFiles, partition: Partition, published: PublishedMetadata, error: TokenMissingError
) -> CorruptError:
    """Return the error, which says if the generation is in the file but behind the published size."""
    actual = str(partition.token)
    unpublished = _unpublished_generation(files, published)
    if unpublished is not None and unpublished.token == partition.token:
        actual += (
            f"; a generation with this token ends at byte {unpublished.end_bytes} of {files.pm_label}, "
            f"behind the {len(published.content)} that its header publishes"
        )
    return CorruptError(
        TXN_FILE, "token", partition.token_offset_bytes, f"{error.problem.expected} in {files.pm_label}", actual
    )


def _unpublished_generation(files: PartitionFiles, published: PublishedMetadata) -> FooterPosition | None:
    if not len(published.content) < published.file_size_bytes <= limits.PM_LIMIT_BYTES:
        return None
    with files.open_pm() as handle:
        content = handle.pread(published.file_size_bytes, 0)
    try:
        return locate_footer(content, len(content), file=files.pm_label)
    except CorruptError:
        return None
