"""Verification of a table on disk without changing it, with counts of what was checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError
from tornproof.impl.parquet.footer import ParquetFooter, decode_footer
from tornproof.impl.parquet.thrift import Known
from tornproof.impl.pm.chain import Metadata, decode_chain
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition import (
    PM_FILE,
    SIZE_FIELD,
    PartitionFiles,
    ResolvedPartition,
    check_native,
    check_partition,
    check_unmigrated,
    resolve_partition,
)
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.indexes import Comparison, Indexes, parquet_keys
from tornproof.impl.verify.pages import page_checks

PROBLEMS_PER_PARTITION = 20
THRIFT_LIMIT_BYTES = 32 * 1024 * 1024

Progress = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Counts:
    """How many of each were checked."""

    partitions: int = 0
    generations: int = 0
    thrift_footers: int = 0
    row_groups: int = 0
    chunks: int = 0
    decoded_chunks: int = 0
    pages_bytes: int = 0
    rows: int = 0
    indexes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """The report on one partition; `format` is "parquet" or "native", sizes are in bytes."""

    name: str
    format: str
    rows: int
    token: int
    generations: int = 0
    orphans: int = 0
    unused_bytes: int = 0
    dead_bytes: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The report on a table; `problems` are those that belong to no partition."""

    table: str
    version: int | None
    problems: tuple[Problem, ...] = ()
    unreferenced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    counts: Counts = field(default_factory=Counts)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, those of the table first."""
        return self.problems + tuple(problem for partition in self.partitions for problem in partition.problems)

    @property
    def sound(self) -> bool:
        """Whether there are no problems."""
        return not self.all_problems


def verify_table(
    table: Table,
    *,
    quick: bool = False,
    whole: bool = True,
    progress: Progress = lambda _: None,
    decoding: Decoding = SYNCHRONOUS,
) -> TableReport:
    """Verify the committed version of `table`; with `quick` without the pages and the indexes.

    Copies for explorers are not `whole`: they have only the files that reading and writing Parquet needs.
    Damage is reported as problems. Raises StorageError and BusyError, which are no verdict on the table, and
    UnsupportedError if there are no problems but a partition uses features that this release does not know.
    """
    counts = Counts()
    try:
        transaction = table.transaction()
        unreferenced = table.unreferenced_directories(transaction)
        directories = [table.files_of(partition) for partition in transaction.partitions]
        indexes = Indexes.of(table, transaction) if whole else Indexes(columns=())
    except CorruptError as error:
        return TableReport(table=table.path, version=None, problems=(error.problem,), counts=counts)
    reports, notes, unsupported = [], [], []
    for files, partition in zip(directories, transaction.partitions, strict=True):
        name = files.name
        progress(name)
        counts.partitions += 1
        if partition.is_parquet and not partition.parquet_was_generated and not files.has_pm():
            problems = tuple(check_unmigrated(files, partition))
            reports.append(_report(name, "parquet", partition, problems))
            if not problems:
                notes.append(f"{name} has no {PM_FILE}: a release before 9.4.0 wrote it, and it can be migrated")
        elif partition.is_parquet:
            compared = counts.thrift_footers
            try:
                report = verify_partition(
                    files, partition, counts=counts, quick=quick, metadata=table.metadata, decoding=decoding
                )
            except UnsupportedError as error:
                unsupported.append(error)
                report = _report(name, "parquet", partition, (error.problem,))
            if not report.problems and not quick:
                found = _compare_indexes(indexes, files, partition, decoding)
                counts.indexes += found.compared
                notes += found.notes
                report = replace(report, problems=found.problems)
            reports.append(report)
            if counts.thrift_footers == compared and not reports[-1].problems:
                notes.append(f"{name} has a Thrift footer that is too large or too new to be compared with {PM_FILE}")
        else:
            reports.append(_report(name, "native", partition, check_native(files, partition)))
    if unsupported and sum(len(report.problems) for report in reports) == len(unsupported):
        # Nothing is known to be wrong, but not everything could be checked, so there is no verdict.
        raise unsupported[0]
    return TableReport(
        table=table.path,
        version=transaction.version,
        unreferenced=unreferenced,
        notes=tuple(notes),
        partitions=tuple(reports),
        counts=counts,
    )


def _compare_indexes(indexes: Indexes, files: PartitionFiles, partition: Partition, decoding: Decoding) -> Comparison:
    """Compare the indexes of a sound parquet partition with its rows."""
    if not indexes.columns:
        return Comparison(compared=0, problems=(), notes=())
    resolved = resolve_partition(files, partition)
    return indexes.compare(files, partition, partial(parquet_keys, resolved, decoding))


def verify_partition(
    files: PartitionFiles,
    partition: Partition,
    *,
    counts: Counts,
    quick: bool = False,
    metadata: TableMetadata | None = None,
    decoding: Decoding = SYNCHRONOUS,
) -> PartitionReport:
    """Verify one parquet partition, also against the table's columns if `metadata` is given.

    Raises StorageError, and UnsupportedError for a generation that this release cannot read.
    """
    try:
        resolved = resolve_partition(files, partition)
    except CorruptError as error:
        return _report(files.name, "parquet", partition, (error.problem,))
    survey = _survey(resolved)
    counts.generations += survey.generations
    found = itertools.chain(
        check_against_table(resolved, metadata), _newest_problems(resolved, counts, quick, decoding), survey.problems
    )
    problems = tuple(itertools.islice(found, PROBLEMS_PER_PARTITION))
    return replace(
        _report(files.name, "parquet", partition, problems),
        generations=survey.generations,
        orphans=resolved.resolved.orphan_count,
        unused_bytes=resolved.metadata.generation.position.fixed.unused_bytes,
        dead_bytes=survey.dead_bytes,
    )


def check_thrift_footer(
    resolved: ResolvedPartition, known: Known | None = None
) -> tuple[ParquetFooter | None, list[Problem] | None]:
    """Return the Thrift footer of data.parquet, and where it is damaged or contradicts `_pm`.

    The problems are None if it was not compared, because it would take too much memory or uses features that this
    release does not know. Reading does not depend on it.
    """
    fixed, label = resolved.metadata.generation.position.fixed, resolved.files.data_label
    if fixed.parquet_footer_length > THRIFT_LIMIT_BYTES:
        return None, None
    with resolved.files.open_data() as handle:
        content = handle.pread(fixed.parquet_footer_length, fixed.parquet_footer_offset)
    try:
        footer = decode_footer(content, file=label, offset_bytes=fixed.parquet_footer_offset, known=known)
    except CorruptError as error:
        return None, [error.problem]
    except UnsupportedError:
        return None, None
    return footer, list(compare_footer(footer, resolved.metadata, file=label))


def _report(
    name: str, partition_format: str, partition: Partition, problems: Iterable[Problem] = ()
) -> PartitionReport:
    return PartitionReport(
        name=name,
        format=partition_format,
        rows=partition.row_count,
        token=partition.token,
        problems=tuple(problems),
    )


@dataclass(slots=True, kw_only=True)
class _Survey:
    """What the chain of generations adds to a report."""

    generations: int = 0
    dead_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


def _survey(resolved: ResolvedPartition) -> _Survey:
    """Walk the chain from the resolved generation on; if it is broken, dead bytes are not counted."""
    survey = _Survey()
    content, label = resolved.published.content, resolved.files.pm_label
    try:
        intervals = reached_intervals(content, _generations(resolved, survey), file=label)
        survey.dead_bytes = dead_byte_count(content, resolved.published.file_size_bytes, intervals, file=label)
    except CorruptError as error:
        survey.problems.append(error.problem)
        return survey
    with suppress(CorruptError), resolved.files.open_data() as handle:
        survey.dead_bytes += max(0, handle.size_bytes() - resolved.partition.token)
    return survey


def _generations(resolved: ResolvedPartition, survey: _Survey) -> Iterator[Metadata]:
    """Yield the resolved generation and the older ones, which are checked here."""
    content, label = resolved.published.content, resolved.files.pm_label
    newer: Metadata | None = None
    end_bytes, blocks = resolved.resolved.position.end_bytes, resolved.metadata.blocks
    for metadata in decode_chain(content, file=label, end_bytes=end_bytes, decoded=blocks):
        survey.generations += 1
        if newer is not None:
            room = PROBLEMS_PER_PARTITION - len(survey.problems)
            survey.problems += itertools.islice(check_metadata(content, metadata, file=label, newer=newer), room)
        yield metadata
        newer = metadata


def _newest_problems(resolved: ResolvedPartition, counts: Counts, quick: bool, decoding: Decoding) -> Iterator[Problem]:
    """Yield the problems of the resolved generation itself."""
    try:
        for problem in check_partition(resolved):
            yield problem
            if problem.field == SIZE_FIELD:
                # A file that ends too early has no Thrift footer and no newest pages, which is reported once.
                return
        footer, compared = check_thrift_footer(resolved)
        counts.thrift_footers += compared is not None
        yield from compared or ()
    except ProblemError as error:
        yield error.problem
        return
    counts.row_groups += len(resolved.metadata.blocks)
    counts.rows += resolved.metadata.row_count
    if not quick:
        for checked in page_checks(resolved, footer, decoding):
            counts.chunks += 1
            counts.decoded_chunks += checked.is_decoded
            counts.pages_bytes += checked.size_bytes
            if checked.problem is not None:
                yield checked.problem
