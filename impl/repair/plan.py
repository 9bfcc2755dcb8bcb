"""What offline recovery writes: a `_pm` that ends with the committed generation, found anywhere in the old file.

It is verified together with data.parquet, down to the pages, before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, Problem, ProblemError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.pm.block import decode_bitset
from tornproof.impl.pm.chain import CHECKSUM_START, Metadata, decode_chain, decode_metadata
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file, patch_header
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.pm.footer import (
    GENERATION_END_MINIMUM,
    TRAILER_BYTES,
    BloomReference,
    FooterPosition,
    locate_footer,
)
from tornproof.impl.storage.checksum import crc32
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition import TAIL_BYTES, PartitionFiles, resolve_partition
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.verify import Counts, verify_partition

WINDOW_WORDS = 1 << 20
WORD_BYTES = 4
MOVABLE_SECTIONS = layout.SEQ_TXN.mask | layout.SCRATCHPAD.mask


class CommittedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A whole `_pm` whose newest generation is the committed one.

    `is_rewritten` means that this generation was encoded anew; `keeps_dead_bytes` that it could not be.
    """

    content: bytes
    is_rewritten: bool = False
    keeps_dead_bytes: bool = False


def find_committed(
    files: PartitionFiles, partition: Partition, metadata: TableMetadata | None
) -> CommittedFile | tuple[Problem, ...]:
    """Return the `_pm` that the partition should have, verified with its data.parquet, or why there is none.

    The published chain is searched first, then all bytes of the file. Raises StorageError.
    """
    problems: tuple[Problem, ...] = ()
    try:
        for content, location in _candidates(files, partition):
            try:
                found = committed_file(content, location, file=files.pm_label)
                repaired = ProposedFiles(storage=files.storage, path=files.path, name=files.name, pm=found.content)
                judged = verify_partition(repaired, partition, counts=Counts(), metadata=metadata).problems
            except ProblemError as error:
                judged = (error.problem,)
            else:
                if not judged:
                    return found
            problems = problems or judged
        return problems or verify_partition(files, partition, counts=Counts(), metadata=metadata).problems
    except ProblemError as error:
        return problems or (error.problem,)


def committed_file(data: bytes, location: FooterPosition, *, file: str) -> CommittedFile:
    """Return the `_pm` that ends with the generation at `location` in `data` and has no dead bytes (docs/recover.md).

    If the generation's chain skips orphans or is broken, it is encoded alone, unless it has unknown sections, which
    cannot be moved. Raises CorruptError, UnsupportedError.
    """
    content = patch_header(location.end_bytes) + data[CHECKSUM_START : location.end_bytes]
    metadata = decode_metadata(content, location, file=file)
    if _is_all_reached(content, file=file):
        return CommittedFile(content=content)
    if metadata.header.unknown_optional_flags or location.fixed.footer_feature_flags & ~MOVABLE_SECTIONS:
        return CommittedFile(content=content, keeps_dead_bytes=True)
    return CommittedFile(content=_encode_alone(content, metadata, file=file), is_rewritten=True)


def whole_generations(data: bytes, parquet_footer_offset: int, parquet_footer_length: int) -> list[FooterPosition]:
    """Return the generations that name this Thrift footer and have a valid CRC, the last one first.

    They are found at any offset, at most 65,536 of them, independently of the header and the chain.
    """
    locations = []
    position, running = CHECKSUM_START, 0
    for end_bytes in _ends(data, _footer_starts(data, parquet_footer_offset, parquet_footer_length)):
        running = crc32(memoryview(data)[position : end_bytes - TRAILER_BYTES], running)
        position = end_bytes - TRAILER_BYTES
        with suppress(CorruptError):
            location = locate_footer(data, end_bytes, file="_pm")
            if location.trailer.checksum == running:
                locations.append(location)
    return locations[::-1]


def _candidates(files: PartitionFiles, partition: Partition) -> Iterator[tuple[bytes, FooterPosition]]:
    """Yield bytes of `_pm` and a generation in them with the token, the most likely first."""
    published_end = None
    with suppress(CorruptError):
        published = resolve_partition(files, partition)
        published_end = published.resolved.position.end_bytes
        yield published.published.content, published.resolved.position
    with suppress(CorruptError):
        parquet_footer = _parquet_footer(files, partition.token)
        with files.open_pm() as handle:
            content = handle.pread(limits.PM_LIMIT_BYTES, 0)
        for location in whole_generations(content, *parquet_footer):
            if location.end_bytes != published_end:
                yield content, location


def _parquet_footer(files: PartitionFiles, token: int) -> tuple[int, int]:
    """Return offset and length of the Thrift footer that ends at the token; raises CorruptError if there is none."""
    with files.open_data() as handle:
        raw = handle.pread(TAIL_BYTES, max(0, token - TAIL_BYTES))
    tail = ParquetTail.unpack(raw, 0, file=files.data_label)
    offset_bytes = token - TAIL_BYTES - tail.footer_length
    if tail.magic != MAGIC or offset_bytes < len(MAGIC):
        expected = "a Thrift footer's length, and PAR1"
        raise CorruptError(files.data_label, ParquetTail.layout.title, token - TAIL_BYTES, expected, raw.hex())
    return offset_bytes, tail.footer_length


def _is_all_reached(content: bytes, *, file: str) -> bool:
    """Whether the chain from the end of `content` is intact and reaches every byte."""
    try:
        intervals = reached_intervals(content, decode_chain(content, file=file, end_bytes=len(content)), file=file)
        return dead_byte_count(content, len(content), intervals, file=file) == 0
    except ProblemError:
        return False


def _encode_alone(data: bytes, metadata: Metadata, *, file: str) -> bytes:
    """Encode a generation as the only one of a new file; readers see no difference."""
    location = metadata.generation.position

    def movable(bloom: BloomReference | None) -> bytes | BloomReference | None:
        if bloom is None or bloom.length_bytes is not None:
            return bloom
        return decode_bitset(data, bloom.offset_bytes, limit_bytes=location.offset_bytes, file=file)

    row_groups = [
        NewRowGroup(num_rows=block.num_rows, chunks=block.chunks, blooms=tuple(map(movable, blooms)))
        for block, blooms in zip(metadata.blocks, metadata.generation.blooms, strict=True)
    ]
    return encode_file(metadata.header, row_groups, FooterFacts.of(metadata.generation))


def _footer_starts(data: bytes, parquet_footer_offset: int, parquet_footer_length: int) -> list[int]:
    """Return where `_pm` footers that name this Thrift footer may start, the last ones first."""
    words = layout.Footer(
        parquet_footer_offset=parquet_footer_offset,
        parquet_footer_length=parquet_footer_length,
        row_group_count=0,
        unused_bytes=0,
        prev_parquet_meta_file_size=0,
        footer_feature_flags=0,
    ).pack()[: layout.Footer.layout.offset_of("row_group_count")]
    starts: list[int] = []
    start = data.rfind(words)
    while start >= 0 and len(starts) < limits.GENERATION_COUNT_LIMIT:
        starts.append(start)
        start = data.rfind(words, 0, start + len(words) - 1)
    return starts


def _ends(data: bytes, starts: list[int]) -> list[int]:
    """Return, ascending, the offsets before which a footer length points back to one of the starts."""
    ends: list[int] = []
    if not starts:
        return ends
    # A generation may end at any byte, so this is a view of the word at every byte.
    words = np.ndarray((len(data) - WORD_BYTES + 1,), "<u4", data, strides=(1,))
    for first in range(0, len(words), WINDOW_WORDS):
        lengths = words[first : first + WINDOW_WORDS]
        positions = np.arange(first, first + len(lengths), dtype=np.int64)
        leads_back = np.isin(positions - lengths, starts)
        ends += (positions[leads_back] + WORD_BYTES).tolist()
        del ends[: -limits.GENERATION_COUNT_LIMIT]
    return [end for end in ends if end >= GENERATION_END_MINIMUM]


class ProposedFiles(PartitionFiles, frozen=True, kw_only=True):
    """A partition with another `_pm` than the one in its directory."""

    pm: bytes

    def open_pm(self) -> ReadableFile:
        """Open the other `_pm`."""
        return _Bytes(self.pm)


class _Bytes(ReadableFile):
    """Bytes with the interface of a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self._content[offset_bytes : offset_bytes + size_bytes]

    def size_bytes(self) -> int:
        return len(self._content)

    def close(self) -> None:
        pass
