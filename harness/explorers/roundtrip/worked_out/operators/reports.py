"""What reports of reads, migrations and other forms say, the verdicts, and why a system refuses a call."""

from __future__ import annotations

import errno
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tornproof.harness.common.new_tables import commit_rows, new_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.forms import FORMS, Form, few_numbers, in_form, opened
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.beside import BesideStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import (
    BusyError,
    CorruptError,
    FileMissingError,
    NotATableError,
    Problem,
    ProblemError,
    StorageError,
    TornproofError,
    UnsupportedError,
)
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration, rejected_table, rejection
from tornproof.impl.migrate.table_migration import TablePlan, plan_table
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.query.pruning import Reason
from tornproof.impl.query.time_search import TimeRange
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, open_snapshot, snapshot_of
from tornproof.impl.storage.operating_system_file import TranslateOsErrors
from tornproof.impl.table.indexed_columns import index_advice
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import decode_transaction
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import LookedAt, PartitionReport, TableReport
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.writer_options import WriterOptions

PATH, TXN = "table", "_txn"
DAY = 86_400_000_000
DAYS, ROWS_OF_A_DAY, ROWS_OF_A_GROUP = 2, 20, 4
WIDE, WIDE_TEXT = "wide", "".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(1_000))
REASONS = {
    "it is not there": ("ENOENT",),
    "permission denied": ("EACCES", "EPERM"),
    "it is a directory": ("EISDIR",),
    "it or a part of its path is not a directory": ("ENOTDIR",),
    "it is not a regular file": ("ENXIO", "ENODEV"),
    "its name is too long": ("ENAMETOOLONG",),
    "a symbolic link in its path leads in a circle or must not be followed": ("ELOOP",),
    "it is already there": ("EEXIST",),
    "it is not empty": ("ENOTEMPTY",),
    "no space is left": ("ENOSPC", "EDQUOT"),
    "the file system is read-only": ("EROFS",),
    "it is closed or was not opened for this": ("EBADF",),
    "input/output error": ("EIO",),
}
"""Of the numbers of the system, by their names."""

REJECTING: dict[str, TornproofError] = {
    "_pm: cannot open: no space is left": StorageError("_pm", "open", "no space is left"),
    "_pm: cannot read: it is not there": FileMissingError("_pm", "read", "it is not there"),
    "another process holds the table": BusyError("another process holds the table"),
    "this is no table": NotATableError("this is no table"),
    "_pm: CRC at byte 8: expected 1, found 2": CorruptError("_pm", "CRC", 8, 1, 2),
    "_txn: size: expected 64, found 65": UnsupportedError("_txn", "size", None, 64, 65),
}
"""Errors for which something is rejected, by the words that a user must see."""


def counted_reads() -> Iterator[Question]:
    """Yield reads of a range of times and values, and what is counted of their row groups, rows and columns."""
    rows = [
        (FIRST_TIME + day * DAY + number, day * ROWS_OF_A_DAY + number)
        for day, number in itertools.product(range(DAYS), range(ROWS_OF_A_DAY))
    ]
    groups = [rows[at : at + ROWS_OF_A_GROUP] for at in range(0, len(rows), ROWS_OF_A_GROUP)]
    for (first, last), values, names in itertools.product(
        ((0, 39), (4, 7), (5, 9), (18, 21), (39, 39)), ((0, 39), (4, 7), (6, 30), (50, 60)), (["v"], ["ts", "v"])
    ):
        times = rows[first][0], rows[last][0]
        in_time = [group for group in groups if group[-1][0] >= times[0] and group[0][0] <= times[1]]
        read = [group for group in in_time if group[-1][1] >= values[0] and group[0][1] <= values[1]]
        found = [row for row in rows if times[0] <= row[0] <= times[1] and values[0] <= row[1] <= values[1]]
        expected = {
            "row groups": len(groups),
            "read": len(read),
            "time": len(groups) - len(in_time),
            "statistics": len(in_time) - len(read),
            "rows of those read": sum(map(len, read)),
            "rows": len(found),
            # The condition needs both columns.
            "chunks": 2 * len(read),
            "bytes of other files": 0,
        }
        words = f"{' and '.join(names)} of rows {first} to {last} with values from {values[0]} to {values[1]}"
        yield ask("counts of reads", f"a read of {words}", expected, _counted, tuple(rows), names, times, values)
    for flags in itertools.product((PARQUET | GENERATED, GENERATED, 0), repeat=3):
        words = f"the rows that are not read of partitions with the flags {flags}"
        row_count = sum(1 + day for day, each in enumerate(flags) if not each & PARQUET)
        yield ask("counts of reads", words, row_count, _native_rows, flags)
    words = "the chunks that are decoded of columns without values"
    yield Question("counts of reads", words, _chunks_without_values, 1)
    words = "whether a read of narrow columns takes the wide one between them"
    yield Question("counts of reads", words, _takes_wide, False)


def _chunks_without_values() -> int:
    """Return how many chunks are decoded of a column with values and one of nulls alone."""
    storage, counters = MemoryStorage(), ReadCounters()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "null": "VARCHAR"})
    commit_rows(storage, PATH, pa.table({"ts": [FIRST_TIME], "null": pa.nulls(1, pa.string())}))
    needed([*open_snapshot(open_table(storage, PATH)).batches(counters=counters)], "there are no rows")
    return counters.chunk_count


def _native_rows(flags: Sequence[int]) -> int:
    metadata = TableMetadata(
        columns=(TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),), partition_by=PartitionBy.DAY, timestamp_id=0
    )
    table = Table(storage=DiskImage({}), path=PATH, metadata=metadata)
    return snapshot_of(table, decode_transaction(_transaction(flags), file=TXN)).native_row_count


def _takes_wide() -> bool:
    """Return whether a read of many narrow columns reads as many bytes as the wide one takes that they are around."""
    storage, narrow = MemoryStorage(), [f"n{number}" for number in range(40)]
    types = {
        "ts": "TIMESTAMP",
        **dict.fromkeys(narrow[:20], "LONG"),
        WIDE: "VARCHAR",
        **dict.fromkeys(narrow[20:], "LONG"),
    }
    new_table(storage, PATH, types)
    values = [pa.array([FIRST_TIME]), *[pa.array([1])] * 20, pa.array([WIDE_TEXT]), *[pa.array([1])] * 20]
    commit_rows(storage, PATH, pa.table(dict(zip(types, values, strict=True))))
    counters = ReadCounters()
    with replaced("tornproof.impl.table.partition:GAP_MAX_BYTES", len(WIDE_TEXT) // 8):
        needed(len([*open_snapshot(open_table(storage, PATH)).batches(narrow, counters=counters)]), "there are no rows")
    return counters.read_bytes > len(WIDE_TEXT) // 2


def _counted(
    rows: tuple[tuple[int, int], ...], names: list[str], times: tuple[int, int], values: tuple[int, int]
) -> dict[str, int]:
    snapshot, counters = _snapshot(rows), ReadCounters()
    where = parse_predicate(f"v BETWEEN {values[0]} AND {values[1]}", snapshot.columns)
    within = TimeRange(start=times[0], end=times[1] + 1)
    batches = [*snapshot.batches(names, within, where, counters)]
    needed(counters.returned_row_count == sum(batch.num_rows for batch in batches), "other rows are counted")
    return {
        "row groups": counters.row_group_count,
        "read": counters.kept_row_group_count,
        "time": counters.pruned[Reason.TIME],
        "statistics": counters.pruned[Reason.STATISTICS],
        "rows of those read": counters.scanned_row_count,
        "rows": counters.returned_row_count,
        "chunks": counters.chunk_count,
        "bytes of other files": counters.data_bytes - sum(each.token for each in snapshot.transaction.partitions),
    }


@functools.cache
def _snapshot(rows: tuple[tuple[int, int], ...]) -> Snapshot:
    image = table_of_rows(PATH, [*rows], options=WriterOptions(row_group_row_count_max=ROWS_OF_A_GROUP))
    return open_snapshot(open_table(MemoryStorage.of(image), PATH))


def counted_migrations() -> Iterator[Question]:
    """Yield what is counted of migrations, and of what there is to migrate in tables of several formats."""
    names = ("migrated", "replaced", "already", "rejected")
    for outcomes, native_count in itertools.product(
        itertools.chain.from_iterable(itertools.product(names, repeat=count) for count in range(3)), (0, 3)
    ):
        expected = {**{name: outcomes.count(name) for name in names}, "native": native_count}
        words = f"a migration of partitions that are {', '.join(outcomes) or 'none'} beside {native_count} native ones"
        found = functools.partial(_counts, outcomes, native_count)
        yield Question("counts of migrations", words, found, (expected, "rejected" not in outcomes))
    for problem_count, reason in itertools.product(range(2), ("", "there is another writer")):
        of = Migration(path=PATH, problems=(Problem(TXN, "file", None, "", ""),) * problem_count, reason=reason)
        words = f"whether a migration with {problem_count} problems and the reason {reason!r} is complete"
        yield ask("counts of migrations", words, not problem_count and not reason, getattr, of, "is_complete")
    for flags in itertools.product((PARQUET | GENERATED, 0), repeat=3):
        image = DiskImage.of_files({f"{PATH}/{TXN}": _transaction(flags)})
        days = [(f"1970-01-0{1 + day}", (each,)) for day, each in enumerate(flags)]
        for only, meant in ((None, flags), *days):
            there_is = sum(map(bool, meant)), sum(not each for each in meant)
            words = f"what to migrate of {only or 'all'} of partitions with the flags {flags}"
            yield ask("counts of migrations", words, there_is, _planned, image, only)


def rejected_for() -> Iterator[Question]:
    """Yield errors, each of which is a problem of a file or not, and why a partition and a table are rejected."""
    for words, error in REJECTING.items():
        said = ([words], "") if isinstance(error, ProblemError) else ([], words)
        name = f"a rejection of 8 bytes for {type(error).__name__}: {words}"
        partition = ("day", "rejected", 8, words)
        yield ask("counts of migrations", f"the partition of {name}", (*partition, *said), _rejected_partition, words)
        yield ask("counts of migrations", f"the table of {name}", (PATH, False, *said), _rejected_table, words)


def _rejected_partition(words: str) -> tuple[Any, ...]:
    found = rejection("day", 8, REJECTING[words])
    return found.name, str(found.outcome), found.token, found.sentence, [*map(str, found.problems)], found.reason


def _rejected_table(words: str) -> tuple[Any, ...]:
    found = rejected_table(PATH, REJECTING[words])
    return found.path, found.is_complete, [*map(str, found.problems)], found.reason


def _counts(outcomes: Sequence[str], native_count: int) -> tuple[dict[str, int], bool]:
    partitions = tuple(
        PartitionMigration(name=f"{number}", outcome=Outcome(outcome), token=8)
        for number, outcome in enumerate(outcomes)
    )
    migration = Migration(path=PATH, partitions=partitions, native_count=native_count)
    return dict(migration.counts()), migration.is_complete


def _transaction(flags: Sequence[int]) -> bytes:
    """Return the transaction of a day for each flag, of as many rows as there are days by then."""
    entries = [
        Entry(timestamp=day * DAY, row_count=1 + day, flags=each, token=100 if each else -1)
        for day, each in enumerate(flags)
    ]
    return of_entries(entries).content()


def _planned(image: DiskImage, only: str | None) -> Any:
    plan = plan_table(MemoryStorage.of(image), PATH, only=only)
    return (len(plan.partitions), plan.native_count) if isinstance(plan, TablePlan) else plan


def verdicts() -> Iterator[Question]:
    """Yield tables of sound partitions in both formats, and the verdict, which says what it does not cover."""
    for parquet_count, native_count, is_looked_at in itertools.product(range(3), range(3), (False, True)):
        looked_at = "sizes" if is_looked_at else "nothing"
        limit = "looked at only in sizes" if is_looked_at else "not looked at"
        native = f"{_some(native_count, 'native partition')} ({_some(7 * native_count, 'row')}) {limit}"
        words = f"{_some(parquet_count, 'parquet partition')}"
        yield ask(
            "verdicts",
            f"{words} and {native}",
            f"sound in its {words}; {native}" if native_count else "sound",
            _verdict,
            parquet_count,
            native_count,
            looked_at,
        )
    for counts in itertools.product(range(3), repeat=3):
        words = f"the verdict on a table with {counts[0]} problems, and {counts[1]} and {counts[2]} in its partitions"
        expected = f"damaged: {_some(sum(counts), 'problem')}" if any(counts) else "sound"
        yield ask("verdicts", words, expected, _verdict_on, counts)
    for offset_bytes in (None, 0, 1, 4096):
        where = "" if offset_bytes is None else f" at byte {offset_bytes}"
        problem = Problem("_txn", "VERSION", offset_bytes, "2", "3")
        words = f"the words for a problem{where or ' of a whole file'}"
        yield ask("verdicts", words, f"_txn: VERSION{where}: expected 2, found 3", str, problem)


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _verdict(parquet_count: int, native_count: int, looked_at: str) -> str:
    partitions = [
        *(PartitionReport(name="p", format="parquet", rows=5, token=8) for _ in range(parquet_count)),
        *(
            PartitionReport(name="n", format="native", rows=7, token=-1, looked_at=LookedAt(looked_at))
            for _ in range(native_count)
        ),
    ]
    return TableReport(table=PATH, version=1, partitions=tuple(partitions)).verdict


def advice() -> Iterator[Question]:
    """Yield tables in directories as servers name them, and the statements that help, and how many rows are new."""
    column = TableColumn(id=0, name="s", type=TypeTag.SYMBOL, is_indexed=True)
    metadata = TableMetadata(columns=(column,), partition_by=PartitionBy.DAY, timestamp_id=-1)
    for path in ("trades", "trades~12", "root/trades~12/", "/root~1/trades"):
        table = Table(storage=DiskImage({}), path=path, metadata=metadata)
        for words, found, statement in (
            ("an index", index_advice, 'ALTER TABLE "trades" ALTER COLUMN "s" DROP INDEX'),
            (
                "a last partition in Parquet",
                lambda each: parquet_last_advice(each, True),
                'ALTER TABLE "trades" SET TYPE',
            ),
        ):
            name = f"whether {statement} is the advice for {path} with {words}"
            yield ask("advice", name, True, _advises, found, table, statement)
    for row_count, replaced_count in ((5, None), (5, 0), (5, 3), (5, 5)):
        words = f"the new rows of a partition of {row_count} in place of one of {replaced_count}"
        yield ask("advice", words, row_count - (replaced_count or 0), _new_rows, row_count, replaced_count)


def _advises(advice: Callable[[Table], str | None], table: Table, statement: str) -> bool:
    return statement in (advice(table) or "")


def _new_rows(row_count: int, replaced_count: int | None) -> int:
    counts = [] if replaced_count is None else [replaced_count, 1]
    entries = [Entry(timestamp=day * DAY, row_count=count) for day, count in enumerate(counts)]
    partitions = decode_transaction(of_entries(entries).content(), file=TXN).partitions
    replaces = partitions[0] if partitions else None
    prepared = PreparedPartition(directory_path="new", timestamp=0, row_count=row_count, token=8, replaces=replaces)
    return prepared.new_row_count


def _verdict_on(counts: tuple[int, ...]) -> str:
    problem = Problem("data.parquet", "pages", 4, "others", "these")
    own, *of_partitions = counts
    partitions = [
        PartitionReport(name="p", format="parquet", rows=5, token=8, problems=(problem,) * count)
        for count in of_partitions
    ]
    return TableReport(table=PATH, version=1, problems=(problem,) * own, partitions=tuple(partitions)).verdict


def changed_sizes() -> Iterator[Question]:
    """Yield changes of a file's form, and its sizes before and after, and those of its footer."""
    for form in FORMS:
        yield ask("sizes", f"the sizes of a file that gets a {form.name}", True, _sizes, form)
        words = f"whether a file that gets a {form.name} is the same if few bytes are read at a time"
        yield ask("sizes", words, True, _is_same_in_parts, form)
    form = next(each for each in FORMS if each.footer is FooterForm.FINAL)
    words = "what comes of changing a file that another process cuts in front of any of its reads"
    yield ask("sizes", words, {BusyError.__name__}, _of_cut_files, form)


def _is_same_in_parts(form: Form) -> bool:
    whole = in_form(few_numbers(), form.footer, form.chunks, form.header)
    migrate = "tornproof.impl.migrate"
    with (
        replaced(f"{migrate}.chunk_form:PART_SIZE_BYTES", 100),
        replaced(f"{migrate}.footer_form:PART_SIZE_BYTES", 100),
    ):
        return in_form(few_numbers(), form.footer, form.chunks, form.header) == whole


def _of_cut_files(form: Form) -> set[str]:
    """Return the outcomes of a change in front of any of whose reads another process cuts the file."""
    outcomes = set[str]()
    for first in itertools.count():
        disk = MemoryStorage.of(DiskImage.of_files({"before": few_numbers()}))
        cut = functools.partial(_cut, disk)
        storage = BesideStorage(disk, cut, first=first, may_act=lambda call: call.kind is CallKind.PREAD)
        outcome = outcome_of(functools.partial(change_footer_form, storage, "before", form.footer, out="after"))
        if storage.acted_at is None:
            break
        outcomes.add(outcome)
    return outcomes


def _cut(disk: MemoryStorage) -> bool:
    with disk.open_for_writing("before") as file:
        file.truncate(1)
    return True


def _sizes(form: Form) -> Any:
    """Return whether all sizes are right, and if not what is said and what is right."""
    before = few_numbers()
    storage = MemoryStorage.of(DiskImage.of_files({"before": before}))
    said = change_footer_form(storage, "before", form.footer, chunks=form.chunks, out="after", header=form.header)
    after = storage.image().files["after"]
    of_footers = (len(content) - opened(content).offset_bytes for content in (before, after))
    right = (len(before), len(after), *of_footers)
    found = (said.size_before, said.size_after, said.footer_before, said.footer_after)
    return found == right or f"{found}, and not {right},"


def refusals() -> Iterator[Question]:
    """Yield the errors of a system, and the reason that each is; of others it has the words."""
    for reason, names in REASONS.items():
        for name in names:
            yield ask("refusals", f"a call that ends in {name}", reason, _refusal, name)


def _refusal(name: str) -> str:
    try:
        with TranslateOsErrors("_txn", "open"):
            raise OSError(getattr(errno, name), "the words of a system")
    except StorageError as error:
        return str(error.reason)
