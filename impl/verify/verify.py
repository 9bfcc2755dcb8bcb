"""Verification of a table on disk without changing it, with counts of what was checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial

import msgspec
from msgspec.structs import replace

from tornproof.impl.chunk.duplicates import has_duplicates
from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError, counted
from tornproof.impl.extension.footer import extension_problems
from tornproof.impl.parquet.footer import ParquetFooter, check_for_others, decode_footer
from tornproof.impl.parquet.thrift import Known
from tornproof.impl.pm.chain import Metadata, decode_chain
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.table.changed_types import check_types_are_read
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy, TableColumn, TableMetadata
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
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.table.questdb_json import QUESTDB_KEY, ids_in
from tornproof.impl.table.symbol_keys import dictionaries_by_position
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.table.table import Table
from tornproof.impl.txn.sequencer import pending_transaction_count
from tornproof.impl.txn.transaction import I64_MIN, Partition, Transaction
from tornproof.impl.verify.indexes import Indexes, Keys, KeysOf, parquet_keys
from tornproof.impl.verify.native import Interval, check_native_columns, native_keys, native_times
from tornproof.impl.verify.pages import page_checks
from tornproof.impl.verify.table_files import TableFiles
from tornproof.impl.verify.transaction_record import PartitionTimes, check_record, end_partitions, parquet_times

PROBLEMS_PER_PARTITION = 20
NATIVE, PARQUET = "native", "parquet"
THRIFT_LIMIT_BYTES = 32 * 1024 * 1024
SAID_BY_PM = frozenset({"type", "repetition_type", "codec"})
"""Enumerations of Parquet whose numbers are in `_pm`, too."""

Progress = Callable[[str], None]


class Counts(msgspec.Struct, kw_only=True):
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


class LookedAt(StrEnum):
    """What of a partition was looked at, from most to least."""

    VALUES = "values"
    METADATA = "metadata"
    OFFSETS_AND_SYMBOL_KEYS = "sizes, offsets, symbol keys and row times"
    SIZES = "sizes"
    NOTHING = "nothing"


class PartitionReport(msgspec.Struct, frozen=True, kw_only=True):
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
    looked_at: LookedAt = LookedAt.VALUES


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on a table; `problems` are those that belong to no partition."""

    table: str
    version: int | None
    problems: tuple[Problem, ...] = ()
    unreferenced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    counts: Counts = msgspec.field(default_factory=Counts)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, those of the table first."""
        return self.problems + tuple(problem for partition in self.partitions for problem in partition.problems)

    @property
    def sound(self) -> bool:
        """Whether there are no problems in what was looked at; `verdict` says what was not."""
        return not self.all_problems

    @property
    def native(self) -> tuple[PartitionReport, ...]:
        """The partitions in QuestDB's native format, of which not everything is looked at."""
        return tuple(partition for partition in self.partitions if partition.format == NATIVE)

    @property
    def verdict(self) -> str:
        """The verdict in words, with what it does not cover."""
        if not self.sound:
            problems = counted(len(self.all_problems), "problem")
            return f"damaged: {problems}" + (", no version can be read" if self.version is None else "")
        if not self.native:
            return "sound"
        covered = counted(len(self.partitions) - len(self.native), "parquet partition")
        return "; ".join([f"sound in its {covered}", *filter(None, map(self._native_verdict, LookedAt))])

    def _native_verdict(self, looked_at: LookedAt) -> str:
        some = [partition for partition in self.native if partition.looked_at is looked_at]
        rows = counted(sum(partition.rows for partition in some), "row")
        limit = "not looked at" if looked_at is LookedAt.NOTHING else f"looked at only in {looked_at}"
        return f"{counted(len(some), 'native partition')} ({rows}) {limit}" if some else ""


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
        beside = TableFiles.of(table, transaction) if whole else None
    except CorruptError as error:
        return TableReport(table=table.path, version=None, problems=(error.problem,), counts=counts)
    verification = _Verification(
        table=table,
        ends=end_partitions(transaction),
        beside=beside,
        counts=counts,
        quick=quick,
        decoding=decoding,
    )
    reports = []
    for files, partition in zip(directories, transaction.partitions, strict=True):
        progress(files.name)
        counts.partitions += 1
        reports.append(verification.report(files, partition))
    if beside and any(problem.file == META_FILE for report in reports for problem in report.problems):
        # Of another table, so that it says nothing about other files.
        beside = None
        reports = [_not_looked_at(report) if report.format == NATIVE else report for report in reports]
    of_record = tuple(check_record(transaction, table.metadata, verification.times))
    problems = (*of_record, *(beside.problems if beside else ()))
    if whole and (pending := pending_transaction_count(table.storage, table.path, transaction)):
        verification.notes.append(f"not applied yet: {counted(pending, 'transaction')} of its write-ahead log")
    unsupported = verification.unsupported
    if unsupported and sum(len(report.problems) for report in reports) + len(problems) == len(unsupported):
        # Nothing is known to be wrong, but not everything could be checked, so there is no verdict.
        raise unsupported[0]
    if table.metadata is None and not any(report.problems for report in reports):
        problems += _contradictions(table, transaction)
    return TableReport(
        table=table.path,
        version=transaction.version,
        problems=problems,
        unreferenced=unreferenced,
        notes=(*(beside.notes if beside else ()), *verification.notes),
        partitions=tuple(reports),
        counts=counts,
    )


def _contradictions(table: Table, transaction: Transaction) -> tuple[Problem, ...]:
    """Return in what the partitions of a table without `_meta` contradict each other."""
    try:
        snapshot_of(table, transaction)
    except CorruptError as error:
        return (error.problem,)
    except UnsupportedError:
        # Of a partition that was not migrated yet, which a note says.
        return ()
    return ()


class _Verification(msgspec.Struct, kw_only=True):
    """Verifies the partitions of a table one by one; `beside` is None where only Parquet's own files are there.

    `times` are those of the `ends`, the partitions with the table's first and last row, if they are sound.
    """

    table: Table
    ends: tuple[Partition, ...]
    beside: TableFiles | None
    counts: Counts
    quick: bool
    decoding: Decoding
    times: dict[int, PartitionTimes] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)
    unsupported: list[UnsupportedError] = msgspec.field(default_factory=list)

    def report(self, files: PartitionFiles, partition: Partition) -> PartitionReport:
        """Return the report on one partition; raises StorageError."""
        if not partition.is_parquet:
            return self._native(files, partition)
        if not partition.parquet_was_generated and not files.has_pm():
            return self._unmigrated(files, partition)
        return self._parquet(files, partition)

    def _parquet(self, files: PartitionFiles, partition: Partition) -> PartitionReport:
        compared, counts = self.counts.thrift_footers, self.counts
        try:
            resolved = resolve_partition(files, partition)
            report = verify_resolved(
                resolved,
                counts=counts,
                quick=self.quick,
                metadata=self.table.metadata,
                symbols=self.beside.symbols if self.beside else None,
                decoding=self.decoding,
                notes=self.notes,
            )
            if not report.problems:
                check_types_are_read(resolved.metadata.header, self.table.metadata, file=files.pm_label)
        except CorruptError as error:
            return _report(files, partition, (error.problem,))
        except UnsupportedError as error:
            self.unsupported.append(error)
            return _report(files, partition, (error.problem,))
        if counts.thrift_footers == compared and not report.problems:
            self.notes.append(
                f"{files.name} has a Thrift footer that is too large or too new to be compared with {PM_FILE}"
            )

        def keys_of(column: TableColumn, symbols: SymbolTable) -> Keys | Problem:
            return parquet_keys(resolved, self.decoding, column, symbols)

        self._note_times(report, partition, lambda: parquet_times(resolved))
        return self._with_indexes(report, files, partition, keys_of)

    def _unmigrated(self, files: PartitionFiles, partition: Partition) -> PartitionReport:
        try:
            report = replace(_report(files, partition, check_unmigrated(files, partition)), looked_at=LookedAt.SIZES)
        except UnsupportedError as error:
            self.unsupported.append(error)
            return _report(files, partition, (error.problem,))
        if not report.problems:
            self.notes.append(f"{files.name} has no {PM_FILE}: a release before 9.4.0 wrote it, and it can be migrated")
        return report

    def _native(self, files: PartitionFiles, partition: Partition) -> PartitionReport:
        report = replace(_report(files, partition, check_native(files, partition)), looked_at=LookedAt.NOTHING)
        versions = self.beside.versions if self.beside else None
        if self.beside is None or versions is None or report.problems:
            return report
        columns, symbols = self.beside.columns, self.beside.symbols
        problems: list[Problem] = []
        for found in check_native_columns(
            files, partition, columns, versions, symbols, quick=self.quick, interval=self._interval(partition)
        ):
            if isinstance(found, str):
                self.notes.append(found)
            elif len(problems) < PROBLEMS_PER_PARTITION:
                problems.append(found)
        looked_at = LookedAt.SIZES if self.quick else LookedAt.OFFSETS_AND_SYMBOL_KEYS
        report = replace(report, problems=tuple(problems), looked_at=looked_at)
        metadata = self.table.metadata
        timestamp = next((column for column in columns if metadata and column.id == metadata.timestamp_id), None)
        if timestamp is not None:
            self._note_times(report, partition, lambda: native_times(files, partition, versions, timestamp))
        return self._with_indexes(report, files, partition, partial(native_keys, files, partition, versions))

    def _interval(self, partition: Partition) -> Interval | None:
        """Return where the times of a partition's rows must be, None without designated timestamp."""
        metadata = self.table.metadata
        if metadata is None or metadata.timestamp_id < 0:
            return None
        last = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
        end = min((each for each in (partition.next_timestamp, last) if each is not None), default=None)
        # A table without intervals has one partition, whose start says nothing of its rows.
        start = I64_MIN if metadata.partition_by is PartitionBy.NONE else partition.timestamp
        return Interval(timestamp_id=metadata.timestamp_id, start=start, end=end)

    def _note_times(
        self, report: PartitionReport, partition: Partition, times_of: Callable[[], PartitionTimes | None]
    ) -> None:
        """Note the times of a sound partition if it is one of the ends."""
        if partition in self.ends and not report.problems and (times := times_of()) is not None:
            self.times[partition.timestamp] = times

    def _with_indexes(
        self, report: PartitionReport, files: PartitionFiles, partition: Partition, keys_of: KeysOf
    ) -> PartitionReport:
        """Compare the indexes of a sound partition with its rows."""
        if self.beside is None or self.quick or report.problems:
            return report
        found = Indexes.of(self.beside).compare(files, partition, keys_of)
        self.counts.indexes += found.compared
        self.notes += found.notes
        return replace(report, problems=found.problems)


def verify_partition(
    files: PartitionFiles,
    partition: Partition,
    *,
    counts: Counts,
    quick: bool = False,
    metadata: TableMetadata | None = None,
) -> PartitionReport:
    """Verify one parquet partition alone; raises as `verify_resolved` does."""
    try:
        resolved = resolve_partition(files, partition)
    except CorruptError as error:
        return _report(files, partition, (error.problem,))
    return verify_resolved(resolved, counts=counts, quick=quick, metadata=metadata)


def verify_resolved(
    resolved: ResolvedPartition,
    *,
    counts: Counts,
    quick: bool = False,
    metadata: TableMetadata | None = None,
    symbols: Mapping[str, SymbolTable] | None = None,
    decoding: Decoding = SYNCHRONOUS,
    notes: list[str] | None = None,
) -> PartitionReport:
    """Verify a parquet partition whose committed generation was found, also against the table's columns and symbols.

    `notes` gets what earlier servers did wrong. Raises StorageError, and UnsupportedError for a generation that this
    release cannot read if nothing is wrong with the rest.
    """
    survey = _survey(resolved)
    counts.generations += survey.generations
    dictionaries = dictionaries_by_position(resolved.metadata.header, metadata, symbols)
    unsupported: list[UnsupportedError] = []
    found_notes: dict[str, None] = {}
    found = itertools.chain(
        check_against_table(resolved, metadata),
        _newest_problems(resolved, counts, quick, decoding, dictionaries, unsupported, found_notes),
        survey.problems,
    )
    problems = tuple(itertools.islice(found, PROBLEMS_PER_PARTITION))
    if notes is not None:
        notes += [f"{resolved.files.name}: {note}" for note in found_notes]
    if unsupported and not problems:
        raise unsupported[0]
    return replace(
        _report(resolved.files, resolved.partition, problems),
        generations=survey.generations,
        orphans=resolved.resolved.orphan_count,
        unused_bytes=resolved.metadata.generation.position.fixed.unused_bytes,
        dead_bytes=survey.dead_bytes,
        looked_at=LookedAt.METADATA if quick else LookedAt.VALUES,
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
        check_for_others(footer, file=label)
    except CorruptError as error:
        return None, [error.problem]
    except UnsupportedError as error:
        # `_pm` says the same in numbers that are known, so these are no news of another release.
        is_known = error.problem.field.rpartition(".")[2] in SAID_BY_PM
        return None, [error.problem] if is_known else None
    problems = list(compare_footer(footer, resolved.metadata, json_ids=_json_ids(footer), file=label))
    return footer, problems + extension_problems(
        content, file=label, offset_bytes=fixed.parquet_footer_offset, decoded=footer
    )


def _json_ids(footer: ParquetFooter) -> tuple[int | None, ...]:
    """Return the ids of columns in the `questdb` JSON, none if that is broken, which says nothing of the rows."""
    with suppress(ProblemError):
        return ids_in(footer.metadata.get(QUESTDB_KEY) or "")
    return ()


def _not_looked_at(report: PartitionReport) -> PartitionReport:
    return replace(report, problems=(), looked_at=LookedAt.NOTHING)


def _report(files: PartitionFiles, partition: Partition, problems: Iterable[Problem] = ()) -> PartitionReport:
    return PartitionReport(
        name=files.name,
        format=PARQUET if partition.is_parquet else NATIVE,
        rows=partition.row_count,
        token=partition.token,
        problems=tuple(problems),
    )


class _Survey(msgspec.Struct, kw_only=True):
    """What the chain of generations adds to a report."""

    generations: int = 0
    dead_bytes: int = 0
    problems: list[Problem] = msgspec.field(default_factory=list)


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


def _newest_problems(
    resolved: ResolvedPartition,
    counts: Counts,
    quick: bool,
    decoding: Decoding,
    symbols: Mapping[int, SymbolTable],
    unsupported: list[UnsupportedError],
    notes: dict[str, None],
) -> Iterator[Problem]:
    """Yield the problems of the resolved generation itself, and add to `unsupported` why pages cannot be checked.

    What is to be noted of columns is added to `notes` once.
    """
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
        if footer is not None and has_duplicates(footer):
            # Imported where a file has them, because most have none.
            from tornproof.impl.chunk.duplicate_values import duplicate_problems

            with resolved.files.open_data() as handle:
                yield from duplicate_problems(handle.pread, footer, file=resolved.files.data_label)
        for checked in page_checks(resolved, footer, decoding, symbols):
            counts.chunks += 1
            counts.decoded_chunks += checked.is_decoded
            counts.pages_bytes += checked.size_bytes
            if checked.problem is not None:
                yield checked.problem
            if checked.unsupported is not None:
                unsupported.append(checked.unsupported)
            if checked.note is not None:
                notes[checked.note] = None
