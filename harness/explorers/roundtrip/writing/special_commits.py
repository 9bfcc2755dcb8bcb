"""What commits to special tables leave: with keys that are nearly equal, renamed columns, and native neighbours.

Each table is made here, and what must be there afterwards is written down beside it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of, rows_for
from tornproof.harness.common.new_tables import metadata_with, new_table
from tornproof.harness.common.patch import Controls, all_replaced, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of, problem_of
from tornproof.harness.explorers.roundtrip.writing.kills import (
    Rows,
    commit,
    row_count_in,
    rows_in,
    table_of,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.metadata_file import META_FILE, TableColumn
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions

__all__ = ["PROPERTY", "failed_controls", "problem_of", "special_commits"]

PROPERTY = "a commit to a special table leaves what it should"
PATH = "special"
DAY = 86_400_000_000
FIRST_DAY = FIRST_TIME // DAY * DAY
FLAGS_BYTES, FORMAT_BITS = 8, 3 << 60
"""Where the flags of an entry of `_txn` are, and those that say that a partition is in Parquet, and was generated."""
KEYS: dict[str, tuple[Any, Any]] = {
    "DECIMAL(38,0)": (Decimal(12345678901234567890), Decimal(12345678901234567891)),
    "DECIMAL(18,3)": (Decimal("123456789012345.678"), Decimal("123456789012345.679")),
    "LONG": ((1 << 53) + 1, 1 << 53),
    "DOUBLE": (0.1, 0.1 + 2**-55),
    "VARCHAR": ("a", "A"),
    "TIMESTAMP": (FIRST_TIME, FIRST_TIME + 1),
    "UUID": (bytes(15) + b"\1", bytes(15) + b"\2"),
}
"""Two keys of each type that are nearly equal."""
ADDED: Rows = [(FIRST_TIME + DAY, 2), (FIRST_TIME + 2 * DAY, 3)]
"""To a day that is there, and to another one."""
WRITER = "tornproof.impl.write.table_writer"
CHANGE = "tornproof.impl.write.partition_change"


@functools.cache
def special_commits() -> tuple[Question, ...]:
    """Return all commits, always in the same order."""
    return (
        *_keyed(),
        *_remembering(),
        *_beside_native(),
        *_made_anew(),
        *_interrupted(),
        *_symbols(),
        *_without_bounds(),
        *_renamed(),
        *_second_attempts(),
    )


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that leave out a row, know the default codec alone, or cannot stream."""
    conform = original_of(f"{WRITER}:conform")
    controls: Controls = (
        ("a row is left out", f"{WRITER}:conform", lambda *of: conform(*of)[1:]),
        ("codecs are the default ones", f"{CHANGE}:encode_options", lambda *_: None),
        ("nothing can be streamed", f"{CHANGE}:stream_new_directory", lambda *_: None),
    )
    return not_noticed(controls, problem_of, special_commits())


def _keyed() -> Iterator[Question]:
    """Yield rows of one time with two keys of a type, in one commit and in two, and the rows that are left."""
    for of, keys in KEYS.items():
        for pair, is_together in itertools.product(((0, 1), (0, 0)), (True, False)):
            values = [keys[number] for number in pair]
            words = f"rows of the {of} keys {values} in {'one commit' if is_together else 'two commits'}"
            yield ask("keys", words, len({*pair}), _left_of, of, values, is_together=is_together)

    # There is nothing by which such keys can be compared.
    found = functools.partial(_left_of, "DOUBLE[]", [[1.0], [2.0]], is_together=True)
    yield Question("keys", "rows of one time with two arrays as keys", found, "RowsRejectedError")


def _left_of(of: str, keys: Sequence[Any], *, is_together: bool) -> Any:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "key": of})
    # A table of somebody else may also have keys that no new one gets.
    storage = _with_changed_columns(storage, lambda each: replace(each, is_dedup_key=True))

    def left() -> int:
        for some in [keys] if is_together else [[key] for key in keys]:
            with open_writer_of_copy(storage, PATH) as writer:
                writer.write(_keyed_rows(writer.schema, some))
                writer.commit()
        return row_count_in(storage, PATH)

    return outcome_of(left)


def _keyed_rows(schema: pa.Schema, keys: Sequence[Any]) -> pa.Table:
    values = ([FIRST_TIME] * len(keys), [*keys])
    return pa.Table.from_arrays([array_of(*each) for each in zip(values, schema.types, strict=True)], schema=schema)


def _remembering() -> Iterator[Question]:
    """Yield commits of one writer that remembers so many partitions, and writes to several of them in turn."""
    sequences = ("0 1 0 1", "0 1 2 0 1 2", "0 01 0", "01 0 012 0 1", "012 2 01 2 0")
    for count, days in itertools.product((1, 2, 3, 64), sequences):
        commits = [
            [(FIRST_TIME + int(day) * DAY + number, number) for day in together]
            for number, together in enumerate(days.split())
        ]
        words = f"commits to the days {days} by a writer that remembers {count}"
        yield ask("remembered", words, sorted(itertools.chain(*commits)), _one_by_one, count, commits)


def _one_by_one(count: int, commits: Sequence[Rows]) -> Any:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"})
    with replaced(f"{WRITER}:REMEMBERED_PARTITIONS_MAX", count), open_writer_of_copy(storage, PATH) as writer:
        for rows in commits:
            writer.write(table_of(rows, writer.schema))
            writer.commit()
    return rows_in(storage, PATH)


def _beside_native() -> Iterator[Question]:
    """Yield drops of a day in a table of three, one of which is native and may not become the first or the last one."""
    for native, dropped in itertools.permutations(range(3), 2):
        others = {*range(3)} - {dropped}
        words = f"a drop of day {dropped} of three, of which day {native} is native"
        # The day between the others would become the first or the last one.
        expected = "RowsRejectedError" if native == 1 else [day for day in others if day != native]
        yield ask("native", words, expected, _dropped, native, dropped)
    for dropped, expected in ((2, "ParquetLastError"), (0, [1, 2])):
        words = f"a drop of day {dropped} of three, of which the last one is native, beside a server"
        yield ask("native", words, expected, _left_for_a_server, dropped)


def _dropped(native: int, dropped: int) -> Any:
    storage = _of_days(3)
    _change_flags(storage, native, lambda word: word & ~FORMAT_BITS)

    def drop() -> list[int]:
        with open_writer_of_copy(storage, PATH, allow_parquet_last=True) as writer:
            writer.drop_partition(FIRST_DAY + dropped * DAY)
            writer.commit()
        partitions = open_table(storage, PATH).transaction().partitions
        return [(each.timestamp - FIRST_DAY) // DAY for each in partitions if each.is_parquet]

    return outcome_of(drop)


def _of_days(count: int) -> MemoryStorage:
    return MemoryStorage.of(table_of_rows(PATH, [(FIRST_DAY + day * DAY, day) for day in range(count)]))


def _change_flags(storage: MemoryStorage, number: int, change: Callable[[int], int]) -> None:
    """Change the word of a partition that has its flags, and the number of its rows."""
    at = open_table(storage, PATH).transaction().partitions[number].entry_offset_bytes + FLAGS_BYTES
    with storage.open_for_writing(f"{PATH}/{TXN_FILE}") as file:
        word = int.from_bytes(file.pread(8, at), "little")
        file.pwrite(change(word).to_bytes(8, "little"), at)


def _left_for_a_server(dropped: int) -> Any:
    """Return the days that are left of a table whose last one is native, and which has no write-ahead log."""
    storage = _of_days(3)
    _change_flags(storage, 2, lambda word: word & ~FORMAT_BITS)

    def drop() -> list[int]:
        with open_writer(storage, PATH) as writer:
            writer.drop_partition(FIRST_DAY + dropped * DAY)
            writer.commit()
        return [(each.timestamp - FIRST_DAY) // DAY for each in open_table(storage, PATH).transaction().partitions]

    return outcome_of(drop)


def _symbols() -> Iterator[Question]:
    """Yield commits of symbols, of which some are new, and how many a version says that there are, and may be."""
    for words, texts, expected in (
        ("one", ["a"], (1, 1)),
        ("several", ["a", "b", "a", "c"], (3, 3)),
        ("none that is new", ["a", None], (1, 1)),
        ("no text", [None], (0, 0)),
    ):
        for commit_count in (1, 2):
            name = f"the counts of symbols after {commit_count} commits of {words}"
            yield ask("symbols", name, [expected, (1, 1)], _symbol_counts, texts, commit_count)


def _symbol_counts(texts: Sequence[str | None], commit_count: int) -> list[tuple[int, int]]:
    """Return the numbers of symbols and of those that may be there, in each column, when the last commit is done.

    The second column, whose name comes before that of the first one, has the same symbol in all rows.
    """
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL", "first": "SYMBOL"})
    with open_writer_of_copy(storage, PATH) as writer:
        for number in range(commit_count):
            some = texts if number == commit_count - 1 else texts[:1]
            times = range(FIRST_TIME, FIRST_TIME + len(some))
            rows = {"ts": times, "s": pa.array(some, pa.string()), "first": ["same"] * len(some)}
            writer.write(pa.table(rows).cast(writer.schema))
            writer.commit()
    counts = open_table(storage, PATH).transaction().symbol_counts
    return [(each.count, each.transient_count) for each in counts]


def _without_bounds() -> Iterator[Question]:
    """Yield commits of columns of all types without statistics, and which columns have bounds all the same."""
    for keeps in ((), ("c1", "c12")):
        names = sorted({"c0", *keeps}, key=lambda name: int(name[1:]))
        yield ask(
            "bounds", f"which columns have bounds where {', '.join(keeps) or 'no'} columns have", names, _bounded, keeps
        )


def _bounded(keeps: Sequence[str]) -> list[str]:
    """Return the columns that have a bound; the designated timestamp must have both."""
    storage, names = MemoryStorage(), [f"c{number}" for number in range(len(every_type.TYPES))]
    new_table(storage, PATH, dict(zip(names, every_type.TYPES, strict=True)))
    columns = {name: ColumnOptions(statistics=name in keeps) for name in names[1:]}
    with open_writer_of_copy(storage, PATH, options=WriterOptions(encoding=EncodeOptions(columns=columns))) as writer:
        writer.write(rows_for(open_table(storage, PATH), [FIRST_TIME, FIRST_TIME + 1], seed=1))
        writer.commit()
    chunks = _metadata_of(storage).blocks[0].chunks
    return [name for name, chunk in zip(names, chunks, strict=True) if chunk.minimum or chunk.maximum]


def _made_anew() -> Iterator[Question]:
    """Yield drops of a day in whose place the same commit makes another one, and the flags that this one has."""
    for name, bit in (("no mark", 0), ("the mark of what is not written to", 1 << 62), ("a squash counter", 5 << 44)):
        words = f"the flags of a day that is made anew in place of one with {name}"
        yield ask("made anew", words, FORMAT_BITS, _flags_made_anew, bit)


def _flags_made_anew(bit: int) -> int:
    storage = _of_days(2)
    _change_flags(storage, 0, lambda word: word | bit)
    with open_writer_of_copy(storage, PATH) as writer:
        writer.drop_partition(FIRST_DAY)
        writer.write(table_of([(FIRST_TIME, 7)], writer.schema))
        writer.commit()
    return open_table(storage, PATH).transaction().partitions[0].flags


def _interrupted() -> Iterator[Question]:
    """Yield commits that an interrupt ends before one of their changes: the writer is dead, and the rows are there."""
    for number in range(_change_count()):
        words = f"whether a writer is dead, and all rows are there or none, after an interrupt of change {number}"
        yield ask("interrupted", words, ("WriterDeadError", True), _after_interrupt, number)


class _Interrupting(InterceptedStorage):
    """A storage in which an interrupt comes in place of a change, once."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.count, self.due = 0, -1

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        self.count += call.kind in STEPS
        if self.due in range(self.count):
            self.due = -1
            raise KeyboardInterrupt
        return run()


def _change_count() -> int:
    storage = _Interrupting(_of_days(2))
    with open_writer_of_copy(storage, PATH) as writer:
        writer.write(table_of(ADDED, writer.schema))
        before = storage.count
        writer.commit()
        return storage.count - before


def _after_interrupt(number: int) -> tuple[Any, bool]:
    disk = _of_days(2)
    before, storage = rows_in(disk, PATH), _Interrupting(disk)
    with open_writer_of_copy(storage, PATH) as writer:
        writer.write(table_of(ADDED, writer.schema))
        storage.due = storage.count + number
        with suppress(KeyboardInterrupt):
            writer.commit()
        answer = outcome_of(writer.commit)
    open_writer_of_copy(disk, PATH).close()
    return answer, rows_in(disk, PATH) in (before, sorted([*before, *ADDED]))


def _renamed() -> Iterator[Question]:
    """Yield commits that ask for a codec of a column by the name that it has now."""
    for codec, is_renamed in itertools.product((Codec.GZIP, Codec.SNAPPY), (False, True)):
        words = f"a commit with the codec {codec.name} of a column that was {'renamed' if is_renamed else 'kept'}"
        yield ask("renamed", words, int(codec), _codec_of, codec, is_renamed=is_renamed)


def _codec_of(codec: Codec, *, is_renamed: bool) -> int:
    storage = MemoryStorage.of(table_of_rows(PATH, [(FIRST_TIME, 1)]))
    name = "renamed" if is_renamed else "v"
    storage = _with_changed_columns(
        storage, lambda column: replace(column, name=name) if column.name == "v" else column
    )
    encoding = EncodeOptions(columns={name: ColumnOptions(codec=codec)})
    commit(storage, PATH, [(FIRST_TIME + 1, 2)], options=WriterOptions(encoding=encoding, rewrite_unused_ratio=100.0))
    return int(_metadata_of(storage).blocks[-1].chunks[1].codec)


def _with_changed_columns(storage: MemoryStorage, change: Callable[[TableColumn], TableColumn]) -> MemoryStorage:
    content = metadata_with(storage, PATH, lambda columns: map(change, columns))
    return MemoryStorage.of(storage.image().with_file(f"{PATH}/{META_FILE}", content))


def _metadata_of(storage: MemoryStorage) -> Metadata:
    """Return the metadata of the only partition."""
    snapshot = open_snapshot(open_table(storage, PATH))
    partition = the_only(snapshot.transaction.partitions)
    return snapshot.resolve(partition).metadata


def _second_attempts() -> Iterator[Question]:
    """Yield commits whose filters make metadata too large, streamed or not: filters are then in data.parquet."""
    for limit, is_streamed in itertools.product((1 << 20, 2_000), (False, True)):
        words = f"filters where metadata may have {limit} bytes, {'streamed' if is_streamed else 'at once'}"
        yield ask("filters", words, (1, limit < 1 << 20), _filters_under, limit, is_streamed=is_streamed)


def _filters_under(limit: int, *, is_streamed: bool) -> tuple[int, bool]:
    """Return how many columns have filters, and whether these are in data.parquet."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"})
    rows = [(FIRST_TIME + number, number) for number in range(2_000)]
    streamed = {f"{CHANGE}:STREAMED_BYTES": 1} if is_streamed else {}
    with all_replaced({"tornproof.impl.limits:PM_LIMIT_BYTES": limit, **streamed}):
        commit(storage, PATH, rows, options=WriterOptions(blooms=BloomOptions(columns={"v": 0.01})))
    header = _metadata_of(storage).header
    return len(header.bloom_columns), header.blooms_external
