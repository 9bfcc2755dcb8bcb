"""Whether a partition can be written to once columns of its table were dropped, renamed, or replaced by others.

Its files still have the columns, dictionaries and bloom filters that they had before.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.new_tables import metadata_with, new_table, new_table_of_rows
from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.writing.kills import WRITER, reported
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.metadata_file import META_FILE, TableColumn
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

PROPERTY = "a partition outlives the columns that it was written with"
PATH = "changed"
TIME = "ts"
COLUMNS = {
    **{TIME: "TIMESTAMP", "whole": "LONG", "parts": "DOUBLE", "text": "VARCHAR", "key": "SYMBOL", "id": "UUID"},
    **{"price": "DECIMAL(9,2)", "raw": "BINARY", "list": "DOUBLE[]", "flag": "BOOLEAN"},
}
UNFILTERED = frozenset({TIME, "list", "flag"})
DROPPED, RENAMED, REPLACED = "dropped", "renamed", "replaced by one of another type"
CHANGES = (DROPPED, RENAMED, REPLACED)
OF_KNOWN = {TIME: (), "key": (RENAMED,)}
"""The changes of those that `_txn` and other files know, too."""
BEHIND, BETWEEN, ANEW = "rows added behind", "rows added between", "a rewrite"
WRITES = (BEHIND, BETWEEN, ANEW)
NEW_NAME = "other"
TIMES = range(FIRST_TIME, FIRST_TIME + 120, 10)
ADDED_TIMES = {BEHIND: (TIMES[-1] + 5,), BETWEEN: (FIRST_TIME + 15, FIRST_TIME + 55), ANEW: ()}
GROUP_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedColumn:
    """What happens to a column, where filters are, and what is written then."""

    column: str
    change: str
    filters: BloomPosition | None
    write: str

    @property
    def name(self) -> str:
        """It in words."""
        filters = "without filters" if self.filters is None else f"with filters {self.filters.value}"
        return f"{self.write} to a partition {filters}, once the column {self.column} was {self.change}"

    @property
    def kind(self) -> str:
        """What happens to the column, and what is written."""
        return f"{self.change}, {self.write}"


@functools.cache
def changed_columns() -> tuple[ChangedColumn, ...]:
    """Return all changes of a column with each write, and the places of filters in turn, always in the same order."""
    places = itertools.cycle((*BloomPosition, None))
    return tuple(
        ChangedColumn(column=column, change=change, filters=next(places), write=write)
        for column in COLUMNS
        for change, write in itertools.product(OF_KNOWN.get(column, CHANGES), WRITES)
    )


def problem_of(case: ChangedColumn) -> str | None:
    """Say what is wrong after the write; None if nothing is."""
    storage = MemoryStorage.of(_changed(case))
    table = open_table(storage, PATH)
    before = _rows(table)
    if before.select(_kept(case)).to_pylist() != _rows_at_first().select(_kept(case)).to_pylist():
        return "other columns have other values before anything is written"
    added = rows_for(table, ADDED_TIMES[case.write], seed=50)
    with open_writer_of_copy(storage, PATH, options=WriterOptions(row_group_row_count_max=GROUP_ROWS)) as writer:
        _stage(writer, case, added)
        writer.commit()
    expected = pa.concat_tables([before, added.cast(before.schema)]).sort_by(TIME)
    if _rows(open_table(storage, PATH)).to_pylist() != expected.to_pylist():
        return "there are other rows afterwards"
    return reported(storage, PATH)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that add no rows, of other rows at first, and of what verify reports."""
    rows = original_of(f"{__name__}:rows_for")
    conform = original_of(f"{WRITER}:conform")

    def without_values(*of: Any) -> pa.Table:
        made = conform(*of)
        if NEW_NAME not in made.column_names:
            return made
        field = made.schema.field(NEW_NAME)
        return made.set_column(made.column_names.index(NEW_NAME), field, pa.nulls(len(made), field.type))

    few = [each for each in changed_columns() if each.column == "whole"]
    controls: Controls = (
        ("a renamed column has no values", f"{WRITER}:conform", without_values, "there are other rows afterwards"),
        ("nothing is staged", f"{__name__}:_stage", lambda *_: None, "there are other rows afterwards"),
        ("nothing is read", f"{__name__}:_rows_at_first", lambda: rows(_new(), [0], seed=0), "before anything"),
        ("filters are of nothing", "tornproof.impl.verify.pages:missing_values", lambda *_: 1, "verify reports"),
    )
    return not_noticed(controls, problem_of, few)


def _stage(writer: TableWriter, case: ChangedColumn, added: pa.Table) -> None:
    if case.write == ANEW:
        partition = the_only(writer.table.transaction().partitions)
        writer.rewrite_partition(partition.timestamp)
    else:
        writer.write(added)


def _kept(case: ChangedColumn) -> list[str]:
    return [name for name in COLUMNS if name != case.column]


def _new() -> Table:
    return new_table(MemoryStorage(), PATH, COLUMNS)


@functools.cache
def _rows_at_first() -> pa.Table:
    return _rows(open_table(_image(None), PATH))


@functools.cache
def _image(filters: BloomPosition | None) -> DiskImage:
    """Return the table before any column is changed."""
    storage = MemoryStorage()
    names = dict.fromkeys((name for name in COLUMNS if name not in UNFILTERED), 0.01)
    blooms = None if filters is None else BloomOptions(columns=names, position=filters)
    options = WriterOptions(row_group_row_count_max=GROUP_ROWS, blooms=blooms)
    new_table_of_rows(storage, PATH, COLUMNS, TIMES, options=options)
    return storage.image()


def _changed(case: ChangedColumn) -> DiskImage:
    def change(old: Sequence[TableColumn]) -> list[TableColumn]:
        columns = [each for each in old if each.name != case.column or case.change == RENAMED]
        columns = [replace(each, name=NEW_NAME) if each.name == case.column else each for each in columns]
        if case.change == REPLACED:
            columns.append(TableColumn(id=len(old), name=case.column, type=TypeTag.INT))
        return columns

    image = _image(case.filters)
    content = metadata_with(image, PATH, change)
    # The dictionary of a column is called as the column.
    before, after = f"{PATH}/{case.column}.", f"{PATH}/{NEW_NAME}."
    files = {path.replace(before, after): each for path, each in image.files.items()}
    return DiskImage(files, image.directories).with_file(f"{PATH}/{META_FILE}", content)


def _rows(table: Table) -> pa.Table:
    snapshot = open_snapshot(table)
    return pa.Table.from_batches(snapshot.batches(), schema=snapshot.schema)
