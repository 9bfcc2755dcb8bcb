"""What may not be asked of a writer, a reader, or for a new table, and that what is refused changes no file.

Each call is made to the same table of two days; what is right is written down beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, problem_of
from tornproof.harness.explorers.roundtrip.writing.kills import Rows, row_count_in, rows_in, table_of, table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError, TornproofError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.adoption import PreparedPartition, adopted
from tornproof.impl.write.incoming_rows import timestamps_of
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.partition_change import PartitionChange
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

__all__ = ["PROPERTY", "failed_controls", "problem_of", "refused_calls"]

PROPERTY = "what may not be asked for is refused for the right reason, and changes nothing"
PATH, BUILT = "asked", "built"
WRITER, CHANGES = "tornproof.impl.write.table_writer", "tornproof.impl.write.partition_change"
DAY = 86_400_000_000
FIRST_DAY = FIRST_TIME // DAY * DAY
ROWS: Rows = [(FIRST_TIME + number, number) for number in range(3)]
MERGED: Rows = [*ROWS, (FIRST_TIME + 3, 3)]
LATER: Rows = [(FIRST_TIME + 2 * DAY + number, number) for number in range(2)]
TEXTS = ["a text", "b" * 50, "", "another text"]
TS = NewColumn(name="ts", type=TypeTag.TIMESTAMP)
V = NewColumn(name="v", type=TypeTag.LONG)
CREATED, REJECTED, DEAD = "created", "TableRejectedError", "WriterDeadError"

Call: TypeAlias = Callable[[MemoryStorage], Any]
Write: TypeAlias = Callable[[TableWriter, MemoryStorage], Any]


@functools.cache
def refused_calls() -> tuple[Question, ...]:
    """Return all calls, always in the same order."""
    return (*_creations(), *_writes(), *_reads())


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of those who refuse nothing, and of those who change a file before they refuse."""
    create = "tornproof.impl.table.create"
    controls: Controls = (
        ("a partition may be adopted over another one", f"{WRITER}:adopted", lambda *_, **__: None),
        ("a table of any columns is created", f"{create}:_check_columns", lambda *_: None),
        ("a merge may be adopted where nothing is left", f"{WRITER}:adopted", _adopted_alone, "RowsRejectedError"),
        ("what is refused changes a file", f"{__name__}:_files_of", lambda storage: object()),
    )
    return not_noticed(controls, problem_of, refused_calls())


def _adopted_alone(
    table: Table, transaction: Transaction, prepared: PreparedPartition, files: PartitionFiles, *, dropped: set[int]
) -> PartitionChange:
    starts = {each.timestamp for each in transaction.partitions} - dropped
    alone = prepared if prepared.timestamp in starts else replace(prepared, replaces=None)
    return adopted(table, transaction, alone, files, dropped=dropped)


def _answer(call: Call) -> Any:
    """Return what a call answers, or the name of its error, and whether it has changed a file."""
    storage = MemoryStorage.of(_image())
    before = _files_of(storage)
    try:
        return call(storage)
    except TornproofError as error:
        changed = "" if _files_of(storage) == before else ", and files are others"
        return f"{type(error).__name__}{changed}"


def _files_of(storage: MemoryStorage) -> Mapping[str, bytes]:
    """Return the files of the table; what was prepared elsewhere is not part of it."""
    return {path: content for path, content in storage.image().files.items() if not path.startswith(BUILT)}


@functools.cache
def _image() -> DiskImage:
    return table_of_rows(PATH, [*ROWS, *LATER])


def _creations() -> Iterator[Question]:
    """Yield new tables, also of columns and partitions that no table has."""
    for words, columns, timestamp, partition_by, expected in (
        ("two columns", [TS, V], "ts", PartitionBy.DAY, CREATED),
        ("no partitions", [TS, V], "ts", PartitionBy.NONE, REJECTED),
        ("a timestamp that is not there", [TS, V], "t", PartitionBy.DAY, REJECTED),
        ("a timestamp that is a number", [TS, V], "v", PartitionBy.DAY, REJECTED),
        ("a timestamp in other letters", [TS, V], "TS", PartitionBy.DAY, REJECTED),
        ("a timestamp that is a date", [NewColumn(name="ts", type=TypeTag.DATE)], "ts", PartitionBy.DAY, REJECTED),
        ("no columns", [], "ts", PartitionBy.DAY, REJECTED),
        *(
            (f"the columns {names}", [TS, *(replace(V, name=name) for name in names)], "ts", PartitionBy.DAY, REJECTED)
            for names in ("vv", "VV", "Vv", "vV", "äÄ")
        ),
    ):
        call = functools.partial(_create, columns=columns, timestamp=timestamp, partition_by=partition_by)
        yield ask("creations", f"a new table with {words}", expected, _answer, call)


def _create(storage: MemoryStorage, *, columns: Sequence[NewColumn], timestamp: str, partition_by: PartitionBy) -> str:
    create_table(storage, "new", columns, timestamp=timestamp, partition_by=partition_by)
    return CREATED


def _writes() -> Iterator[Question]:
    """Yield calls to a writer; of those that are not refused, the rows of the table afterwards."""
    early, late = FIRST_DAY, FIRST_DAY + 2 * DAY
    both = [*ROWS, *LATER]
    built = [(FIRST_TIME + DAY, 7)]
    for words, write, expected in (
        ("drops a partition", lambda writer, _: writer.drop_partition(early), LATER),
        ("drops where there is none", lambda writer, _: writer.drop_partition(early + DAY), "RowsRejectedError"),
        ("drops at a time within one", lambda writer, _: writer.drop_partition(early + 1), "RowsRejectedError"),
        ("rewrites a partition", lambda writer, _: writer.rewrite_partition(late), both),
        ("rewrites where there is none", lambda writer, _: writer.rewrite_partition(late + DAY), "RowsRejectedError"),
        ("adopts a partition", lambda writer, storage: writer.adopt(_built(storage, built)), [*ROWS, *built, *LATER]),
        (
            "adopts one where there is another",
            lambda writer, storage: writer.adopt(_built(storage, ROWS)),
            "RowsRejectedError",
        ),
        ("adopts one with the rows of another day", _adopt_another_day, "CorruptError"),
        ("adopts one whose columns are others", _adopt_other_columns, "CorruptError"),
        ("drops it and adopts another", _drop_and_adopt, [*ROWS[:1], *LATER]),
        ("adopts one and has rows for it", _adopt_and_write, "RowsRejectedError"),
        ("adopts one that was merged", _adopt_merged, [*MERGED, *LATER]),
        ("adopts one that was merged with one of other flags", _adopt_merged_with_marked, "RowsRejectedError"),
        ("goes on after its end", _go_on, DEAD),
        ("is closed while rows are refused", _close_at_refusal, "RowsRejectedError"),
        ("has rows without a time", lambda writer, _: writer.write(pa.table({"v": [1]})), "RowsRejectedError"),
        ("has a column twice", lambda writer, _: writer.write(_twice(writer)), "RowsRejectedError"),
    ):
        yield ask("writes", f"a writer that {words}", expected, _answer, functools.partial(_after, write=write))
    for step, answer in ((-1, "RowsRejectedError"), (0, len(TEXTS)), (1, len(TEXTS))):
        words = f"a writer of texts for which an array has room for {step} bytes more than they need"
        yield ask("writes", words, answer, _answer, functools.partial(_within, step=step))
        words = f"a writer of keys in two pieces for which an array has room for {step} bytes more than they need"
        yield ask("writes", words, answer, _answer, functools.partial(_keys_within, step=step))
    for error in (KeyboardInterrupt, MemoryError, RowsRejectedError):
        words = f"a writer whose plan ends in {error.__name__} when it has written a directory"
        yield ask("writes", words, ["as it was"], _left_by, error)
    others = "RowsRejectedError, and files are others"
    for words, change, expected in (
        ("drops a partition", lambda writer: writer.drop_partition(early), "RowsRejectedError"),
        ("commits that it drops one", lambda writer: (writer.drop_partition(early), writer.commit()), others),
        ("commits one rewritten", lambda writer: (writer.rewrite_partition(early), writer.commit()), others),
        ("commits rows", lambda writer: (writer.write(table_of(ROWS, writer.schema)), writer.commit()), others),
    ):
        words = f"{words}, and then adopts what was merged with a partition"
        call = functools.partial(_after, write=functools.partial(_adopt_merged, meanwhile=change))
        yield ask("writes", f"a writer that {words}", expected, _answer, call)


def _after(storage: MemoryStorage, *, write: Write) -> list[tuple[int, Any]]:
    """Return the rows after a commit of what is asked for."""
    with open_writer_of_copy(storage, PATH) as writer:
        try:
            write(writer, storage)
            writer.commit()
        except BaseException:
            writer.rollback()
            raise
    return rows_in(storage, PATH)


def _left_by(error: type[BaseException]) -> list[str]:
    """Return what is left of the directory of a large partition after an error that comes when it was written."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error("it ends here")

    storage = MemoryStorage.of(_image())
    before = storage.image()
    with replaced(f"{CHANGES}:STREAMED_BYTES", 0), open_writer_of_copy(storage, PATH) as writer:
        writer.write(table_of([(FIRST_TIME + DAY, 7)], writer.schema))
        with replaced(f"{WRITER}:next_version", fail), suppress(error):
            writer.commit()
        needed(writer._changer.streamed, "no directory was written")
        writer.rollback()
    left = [*(storage.image().directories - before.directories), *(storage.image().files.keys() - before.files.keys())]
    return sorted(left) or ["as it was"]


def _within(_: MemoryStorage, *, step: int) -> int:
    """Return how many rows a new table has after texts were written out of order."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "t": "VARCHAR"})
    with open_writer_of_copy(storage, PATH) as writer:
        times = [FIRST_TIME - number for number in range(len(TEXTS))]
        rows = pa.table([times, TEXTS], names=["ts", "t"]).cast(writer.schema)
        with replaced("tornproof.impl.limits:ARRAY_LIMIT_BYTES", rows.column("t").nbytes + step):
            writer.write(rows)
            writer.commit()
    return row_count_in(storage, PATH)


def _keys_within(_: MemoryStorage, *, step: int) -> int:
    """Return how many rows a new table has after texts that are keys were written in two pieces."""
    storage = MemoryStorage()
    columns = [TS, NewColumn(name="t", type=TypeTag.VARCHAR, is_dedup_key=True)]
    create_table(
        storage, PATH, [replace(TS, is_dedup_key=True), *columns[1:]], timestamp="ts", partition_by=PartitionBy.DAY
    )
    with open_writer_of_copy(storage, PATH) as writer:
        pieces = [
            pa.table(
                [[FIRST_TIME + first + number for number in range(2)], TEXTS[first : first + 2]], names=["ts", "t"]
            )
            for first in (0, 2)
        ]
        rows = [piece.cast(writer.schema) for piece in pieces]
        with replaced("tornproof.impl.limits:ARRAY_LIMIT_BYTES", sum(each.column("t").nbytes for each in rows) + step):
            for each in rows:
                writer.write(each)
            writer.commit()
    return row_count_in(storage, PATH)


def _go_on(writer: TableWriter, _: MemoryStorage) -> None:
    writer.close()
    writer.drop_partition(FIRST_DAY)


def _drop_and_adopt(writer: TableWriter, storage: MemoryStorage) -> None:
    writer.drop_partition(FIRST_DAY)
    writer.adopt(_built(storage, ROWS[:1]))


def _adopt_another_day(writer: TableWriter, storage: MemoryStorage) -> None:
    writer.adopt(replace(_built(storage, [(FIRST_TIME + DAY, 7)]), timestamp=FIRST_DAY + 5 * DAY))


def _adopt_other_columns(writer: TableWriter, storage: MemoryStorage) -> None:
    """Adopt a partition that was prepared for a table whose second column has another type."""
    other = MemoryStorage.of(table_of_rows(PATH, ROWS, of=TypeTag.INT))
    prepared = _built(other, [(FIRST_TIME + DAY, 7)])
    storage.mkdir(BUILT)
    for path, content in other.image().files.items():
        if path.startswith(f"{BUILT}/"):
            with storage.open_for_writing(path, OpenMode.NEW) as file:
                file.pwrite(content, 0)
    writer.adopt(prepared)


def _adopt_and_write(writer: TableWriter, storage: MemoryStorage) -> None:
    built = [(FIRST_TIME + DAY, 7)]
    writer.adopt(_built(storage, built))
    writer.write(table_of(built, writer.schema))


def _close_at_refusal(writer: TableWriter, _: MemoryStorage) -> None:
    try:
        writer.write(table_of(ROWS, writer.schema))
        writer.write(pa.table({"v": [1]}))
    finally:
        writer.close()


def _adopt_merged(
    writer: TableWriter, storage: MemoryStorage, *, meanwhile: Callable[[TableWriter], object] = bool, **before: int
) -> None:
    """Adopt a partition that was prepared with all rows of one, after which the writer did something else."""
    prepared = _built(storage, MERGED)
    merged = next(each for each in open_table(storage, PATH).transaction().partitions if each.timestamp == FIRST_DAY)
    meanwhile(writer)
    writer.adopt(replace(prepared, replaces=replace(merged, **before)))


def _adopt_merged_with_marked(writer: TableWriter, storage: MemoryStorage) -> None:
    """Adopt a partition that was merged with one whose flags were others then."""
    _adopt_merged(writer, storage, flags=0)


def _twice(writer: TableWriter) -> pa.Table:
    rows = table_of(ROWS, writer.schema)
    return rows.append_column("v", rows["v"])


def _built(storage: MemoryStorage, rows: Rows) -> PreparedPartition:
    """Return a partition of these rows that is prepared elsewhere."""
    table = open_table(storage, PATH)
    metadata = needed(table.metadata, "the new table has no metadata")
    schema = open_snapshot(table).schema
    with PartitionBuild(storage, BUILT, metadata, WriterOptions(), table_name=PATH) as build:
        made = table_of(rows, schema)
        build.append(build.encoded(made))
        return build.finish(int(timestamps_of(made, "ts")[0]) // DAY * DAY)


def _reads() -> Iterator[Question]:
    """Yield columns that are asked for, and how many rows and columns come, or why none."""
    for names, expected in (
        (None, (5, 2)),
        (["v"], (5, 1)),
        (["v", "ts"], (5, 2)),
        ([], (5, 0)),
        (["v", "v"], "RepeatedColumnError"),
        (["w"], "UnknownColumnError"),
        (["V"], "UnknownColumnError"),
    ):
        yield ask("reads", f"rows of the columns {names}", expected, _answer, functools.partial(_shape, names=names))


def _shape(storage: MemoryStorage, *, names: list[str] | None) -> tuple[int, int]:
    batches = list(open_snapshot(open_table(storage, PATH)).batches(names))
    return sum(batch.num_rows for batch in batches), batches[0].num_columns
