"""What a writer needs of a table and of a partition, and how it ends: closed with changes, killed, or rejected."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.parquet.partition_contents import Contents
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import (
    DAY,
    PATH,
    Files,
    storage_of,
    two_days,
    with_entry,
    with_number,
    without,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import commit, table_of
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage, RefusingStorage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.storage.interface import Storage, StorageReason
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.table_writer import TableWriter, UncommittedError, open_writer
from tornproof.impl.write.writer_options import WriterOptions

Asked: TypeAlias = tuple[str, Callable[[], Any], Any]
"""A question in words, what is found, and what is right."""

FIRST_DAY = FIRST_TIME // DAY * DAY
READ_ONLY = 1 << 62
PURGED_COUNT = 3
COMMIT_COUNT, SYMBOLS_MANY, PARTITIONS_MANY = 3, 40, 150
HOUR = DAY // 24
PARTITION_BY_OFFSET_BYTES, TIME_INDEX_OFFSET_BYTES = 4, 8
"""Of the intervals and of the designated timestamp in `_meta`."""
PARTITIONS = {
    "as writers leave it": (PARQUET | GENERATED, True, 2),
    "that is read-only": (PARQUET | GENERATED | READ_ONLY, True, RowsRejectedError.__name__),
    "whose rows are not in Parquet": (0, True, RowsRejectedError.__name__),
    "that has no _pm": (PARQUET, False, RowsRejectedError.__name__),
}
"""The flags of a partition, whether it has a `_pm`, and the version after a commit to it."""

INTEGERS = (
    "BYTE SHORT CHAR INT LONG DATE TIMESTAMP TIMESTAMP_NS IPv4 GEOHASH(5b) GEOHASH(12b) GEOHASH(30b) GEOHASH(60b)"
)
TEXTS, BYTES = "STRING VARCHAR BINARY", "UUID LONG128 LONG256 DECIMAL(2,1) DECIMAL(9,1) DECIMAL(38,1) DECIMAL(76,1)"
TYPES = f"BOOLEAN FLOAT DOUBLE SYMBOL {INTEGERS} {TEXTS} {BYTES} DOUBLE[] DOUBLE[][]".split()
SERVERS_READ = {
    Encoding.DICTIONARY: f"{INTEGERS} {TEXTS} {BYTES} FLOAT DOUBLE SYMBOL",
    Encoding.PLAIN: f"{INTEGERS} {TEXTS} {BYTES} FLOAT DOUBLE BOOLEAN DOUBLE[] DOUBLE[][]",
    Encoding.DELTA_BINARY_PACKED: INTEGERS,
    Encoding.DELTA_LENGTH_BYTE_ARRAY: f"{TEXTS} DOUBLE[] DOUBLE[][]",
    Encoding.DELTA_BYTE_ARRAY: "VARCHAR",
    Encoding.BYTE_STREAM_SPLIT: "",
}
SERVERS_REFUSE = {
    Encoding.DICTIONARY: "DOUBLE[] DOUBLE[][]",
    Encoding.DELTA_BYTE_ARRAY: f"STRING BINARY {BYTES} DOUBLE[] DOUBLE[][]",
    Encoding.BYTE_STREAM_SPLIT: f"{INTEGERS} {BYTES} FLOAT DOUBLE",
}
"""The types whose values can be in an encoding, which some server reads, and which none does."""
TAKEN, REFUSED, NEVER = (True, True), (False, True), (False, False)


def writers() -> Iterator[Question]:
    """Yield tables that no writer opens, partitions that none writes to, and writers that end in some way."""
    ends = (*_closings(), *_withdrawals(), *_losses())
    opened = (
        *_openings(),
        *_changes(),
        *_purges(),
        *_uncommitted(),
        *_announcements(),
        *_options(),
        *_options_for_servers(),
        *_rows_named(),
        *_duplicates(),
        *_symbols(),
        *_growth(),
        *_opened_files(),
    )
    for kind, asked in (("writers", opened), ("ends of writers", ends)):
        yield from (Question(kind, words, found, expected) for words, found, expected in asked)


def _openings() -> Iterator[Asked]:
    for of, change, expected in (
        ("as it is", two_days, 1),
        ("without _meta", lambda: without(two_days(), META_FILE), "NotATableError"),
        (
            "whose _meta names no time",
            lambda: with_number(_without_intervals(), META_FILE, TIME_INDEX_OFFSET_BYTES, -1),
            "NotATableError",
        ),
    ):
        words = f"the version that a writer opens of a table {of}"
        yield words, functools.partial(_version_of_writer, change), expected
    for is_mapped, force in itertools.product((False, True), repeat=2):
        by = f"a table that a server {'maps' if is_mapped else 'has closed'}{', opened by force' if force else ''}"
        found = functools.partial(_version_of_writer, two_days, is_mapped=is_mapped, force=force)
        yield f"the version that a writer opens of {by}", found, "BusyError" if is_mapped and not force else 1


def _without_intervals() -> Files:
    return with_number(two_days(), META_FILE, PARTITION_BY_OFFSET_BYTES, PartitionBy.NONE)


def _changes() -> Iterator[Asked]:
    for (of, (flags, has_pm, version)), is_rewrite in itertools.product(PARTITIONS.items(), (False, True)):
        words = f"the version after a partition {of} {'is rewritten' if is_rewrite else 'gets rows'}"
        yield words, functools.partial(_version_after, flags, has_pm=has_pm, is_rewrite=is_rewrite), version
    for has_rows, is_rewrite in itertools.product((False, True), repeat=2):
        changes = [words for words, is_made in (("rows", has_rows), ("a rewrite", is_rewrite)) if is_made]
        words = f"the row groups of each partition, and whether it is new, after {' and '.join(changes) or 'nothing'}"
        expected = [1 if is_rewrite else 1 + has_rows, 1], [is_rewrite, False]
        yield words, functools.partial(_groups_after, has_rows=has_rows, is_rewrite=is_rewrite), expected


def _purges() -> Iterator[Asked]:
    """Yield versions that readers have pinned, of which each but the last needs a directory of its own."""
    for pinned in itertools.product((False, True), repeat=PURGED_COUNT):
        versions = [number for number, is_pinned in enumerate(pinned, start=1) if is_pinned]
        words = f"the versions whose directory a purge leaves while the versions {versions} are pinned"
        yield words, functools.partial(_left_by_purge, pinned), versions


def _uncommitted() -> Iterator[Asked]:
    """Yield directories that version 1 does not name: those of it and of later ones were never committed."""
    for numbers in ((0,), (1,), (2,), (3, 9), (0, 1, 2, 11)):
        words = f"the directories with the numbers {numbers} that a writer leaves when it opens version 1"
        yield words, functools.partial(_left_by_opening, numbers), [number for number in numbers if number < 1]


def _announcements() -> Iterator[Asked]:
    """Yield writers that announce their next commit several times, of which the last announcement counts."""
    for count in range(4):
        words = f"which of {count} announcements of a commit are of the one that is made"
        yield words, functools.partial(_announced, count), [number == count - 1 for number in range(count)]


def _duplicates() -> Iterator[Asked]:
    """Yield commits of a row group each, which ask for duplicates or for none, or leave that to the partition."""
    for asked in itertools.product((True, False, None), repeat=COMMIT_COUNT):
        expected: list[bool] = []
        for wanted in asked:
            expected.append(any(expected) if wanted is None else wanted)
        words = f"the row groups with duplicates after commits that ask for {', '.join(map(str, asked))}"
        yield words, functools.partial(_groups_with_duplicates, asked), expected


def _options() -> Iterator[Asked]:
    """Yield options of which a number is asked, for which a truth is none."""
    numbers = "level", "page_size_bytes", "page_row_count_max"
    for name, value in itertools.product(numbers, (True, False, 1, np.int64(1), 1.5)):
        expected = "OptionsRejectedError" if isinstance(value, bool | float) else name
        found = functools.partial(_with_option, name, value)
        yield f"what comes of the option {name} that is {value!r}", found, expected


def _options_for_servers() -> Iterator[Asked]:
    """Yield what is asked for of a column of each type, and of footers, and whether it is taken for servers, or at all.

    What servers read was asked release 9.3.4, and its sources of July 2026.
    """
    for encoding, types in SERVERS_READ.items():
        for of in TYPES:
            is_read = of in types.split()
            expected = TAKEN if is_read else REFUSED if of in SERVERS_REFUSE.get(encoding, "").split() else NEVER
            options = EncodeOptions(columns={"x": ColumnOptions(encoding=encoding)})
            words = f"whether a column of {of} in {encoding.name} is taken, for servers and for others"
            yield words, functools.partial(_taken, of, options), expected
    for form in (None, *FooterForm):
        expected = NEVER if form is FooterForm.FINAL else TAKEN if form in (None, FooterForm.THRIFT) else REFUSED
        words = f"whether the footer {form} is taken, for servers and for others"
        yield words, functools.partial(_taken, "LONG", EncodeOptions(footer_extension=form)), expected
    for duplicates in (None, False, True):
        words = f"whether duplicates, {duplicates}, are taken, for servers and for others"
        found = functools.partial(_taken, "LONG", EncodeOptions(duplicates=duplicates))
        yield words, found, REFUSED if duplicates else TAKEN


def _taken(of: str, encoding: EncodeOptions) -> tuple[bool, bool]:
    """Whether a writer of a table with a column of a type opens with options, without asking for more and with it."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "x": of})

    def is_taken(allow: bool) -> bool:
        with _opened(storage, WriterOptions(encoding=encoding, allow_unreadable_by_servers=allow)):
            return True

    without, asked = (outcome_of(functools.partial(is_taken, allow)) is True for allow in (False, True))
    return without, asked


def _rows_named() -> Iterator[Asked]:
    """Yield texts for characters and addresses, of which one stands for none, and others are there twice."""
    for of, (first, second, bad) in {"CHAR": ("a", "b", "ab"), "IPv4": ("10.0.0.1", "10.0.0.2", "10")}.items():
        for place in range(4):
            values = [first, first, second]
            values.insert(place, bad)
            yield (
                f"which row of {values} a column of {of} refuses",
                functools.partial(_refused_row, of, values),
                [place],
            )


def _refused_row(of: str, values: Sequence[str]) -> list[int]:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": of})
    with suppress(UncommittedError), _opened(storage) as writer:
        try:
            writer.write(pa.table({"ts": pa.array(range(4), pa.timestamp("us", "UTC")), "v": values}))
        except RowsRejectedError as error:
            return [row for row in range(4) if f"row {row}:" in str(error)]
    return []


def _with_option(name: str, value: object) -> Any:
    options: dict[str, Any] = {"codec": Codec.ZSTD, name: value}
    return outcome_of(lambda: EncodeOptions(**options) and name)


def _opened_files() -> Iterator[Asked]:
    for count in (1, SYMBOLS_MANY):
        words = f"how often a commit of {count} new symbols opens each file of the dictionary to write it"
        yield words, functools.partial(_opened_for_writing, count), {1}


def _growth() -> Iterator[Asked]:
    """Yield a commit that makes `_txn` larger: a hole would end the process on a full disk."""
    words = f"which calls make {TXN_FILE} larger that {PARTITIONS_MANY} partitions do not fit into"
    yield words, _growing, {CallKind.PWRITE}


def _symbols() -> Iterator[Asked]:
    """Yield symbols of characters with one code unit or two, which are added one after the other."""
    for symbols in itertools.product(("a", "é", "🌡", "a🌡b"), repeat=2):
        words = f"the symbols after a commit of {symbols[0]!r}, one of {symbols[1]!r} and more, and one of 'c'"
        several = tuple(f"{symbols[1]}{number}" for number in range(2))
        yield words, functools.partial(_symbols_after, ((symbols[0],), several, ("c",))), [symbols[0], *several, "c"]


def _closings() -> Iterator[Asked]:
    for (staged, (stage, error)), is_failing in itertools.product(STAGED.items(), (False, True)):
        words = f"how a writer is left with {staged}{', by an error' if is_failing else ''}"
        yield words, functools.partial(_left, stage, is_failing=is_failing), ("KeyError" if is_failing else error, 1)


def _withdrawals() -> Iterator[Asked]:
    for end, is_rejected, reason, expected in (
        ("is acknowledged", False, None, (2, False)),
        ("is rejected", True, None, (1, True)),
        ("fails while it is written", False, StorageReason.NO_SPACE, (1, False)),
    ):
        words = f"the version after an announced commit {end}, and whether it is withdrawn"
        yield words, functools.partial(_withdrawn, reason, is_rejected=is_rejected), expected


def _losses() -> Iterator[Asked]:
    for name, error in ((DATA_FILE, "FileMissingError"), (PM_FILE, RowsRejectedError.__name__)):
        words = f"what comes of rows for a partition whose {name} somebody removed after the last commit"
        yield words, functools.partial(_after_loss, name), (error, 0, [])
    for is_left, expected in ((False, ("ParquetLastError", 1)), (True, ("StorageError", "WriterDeadError"))):
        words = (
            f"what comes of a rejected commit whose directory {'stays' if is_left else 'is removed'}, and of another"
        )
        yield words, functools.partial(_after_rejection, is_left=is_left), expected


def _rows(writer: TableWriter) -> None:
    writer.write(table_of([(FIRST_TIME, 7)], writer.schema))


def _nothing(writer: TableWriter) -> None:
    writer.write(table_of([(FIRST_TIME, 7)], writer.schema).slice(1))


def _rows_taken_back(writer: TableWriter) -> None:
    _rows(writer)
    writer.rollback()


STAGED: dict[str, tuple[Callable[[TableWriter], None], str | None]] = {
    "rows": (_rows, "UncommittedError"),
    "no rows": (_nothing, None),
    "rows taken back": (_rows_taken_back, None),
    "a partition to drop": (lambda writer: writer.drop_partition(FIRST_DAY), "UncommittedError"),
    "a partition to rewrite": (lambda writer: writer.rewrite_partition(FIRST_DAY), "UncommittedError"),
}
"""What is staged, and the error that says so."""


def _opened(storage: Storage, options: WriterOptions | None = None, *, force: bool = False) -> TableWriter:
    return open_writer(storage, PATH, options=options, force=force, allow_parquet_last=True)


def _version_of_writer(files: Callable[[], Files], *, is_mapped: bool = False, force: bool = False) -> int | str:
    storage = storage_of(files())
    if is_mapped:
        storage.serve(f"{PATH}/{TXN_FILE}", "a server")
    version: int | str = outcome_of(lambda: _opened(storage, force=force).transaction.version)
    return version


def _version_after(flags: int, *, has_pm: bool, is_rewrite: bool) -> Any:
    """Return the version after a change of the first partition, which has these flags."""
    files = with_entry(two_days(), flags)
    kept = files if has_pm else without(files, f"2024-01-01.0/{PM_FILE}")

    def change() -> int:
        with _opened(storage_of(kept)) as writer:
            if is_rewrite:
                writer.rewrite_partition(FIRST_DAY)
            else:
                _rows(writer)
            return writer.commit()

    return outcome_of(change)


def _groups_after(*, has_rows: bool, is_rewrite: bool) -> tuple[list[int], list[bool]]:
    """Return the row groups of each partition after one commit that changes the first, and which are in a new place."""
    storage = storage_of(two_days())
    before = open_table(storage, PATH).transaction().partitions
    with _opened(storage) as writer:
        if has_rows:
            _rows(writer)
        if is_rewrite:
            writer.rewrite_partition(before[0].timestamp)
        if has_rows or is_rewrite:
            writer.commit()
    table = open_table(storage, PATH)
    after = table.transaction().partitions
    counts = [len(Contents.of(table, each).row_groups) for each in after]
    return counts, [each.name_txn != former.name_txn for each, former in zip(after, before, strict=True)]


def _left_by_purge(pinned: Sequence[bool]) -> list[int]:
    """Return the versions whose directory is there after a purge, without the last one; each rewrites a partition."""
    storage, directories = storage_of(two_days()), list[str]()
    with ExitStack() as pins, _opened(storage) as writer:
        for is_pinned in pinned:
            if is_pinned:
                pins.enter_context(pin_committed(storage, PATH))
            directories.append(writer.table.directory_of(writer.transaction.partitions[0]))
            writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
            writer.commit()
        writer.purge()
        there = storage.listdir(PATH)
    return [version for version, name in enumerate(directories, start=1) if name in there]


def _left_by_opening(numbers: Sequence[int]) -> list[int]:
    """Return the numbers of the directories of a day without rows that are there after a writer has opened."""
    storage = storage_of({**two_days(), **{f"1970-01-01.{number}/{DATA_FILE}": b"" for number in numbers}})
    with _opened(storage):
        there = storage.listdir(PATH)
    return [number for number in numbers if f"1970-01-01.{number}" in there]


def _announced(count: int) -> list[bool | None]:
    storage = storage_of(two_days())
    with _opened(storage) as writer:
        announced = [writer.announce(bytes([number])) for number in range(count)]
        _rows(writer)
        writer.commit()
    committed = open_table(storage, PATH).transaction()
    return [each.is_committed(committed) for each in announced]


def _symbols_after(commits: Sequence[Sequence[str]]) -> list[str]:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL"})
    for symbols in commits:
        _commit_symbols(storage, symbols)
    table = open_table(storage, PATH)
    return [*read_table_symbols(table, table.transaction())["s"].symbols]


def _growing() -> set[CallKind]:
    disk, path = MemoryStorage(), f"{PATH}/{TXN_FILE}"
    new_table(disk, PATH, {"ts": "TIMESTAMP"}, partition_by=PartitionBy.HOUR)
    before, storage = len(disk.image().files[path]), FaultyStorage(disk)
    _commit(storage, {"ts": [FIRST_TIME + number * HOUR for number in range(PARTITIONS_MANY)]})
    ends = {call.kind: call.offset_bytes + call.size_bytes for call in storage.calls if call.path == path}
    return {kind for kind in (CallKind.PWRITE, CallKind.TRUNCATE) if ends.get(kind, 0) > before}


def _commit_symbols(storage: Storage, symbols: Sequence[str]) -> None:
    _commit(storage, {"ts": range(FIRST_TIME, FIRST_TIME + len(symbols)), "s": symbols})


def _commit(storage: Storage, rows: dict[str, Sequence[Any]]) -> None:
    with _opened(storage) as writer:
        writer.write(pa.table(rows).cast(writer.schema))
        writer.commit()


def _opened_for_writing(symbol_count: int) -> set[int]:
    """Return how often each file of a dictionary is opened to be written by the second of two commits."""
    storage = FaultyStorage(MemoryStorage())
    new_table(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL"})
    for first in (0, symbol_count):
        storage.calls.clear()
        _commit_symbols(storage, [f"symbol {number}" for number in range(first, first + symbol_count)])
    opened = Counter(call.path for call in storage.calls if call.kind is CallKind.OPEN_FOR_WRITING)
    return {count for path, count in opened.items() if path.startswith(f"{PATH}/s.")}


def _groups_with_duplicates(asked: Sequence[bool | None]) -> list[bool]:
    """Return which row groups of the first partition have duplicates, without the one that was there before."""
    storage = storage_of(two_days())
    for number, duplicates in enumerate(asked, start=1):
        options = WriterOptions(
            row_group_row_count_max=1, encoding=EncodeOptions(duplicates=duplicates), allow_unreadable_by_servers=True
        )
        commit(storage, PATH, [(FIRST_TIME + number, number)], options=options)
    table = open_table(storage, PATH)
    contents = Contents.of(table, table.transaction().partitions[0])
    return [any(chunk.duplicate for chunk in chunks) for chunks in contents.row_groups[1:]]


def _left(stage: Callable[[TableWriter], None], *, is_failing: bool) -> tuple[str | None, int]:
    """Return the error with which a writer is left, and the version after it."""
    storage, error = storage_of(two_days()), None
    try:
        with _opened(storage) as writer:
            stage(writer)
            if is_failing:
                raise KeyError
    except (KeyError, UncommittedError) as raised:
        error = type(raised).__name__
    return error, _opened(storage).transaction.version


def _withdrawn(reason: StorageReason | None, *, is_rejected: bool) -> tuple[int, bool]:
    """Return the version after a commit in a block that ends with an error, and whether it was withdrawn."""
    storage, withdrawn = storage_of(two_days()), []
    writer = _opened(RefusingStorage(storage, lambda call: reason if call.kind is CallKind.PWRITE else None))
    with suppress(RowsRejectedError, StorageError), writer.withdrawing(lambda: withdrawn.append(True)):
        writer.announce(b"one")
        _rows(writer)
        if is_rejected:
            raise RowsRejectedError("its rows")
        writer.commit()
        raise RowsRejectedError("others")
    writer.rollback()
    writer.close()
    return _opened(storage).transaction.version, bool(withdrawn)


def _after_loss(name: str) -> tuple[Any, int, list[str]]:
    """Return what comes of a commit, how many versions it makes, and whether the file is there again."""
    storage = storage_of(two_days())
    with suppress(UncommittedError), _opened(storage) as writer:
        _rows(writer)
        version = writer.commit()
        directory = writer.table.directory_of(writer.transaction.partitions[0])
        storage.unlink(f"{PATH}/{directory}/{name}")
        _rows(writer)
        came = outcome_of(writer.commit)
        there = [each for each in storage.listdir(f"{PATH}/{directory}") if each == name]
    return came, open_table(storage, PATH).transaction().version - version, there


def _after_rejection(*, is_left: bool) -> tuple[Any, Any]:
    """Return what comes of a commit that is rejected once its directory is written, and of an empty one after it."""

    def reason_of(call: Call) -> StorageReason | None:
        return StorageReason.INPUT_OUTPUT if is_left and call.kind is CallKind.RMDIR else None

    storage = RefusingStorage(storage_of(two_days()), reason_of)
    with replaced("tornproof.impl.write.partition_change:STREAMED_BYTES", 1), open_writer(storage, PATH) as writer:
        writer.write(table_of([(FIRST_TIME + 2 * DAY, 7)], writer.schema))
        rejected = outcome_of(writer.commit)
        writer.rollback()
        return rejected, outcome_of(writer.commit)
