"""Operations on a whole table: verify, recover, migrate, check."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from tornproof.api.captured import capture_or_make
from tornproof.api.holders import MIGRATED_OFFLINE, RECOVERED_OFFLINE, demand_offline
from tornproof.api.steady import verify_until_stable
from tornproof.api.tables import TablePath, whole_path
from tornproof.harness.check import CheckQuestion, bounds_of, check_image
from tornproof.harness.common.effort import DEFAULT, EFFORT_MAX, EFFORTS, SEED_MAX, effort_of
from tornproof.harness.parallel.tasks import Outcome
from tornproof.impl.arguments import demanding_types
from tornproof.impl.chunk.duplicate_values import ColumnValues, read_column_values
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import EMPTY_PATH, UsageError
from tornproof.impl.extension.footer import FileFooter, read_file_footer
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import FormChange, change_footer_form
from tornproof.impl.migrate.plan import Migration
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.repair.repair import RepairReport, repair_table
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.verify.verify import TableReport


@demanding_types(UsageError)
def verify(path: TablePath, *, quick: bool = False) -> TableReport:
    """Return whether a table on disk is sound, and what is wrong: file, field, offset in bytes, expected, found.

    `report.sound` is the answer, `report.all_problems` the reasons, `report.counts` what was examined; `quick`
    skips the pages of data.parquet. A server may be writing: problems count once two attempts agree on them. Raises
    NotATableError, UnsupportedError, StorageError, and BusyError if the files keep changing.
    """
    return verify_until_stable(OperatingSystemStorage(), whole_path(path), quick=quick)


@demanding_types(UsageError)
def recover(path: TablePath, *, dry_run: bool = False) -> RepairReport:
    """Remove what a killed writer left, so that every release can continue from the committed version.

    `report.actions` says what was done, or would be with `dry_run`, `report.problems` what cannot be repaired; old
    bytes are kept beside the files. Raises UsageError and BusyError while another process has the table open,
    IndexedColumnError, NotATableError, StorageError.
    """
    table = whole_path(path)
    demand_offline(table, because=RECOVERED_OFFLINE, writes=not dry_run)
    return repair_table(OperatingSystemStorage(), table, dry_run=dry_run)


@demanding_types(UsageError)
def migrate(path: TablePath, *, dry_run: bool = False) -> Migration:
    """Create the `_pm` of every parquet partition that has none, as QuestDB's converter would write it.

    `migration.partitions` has the outcome of each, `migration.is_complete` whether none was rejected. Raises
    UsageError and BusyError while another process has the table open, NotATableError, StorageError.
    """
    table = whole_path(path)
    demand_offline(table, because=MIGRATED_OFFLINE, writes=not dry_run)
    return migrate_table(OperatingSystemStorage(), table, dry_run=dry_run)


@demanding_types(UsageError)
def extend(
    path: TablePath,
    footer: FooterForm | str | None = None,
    *,
    encoding: ChunkForm | str | None = None,
    out: TablePath | None = None,
) -> FormChange:
    """Write a Parquet file with its footer, its chunks or both in another form to `out`, by default in its place.

    `footer` is `private` or `migration`, where FlatBuffers are beside Thrift in an extension that QuestDB refuses and
    other readers skip, `final` (experimental), where they are alone, or `thrift`. `encoding` is `alp`, where numbers
    are in ALP or PFOR beside the chunks that they were in, `alp-alone` (experimental), from which there is no way back,
    or `old`. With `thrift` and `old` the file is as it was, byte for byte; what is None stays as it is. Raises
    CorruptError, UnsupportedError for an extension that is not ours, UsageError where the result would replace the
    data.parquet of a partition and for chunks that are gone, BusyError, StorageError, and ValueError for another form.
    """
    target = None if out is None else whole_path(out)
    form = None if footer is None else FooterForm(footer)
    chunks = None if encoding is None else ChunkForm(encoding)
    return change_footer_form(OperatingSystemStorage(), whole_path(path), form, chunks=chunks, out=target)


@demanding_types(UsageError)
def column(path: TablePath, name: str) -> ColumnValues:
    """Return a column of numbers of any Parquet file, from the new encoding where nothing about it is in doubt.

    `values` are as stored: 32-bit or 64-bit integers, floats or doubles, a chunk for each row group. `sources` and
    `doubts` say for each which encoding it was and why. Raises CorruptError, UnsupportedError for other columns,
    UsageError if there is no such column, StorageError.
    """
    label = whole_path(path)
    with OperatingSystemStorage().open_for_reading(label) as file:
        decoded = read_file_footer(file.pread, file.size_bytes(), file=label).decoded()
        return read_column_values(file.pread, decoded, name, file=label)


@demanding_types(UsageError)
def footer(path: TablePath, *, mapped: bool = False) -> FileFooter:
    """Return the footer of any Parquet file, from FlatBuffers if it has them and nothing about them is in doubt.

    `source` and `doubt` say which footer it is and why, `decoded()` returns all of it, and `chunk(row_group, column)`
    where one chunk is, without decoding others. With `mapped` FlatBuffers of the final form are not copied: of a
    large footer a chunk is found many times as fast, but the system kills a process that uses a file which another one
    has cut meanwhile. Raises CorruptError, UnsupportedError, StorageError.
    """
    label = whole_path(path)
    with OperatingSystemStorage().open_for_reading(label) as file:
        size_bytes = file.size_bytes()
        if not mapped or not size_bytes:
            return read_file_footer(file.pread, size_bytes, file=label)
        # The footer that is returned keeps its bytes mapped for as long as it lives.
        with file.map(size_bytes) as mapping, mapping.view(size_bytes, 0) as content:
            return read_file_footer(lambda size, start: content[start : start + size], size_bytes, file=label)


@demanding_types(ValueError)
def check(
    path: TablePath | None = None,
    *,
    only: Sequence[str] | None = None,
    effort: int | str = DEFAULT,
    seed: int = 0,
    workers: int | None = None,
    fail_fast: bool = False,
) -> Outcome:
    """Explore a copy of a table, or a small new one, in every phase; the table itself is never changed.

    `outcome.verdict` is VALID, INVALID or UNKNOWN; `outcome.phases` say what each phase tried, within which bound,
    and what it found. `only` names phases, such as `crash`, by default all. `effort` is `small`, `medium`, `large`
    or a factor from 1 to 10,000; `workers` are processes, by default one for each core, and do not change the
    result. With `fail_fast` it ends with the first finding, and several workers may find another one first. Ctrl-C,
    SIGTERM and SIGHUP end it early and are then raised again for the program: if its handler returns, so does the
    check, with what it has found, which is nowhere else. Raises NotATableError, UnsupportedError above 96 MiB,
    StorageError, and ValueError for an unknown effort, seed or phase.
    """
    if not 0 <= seed <= SEED_MAX:
        raise ValueError(f"seed: expected 0 to {SEED_MAX:,}, found {seed!r}")
    factor = effort_of(effort)
    if factor is None:
        raise ValueError(f"effort: expected {', '.join(EFFORTS)} or 1 to {EFFORT_MAX:,}, found {effort!r}")
    table = None if path is None else whole_path(path)
    if table == "":
        raise ValueError(f"path: {EMPTY_PATH}")
    table, image, start_error = capture_or_make(table)
    bounds = bounds_of(factor, image, table)
    question = CheckQuestion(
        image=image, path=table, has_table=path is not None, start_error=start_error, seed=int(seed), bounds=bounds
    )
    phases = [name for name in question.phases if only is None or name in only]
    if unknown := [name for name in only or () if name not in question.phases]:
        raise ValueError(f"only: expected some of {', '.join(question.phases)}, found {unknown[0]!r}")
    outcome = check_image(question, phases, workers=workers or os.cpu_count() or 1, fails_fast=fail_fast)
    if outcome.interrupted_by is not None:
        signal.raise_signal(outcome.interrupted_by)
    return outcome
