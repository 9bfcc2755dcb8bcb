"""What a verification, a recovery and a reader make of a table of which one partition is not in Parquet, or not yet."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import (
    PATH,
    Files,
    storage_of,
    two_days,
    with_entry,
    with_metadata_version,
    with_number,
    without,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.worked_out.tables.new_tables import META_COLUMN, META_HEADER
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import CorruptError, RowsRejectedError, UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.metadata_file import META_FILE, NAME_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.sequencer import SEQUENCER_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table

FIRST, UNFINISHED = "2024-01-01.0", f"{PM_FILE}.recovering"
LARGE_BYTES = (16 << 20) + 1
PARTITION_BY, NO_INTERVALS, DAYS = 4, 3, 0
"""Where `_meta` has the interval of partitions, and two of them."""
INTERVALS = (NO_INTERVALS, DAYS, None)
"""And no `_meta` at all."""
NO_TIME, VERSION = -(1 << 63), 6


def other_partitions() -> Iterator[Question]:
    """Yield tables of two days, one row each, of which the first or a file of the table is another one."""
    for name, (files_of, verified, recovered, read) in STATES.items():
        for words, of, expected in (
            ("what a verification finds of", _verified, verified),
            ("what a recovery finds of", _recovered, recovered),
            ("what a second recovery finds of", _recovered_again, (recovered[0] and [], *recovered[1:])),
            ("how many rows are read, and how many are in native partitions, of", _row_count, read),
        ):
            yield ask("other partitions", f"{words} a table {name}", expected, of, files_of)
    # Without intervals and a last time servers neither write nor read the entry, which has what was there before.
    for interval, row_count, max_timestamp in itertools.product(INTERVALS, (0, 1), (NO_TIME, FIRST_TIME)):
        is_read = (interval, max_timestamp) != (NO_INTERVALS, NO_TIME)
        table = f"a table with the intervals {interval}, {row_count} rows until {max_timestamp}"
        for flags, name_txn, token in ((PARQUET, -1, 1 << 40), (0, VERSION - 1, -1), (0, VERSION, 0)):
            stored = [(FIRST_TIME, flags, name_txn, token, row_count)]
            usual = [(0, 0, -1, -1, row_count)] if row_count else []
            expected = stored if is_read else usual
            words = f"the partitions of {table}, and an entry of directory {name_txn} with the token {token}"
            found = functools.partial(_entries, interval, row_count, max_timestamp, flags, name_txn, token)
            is_wrong = is_read and name_txn >= VERSION
            yield Question("other partitions", words, found, "CorruptError" if is_wrong else expected)
    # A later release marks the SEQ_TXN of a native partition with bit 62; those below it up to 56 are nobody's.
    for token in (
        -1,
        0,
        1,
        1 << 40,
        1 << 55,
        1 << 61,
        1 << 62,
        17 | 1 << 62,
        (1 << 56) - 1 | 1 << 62,
        3 << 61,
        (1 << 63) - 1,
    ):
        is_sound = token < 1 or token >> 56 == 1 << 6
        words = f"what a verification finds of a native partition with the token {token}"
        yield ask("other partitions", words, [] if is_sound else ["TOKEN of 2024-01-01"], _of_native, token)
    for flags in (0, GENERATED, PARQUET):
        words = f"whether a partition with the flags {flags:#x} is rewritten"
        yield ask("other partitions", words, flags == PARQUET, _is_rewritten, flags)


def _is_rewritten(flags: int) -> bool:
    """Say whether a writer takes the first partition for one that it can rewrite, or one whose rows are elsewhere."""
    storage = storage_of(with_entry(two_days(), flags))
    with open_writer_of_copy(storage, PATH) as writer:
        try:
            first, *_ = writer.transaction.partitions
            writer.rewrite_partition(first.timestamp)
            writer.rollback()
        except RowsRejectedError as error:
            needed("its rows are not in Parquet" in str(error), "the error says why")
            return False
    return True


def _entries(interval: int | None, row_count: int, max_timestamp: int, flags: int, name_txn: int, token: int) -> Any:
    entry = Entry(timestamp=FIRST_TIME, row_count=row_count, flags=flags, name_txn=name_txn, token=token)
    version = of_entries([entry], min_timestamp=FIRST_TIME, max_timestamp=max_timestamp)
    files: Files = {**two_days(), TXN_FILE: version.content()}
    files = without(files, META_FILE) if interval is None else with_number(files, META_FILE, PARTITION_BY, interval)
    table = open_table(storage_of(files), PATH)
    return outcome_of(
        lambda: [
            (each.timestamp, each.flags, each.name_txn, each.token, each.row_count)
            for each in table.transaction().partitions
        ]
    )


def _of_native(token: int) -> list[str]:
    table = open_table(storage_of(_with_native_partition(is_there=True, token=token)), PATH)
    return [problem.field for problem in verify_table(table).all_problems]


def _with_native_partition(*, is_there: bool, token: int = -1) -> Files:
    files = with_entry(two_days(), 0, name_txn=-1, token=token)
    columns = {"2024-01-01/ts.d": struct.pack("<q", FIRST_TIME), "2024-01-01/v.d": bytes(8)}
    return {**without(files, FIRST), **(columns if is_there else {})}


def _before_pm(*, cut_bytes: int = 0) -> Files:
    """Return a partition as releases before 9.4.0 left it."""
    files, data = with_entry(two_days(), PARQUET), f"{FIRST}/{DATA_FILE}"
    return {**without(files, f"{FIRST}/{PM_FILE}"), data: files[data][: len(files[data]) - cut_bytes]}


def _with_column_version(version: int) -> Files:
    files = two_days()
    return {**files, CV_FILE: version.to_bytes(8, "little") + files[CV_FILE][8:]}


STATES: dict[str, tuple[Callable[[], Files], Any, Any, Any]] = {
    "that is as it was": (two_days, ([], 0), ([], [], 0), (2, 0)),
    "with a native partition": (functools.partial(_with_native_partition, is_there=True), ([], 0), ([], [], 0), (1, 1)),
    "with a native partition that is gone": (
        functools.partial(_with_native_partition, is_there=False),
        (["directory"], 0),
        ([], [], 0),
        (1, 1),
    ),
    "with a partition whose entry says that it is native": (
        lambda: with_entry(two_days(), 0),
        ([f"TOKEN of {FIRST}", f"PARQUET_FORMAT of {FIRST}"], 0),
        ([], [f"TOKEN of {FIRST}", f"PARQUET_FORMAT of {FIRST}"], 0),
        CorruptError.__name__,
    ),
    "with a partition whose entry says that nothing is in Parquet": (
        lambda: with_entry(two_days(), 0, token=-1),
        ([f"PARQUET_FORMAT of {FIRST}"], 0),
        ([], [f"PARQUET_FORMAT of {FIRST}"], 0),
        CorruptError.__name__,
    ),
    "with a partition of an older release": (_before_pm, ([], 1), ([], [], 1), UnsupportedError.__name__),
    "with a partition of an older release, cut by a byte": (
        functools.partial(_before_pm, cut_bytes=1),
        (["size"], 0),
        ([], ["size"], 1),
        UnsupportedError.__name__,
    ),
    "with a partition in a year that no directory can have": (
        lambda: with_entry(two_days(), PARQUET | GENERATED, day=-(1 << 22)),
        (["TIMESTAMP of a partition"], 0),
        ([], ["TIMESTAMP of a partition"], 0),
        CorruptError.__name__,
    ),
    "with an unfinished file of a recovery": (
        lambda: {**two_days(), f"{FIRST}/{UNFINISHED}": b"left"},
        ([], 0),
        (["remove_unfinished"], [], 0),
        (2, 0),
    ),
    "whose _cv is one version ahead": (
        functools.partial(_with_column_version, 1),
        ([], 0),
        (["take_back_version"], [], 0),
        (2, 0),
    ),
    "whose _cv is two versions ahead": (
        functools.partial(_with_column_version, 2),
        (["VERSION"], 0),
        ([], ["VERSION"], 0),
        (2, 0),
    ),
    "whose _cv is larger than readers take": (
        lambda: {**two_days(), CV_FILE: bytes(LARGE_BYTES)},
        ([], 1),
        ([], [], 1),
        (2, 0),
    ),
    "whose log has a transaction more": (
        lambda: {**two_days(), SEQUENCER_FILE: struct.pack("<iq", 0, 1)},
        ([], 1),
        ([], [], 0),
        (2, 0),
    ),
    "whose _meta says another type than its partitions": (
        lambda: with_number(two_days(), META_FILE, META_HEADER.size + META_COLUMN.size, 99),
        (["TYPE of column 'v'"] * 2, 0),
        ([], ["TYPE of column 'v'"] * 2, 0),
        CorruptError.__name__,
    ),
    "whose _meta has another version": (lambda: with_metadata_version(two_days(), 1), ([], 1), ([], [], 0), (2, 0)),
    "that is a mere copy of commits": (
        lambda: without(two_days(), CV_FILE, META_FILE, NAME_FILE),
        ([], 1),
        ([], [], 0),
        (2, 0),
    ),
    "that has lost its _meta": (lambda: without(two_days(), META_FILE), (["file"], 0), ([], [], 0), (2, 0)),
}
"""Its files; fields with problems and the count of notes of a verification; what a recovery does, and its fields and
notes; and the rows that are read, with those that are native."""


def _verified(files_of: Callable[[], Files]) -> Any:
    report = verify_table(open_table(storage_of(files_of()), PATH))
    return [problem.field for problem in report.all_problems], len(report.notes)


def _recovered(files_of: Callable[[], Files], storage: MemoryStorage | None = None) -> Any:
    report = repair_table(storage or storage_of(files_of()), PATH)
    kinds = [str(action.kind) for action in report.actions]
    return kinds, [problem.field for problem in report.problems], len(report.notes)


def _recovered_again(files_of: Callable[[], Files]) -> Any:
    storage = storage_of(files_of())
    repair_table(storage, PATH)
    return _recovered(files_of, storage)


def _row_count(files_of: Callable[[], Files]) -> Any:
    def count() -> tuple[int, int]:
        snapshot = open_snapshot(open_table(storage_of(files_of()), PATH))
        return sum(batch.num_rows for batch in snapshot.batches(["v"])), snapshot.native_row_count

    return outcome_of(count)
