"""The migration of one partition, up to the bytes of its `_pm`; nothing is written here.

A `_pm` that is sound for the token is never replaced, because pinned readers may use its older generations.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tornproof.impl.errors import BusyError, CorruptError, Problem, TornproofError
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.plan import Outcome, PartitionMigration, rejection
from tornproof.impl.repair.plan import CommittedFile, ProposedFiles, find_committed
from tornproof.impl.storage.checksum import crc32
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.partition import TAIL_BYTES, PartitionFiles, check_unmigrated
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Partition, read_version
from tornproof.impl.verify.verify import Counts, verify_partition

PIECE_BYTES = 4 * 1024 * 1024
REPAIRED_BY_RECOVER = "the committed generation is still in the file; `tornproof recover` publishes it with its history"


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A new `_pm`, verified with its data.parquet; `old_problems` are those of the existing one.

    `footer_digest` is that of the Thrift footer that `content` was made from.
    """

    files: PartitionFiles
    partition: Partition
    content: bytes
    footer_digest: int
    old_problems: tuple[Problem, ...]


Conversion: TypeAlias = Converted | PartitionMigration
"""A `_pm` to publish, or why there is none."""


def convert_partition(table: Table, partition: Partition, mode: ConversionMode, *, keeps_sound: bool) -> Conversion:
    """Make the `_pm` of a partition, unless it has a sound one or cannot get one.

    Without `keeps_sound` it is made even if there is a sound one, to be written elsewhere.
    """
    files = table.files_of(partition)
    try:
        old_problems = problems_of_existing(files, partition, table) if keeps_sound else None
        if old_problems == ():
            return PartitionMigration(name=files.name, outcome=Outcome.ALREADY, token=partition.token)
        if old_problems and isinstance(find_committed(files, partition, table.metadata), CommittedFile):
            return _rejected(files, partition, old_problems, REPAIRED_BY_RECOVER)
        digest = committed_footer_digest(files, partition)
        with files.open_data() as handle:
            content = convert(
                handle.pread,
                size_bytes=partition.token,
                file=files.data_label,
                mode=mode,
                physical_size_bytes=handle.size_bytes(),
            )
        new_problems = _problems_of(files, partition, table, content)
    except TornproofError as error:
        return rejection(files.name, partition.token, error)
    if new_problems:
        return _rejected(files, partition, new_problems, f"no _pm agrees with both {files.data_label} and the table")
    return Converted(
        files=files,
        partition=partition,
        content=content,
        footer_digest=digest,
        old_problems=old_problems or (),
    )


def problems_of_existing(files: PartitionFiles, partition: Partition, table: Table) -> tuple[Problem, ...] | None:
    """Return how the partition's `_pm` contradicts its data.parquet and the table; None if there is no `_pm`.

    Structure, CRC and Thrift footer are compared, pages are not. Raises UnsupportedError, StorageError.
    """
    if not files.has_pm():
        return None
    return verify_partition(files, partition, counts=Counts(), quick=True, metadata=table.metadata).problems


def check_unchanged(table: Table, converted: Converted, version: int) -> None:
    """Raise BusyError unless `_txn` still names the partition and token, and data.parquet still has that footer.

    `version` is the one in which the partition was found; entries change only with the version.
    """
    partition = converted.partition
    try:
        is_same = committed_footer_digest(converted.files, partition) == converted.footer_digest
    except CorruptError:
        is_same = False
    # The version last, because a server that commits meanwhile may only have made the file longer.
    with table.storage.open_for_reading(f"{table.path}/{TXN_FILE}") as handle:
        has_moved = read_version(handle, TXN_FILE) != version
    if has_moved and partition.identity not in {each.identity for each in table.transaction().partitions}:
        raise BusyError(f"{converted.files.name}: a writer changed the partition meanwhile; try again when it is done")
    if not is_same:
        raise BusyError(f"{converted.files.data_label}: the file changed while it was read; nothing was written")


def committed_footer_digest(files: PartitionFiles, partition: Partition) -> int:
    """Return a digest of the Thrift footer that ends at the token; raises CorruptError if there is none."""
    for problem in check_unmigrated(files, partition):
        raise CorruptError.of(problem)
    with files.open_data() as handle:
        return footer_digest(handle, partition.token, file=files.data_label)


def footer_digest(handle: ReadableFile, size_bytes: int, *, file: str) -> int:
    """Return a digest of the Thrift footer that ends at `size_bytes`, length and PAR1 included; raises CorruptError."""
    tail_offset = max(0, size_bytes - TAIL_BYTES)
    tail = ParquetTail.unpack(handle.pread(TAIL_BYTES, tail_offset), 0, file=file)
    if tail.magic != MAGIC or not 0 <= tail.footer_length <= tail_offset:
        raise CorruptError(
            file=file,
            field=ParquetTail.layout.title,
            offset_bytes=tail_offset,
            expected=f"the length of a Thrift footer, at most {tail_offset}, and {MAGIC!r}",
            actual=f"{tail.footer_length} and {tail.magic!r}",
        )
    digest = 0
    for offset_bytes in range(tail_offset - tail.footer_length, size_bytes, PIECE_BYTES):
        piece = handle.pread(min(PIECE_BYTES, size_bytes - offset_bytes), offset_bytes)
        digest = crc32(piece, digest)
    return digest


def _problems_of(files: PartitionFiles, partition: Partition, table: Table, content: bytes) -> tuple[Problem, ...]:
    proposed = ProposedFiles(storage=files.storage, path=files.path, name=files.name, pm=content)
    return verify_partition(proposed, partition, counts=Counts(), quick=True, metadata=table.metadata).problems


def _rejected(
    files: PartitionFiles, partition: Partition, problems: tuple[Problem, ...], reason: str
) -> PartitionMigration:
    return PartitionMigration(
        name=files.name, outcome=Outcome.REJECTED, token=partition.token, problems=problems, reason=reason
    )
