"""What an operator can do next: with a damaged table, and with one that a release cannot continue from."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence

from tornproof.harness.common.shell_word import shell_word
from tornproof.impl.errors import TornproofError, counted
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.indexed_columns import index_advice
from tornproof.impl.table.partition_names import EPOCH, NANOSECONDS_IN_MICROSECOND, interval_end
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.verify import PARQUET, LookedAt, PartitionReport, TableReport

RANGES_SHOWN = 3
NAMES_SHOWN = 5
TRIED = 20
INDEX_SUFFIXES = (".k", ".v")
"""Files of an index, whose damage does not concern rows."""

Judged = tuple[PartitionReport, Partition]


def steps_after_damage(storage: Storage, path: str, report: TableReport) -> list[str]:
    """Return which rows of a damaged table can still be read, what recovery repairs, and what a backup has to."""
    try:
        table = open_table(storage, path)
        transaction = table.transaction()
    except TornproofError:
        return [
            "restore the named file from a backup, and verify again; until then `read` returns no row, but each "
            "data.parquet is also a complete Parquet file, which may hold rows that were never committed"
        ]
    if transaction.version != report.version:
        return []
    judged = list(zip(report.partitions, transaction.partitions, strict=True))
    return [*_readable(table, path, judged), *_repairs(storage, table, report, judged)]


def _readable(table: Table, path: str, judged: Sequence[Judged]) -> Iterator[str]:
    readable = [each for each in judged if _is_readable(each[0])]
    rows, total = (sum(partition.row_count for _, partition in some) for some in (readable, judged))
    parts = f"{len(readable)} of {counted(len(judged), 'partition')}"
    yield f"{rows} of {counted(total, 'row')} can still be read, those of {parts}"
    if readable and len(readable) < len(judged):
        grouped = itertools.groupby(judged, key=lambda each: _is_readable(each[0]))
        runs = [[partition for _, partition in run] for is_readable, run in grouped if is_readable]
        for run in runs[:RANGES_SHOWN]:
            yield f"tornproof read {shell_word(path)}{_range(table, run[0], run[-1])}"
        if len(runs) > RANGES_SHOWN:
            yield f"and {counted(len(runs) - RANGES_SHOWN, 'more range')} of times"


def _is_readable(partition: PartitionReport) -> bool:
    is_migrated = partition.looked_at is not LookedAt.SIZES
    return partition.format == PARQUET and is_migrated and not _has_damaged_rows(partition)


def _has_damaged_rows(partition: PartitionReport) -> bool:
    return any(not problem.file.endswith(INDEX_SUFFIXES) for problem in partition.problems)


def _range(table: Table, first: Partition, last: Partition) -> str:
    if table.metadata is None:
        return ""
    nanoseconds = table.metadata.counts_nanoseconds
    end = interval_end(last.timestamp, table.metadata.partition_by, nanoseconds=nanoseconds)
    ends = [each for each in (end, last.next_timestamp) if each is not None]
    texts = [f" --from {_text(first.timestamp, nanoseconds)}"]
    texts += [f" --to {_text(min(ends), nanoseconds)}"] if ends else []
    return "".join(texts)


def _text(time: int, nanoseconds: bool) -> str:
    microseconds = time // NANOSECONDS_IN_MICROSECOND if nanoseconds else time
    text = (EPOCH + datetime.timedelta(microseconds=microseconds)).isoformat()
    return text.removesuffix("T00:00:00")


def _repairs(storage: Storage, table: Table, report: TableReport, judged: Sequence[Judged]) -> Iterator[str]:
    """Yield what a command repairs, what dropping an index does, and what only a backup has."""
    damaged = [(found, partition) for found, partition in judged if found.problems]
    advice = index_advice(table)
    by_command: dict[str, list[str]] = {"recover": [], "migrate": [], "": []}
    for position, (found, partition) in enumerate(each for each in damaged if _has_damaged_rows(each[0])):
        is_tried = found.format == PARQUET and advice is None and position < TRIED
        by_command[_command(storage, table, partition) if is_tried else ""].append(found.name)
    for command, names in by_command.items():
        if command and names:
            run = f"tornproof {command} {shell_word(table.path)}"
            yield f"{run} repairs {_names(names)}: with the server stopped, --dry-run first"
    if advice and any(problem.file.endswith(INDEX_SUFFIXES) for found, _ in damaged for problem in found.problems):
        yield f"lookups by an index are wrong, rows are not: {advice}"
    lost = [*sorted({problem.file for problem in report.problems}), *by_command[""]]
    if lost:
        yield f"restore {_names(lost)} from a backup, and verify again"


def _command(storage: Storage, table: Table, partition: Partition) -> str:
    """Return the command that repairs a parquet partition, found out without writing; empty if none does."""
    # Imported here because they import what commands without damage do not need.
    from tornproof.impl.migrate.plan import Outcome
    from tornproof.impl.migrate.table_migration import migrate_table
    from tornproof.impl.repair.repair import plan_partition

    try:
        plan = plan_partition(table, partition)
        if plan.actions and not plan.problems:
            return "recover"
        migrated = migrate_table(storage, table.path, dry_run=True, only=table.directory_of(partition))
    except TornproofError:
        return ""
    return "migrate" if [each.outcome for each in migrated.partitions] == [Outcome.REPLACED] else ""


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
