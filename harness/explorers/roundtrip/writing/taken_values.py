"""Whether a writer takes what a column holds, so that it is read again, and refuses everything else.

What is refused must be said of its column, and leave the table, and what is staged beside it, as they are.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.model_based.surroundings import ENCODINGS
from tornproof.harness.explorers.roundtrip.writing.kills import WRITER, Littering, UnnamedError, execute_and_spoil
from tornproof.harness.explorers.roundtrip.writing.offered_values import Offered, OfferedColumn, offered_columns
from tornproof.harness.explorers.roundtrip.writing.stated_bounds import wrong_bounds, wrong_page_bounds
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.parquet.arrow_writer import WrittenColumn
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.footer import FooterParts
from tornproof.impl.parquet.thrift import encode
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.table.table import Table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "what a writer takes is read again, and what a column cannot hold is refused"
PATH, TIME, COLUMN = "offered", "ts", "values"
CHANGE, GROUPS = "tornproof.impl.write.partition_change", "tornproof.impl.chunk.row_group_encoder"
SHOWN = 200
GROUP_ROWS = 5
OPTIONS = WriterOptions(row_group_row_count_max=GROUP_ROWS, encoding=EncodeOptions(page_index=True))


def problem_of(column: OfferedColumn) -> str | None:
    """Say what is wrong with what becomes of values that are offered to a column; None if nothing is."""
    storage = MemoryStorage()
    table = new_table(storage, PATH, {TIME: "TIMESTAMP", COLUMN: column.type})
    problem = _problem_of_build(table, column)
    with open_writer_of_copy(storage, PATH, options=OPTIONS) as writer:
        problem = problem or _problem_of_refused(storage, writer, column)
        if problem is None:
            taken, problem = _stage(writer, column)
        if problem is not None:
            writer.rollback()
            return problem
        writer.commit()
    partition = the_only(table.transaction().partitions)
    with table.files_of(partition).open_data() as data:
        content = data.pread(partition.token, 0)
    read = _read(table)
    seen = pq.ParquetFile(io.BytesIO(content))
    keys = [key for each in taken for key in each.keys or ()]
    problems = itertools.chain(
        _differences(read, taken, "read", lambda each: each.keys),
        _differences(seen.read(), taken, "seen by pyarrow", lambda each: each.in_file),
        wrong_bounds(seen, column.type, keys),
        wrong_page_bounds(content, column.type, keys),
        (f"once they are taken, verify reports {each}" for each in verify_table(table).all_problems),
        _problems_of_duplicates(column),
    )
    return next(problems, None)


def _problems_of_duplicates(column: OfferedColumn) -> Iterator[str]:
    """Yield what is wrong with the same rows where each number is also stored in another encoding."""
    storage = MemoryStorage()
    table = new_table(storage, PATH, {TIME: "TIMESTAMP", COLUMN: column.type})
    options = WriterOptions(
        row_group_row_count_max=GROUP_ROWS, encoding=ENCODINGS["every number twice"], allow_unreadable_by_servers=True
    )
    with open_writer_of_copy(storage, PATH, options=options) as writer:
        taken, _ = _stage(writer, column)
        writer.commit()
    yield from _differences(_read(table), taken, "read, with every number twice,", lambda each: each.keys)
    yield from (f"with every number twice, verify reports {each}" for each in verify_table(table).all_problems)


def _read(table: Table) -> pa.Table:
    return pa.Table.from_batches(list(open_snapshot(table).batches()))


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that take what their columns cannot hold, and refuse what they can."""
    incoming, bounds = "tornproof.impl.write.incoming_rows", "tornproof.impl.parquet.arrow_writer:_with_bounds"
    stored = "tornproof.impl.write.stored_arrays"
    with_bounds, conform = original_of(bounds), original_of(f"{WRITER}:conform")

    def conform_times(rows: pa.Table, *of: Any) -> pa.Table:
        if COLUMN in rows.schema.names:
            raise RowsRejectedError.at(COLUMN, 0, "nothing", "something")
        return conform(rows, *of)

    def bounded(change: Callable[..., tuple[bytes | None, bytes | None]]) -> Callable[..., WrittenColumn]:
        return lambda column, *of: with_bounds(column, *(change(*of) if COLUMN.encode() in encode(column.tree) else of))

    new_footer, encode_pages, write_row_group = (
        original_of(each) for each in (f"{CHANGE}:new_footer", f"{GROUPS}:encode_pages", f"{GROUPS}:write_row_group")
    )

    def encode_zeros(values: pa.Array, *of: Any, **settings: Any) -> Any:
        return encode_pages(pa.array([0] * len(values), values.type), *of, **settings)

    def write_turned_round(stored: pa.Table, bounds: Any, options: EncodeOptions) -> Any:
        order = pa.array(range(len(stored))[:: -1 if options.duplicates else 1], pa.int64())
        return write_row_group(stored.take(order), bounds, options)

    def footer_turned_round(*of: Any) -> _TurnedRound:
        return _TurnedRound(new_footer(*of))

    controls: Controls = (
        (
            "an index of other bounds stays",
            bounds,
            lambda column, *wanted: replace(with_bounds(column, *wanted), column_index=column.column_index),
            "by the index of row group",
        ),
        ("casts that fail", f"{incoming}:cast_exactly", lambda column, _: column),
    )
    keys_of = original_of(f"{__name__}:_keys")

    def without_long_ends(column: pa.ChunkedArray) -> list[Any]:
        return [key[:-1] if isinstance(key, str) and len(key) > SHOWN else key for key in keys_of(column)]

    of_texts: Controls = (("ends of long texts are lost", f"{__name__}:_keys", without_long_ends, ": it is read as"),)
    of_floats: Controls = (
        ("the maximum is also the minimum", bounds, bounded(lambda _, high: (high, high)), "the bounds are"),
        ("no bounds are stated", bounds, bounded(lambda *_: (None, None)), "no bounds are stated"),
        ("numbers that a cast changes", f"{incoming}:_lost", lambda *_: None, ": it is taken"),
        ("row groups are read in the opposite order", f"{__name__}:open_snapshot", _Backwards, ": it is read as"),
        ("the last row group is read twice", f"{__name__}:open_snapshot", _Longer, "rows are read, and should be"),
        ("no column is named", f"{incoming}:RowsRejectedError", UnnamedError, "it is refused without the name"),
        ("no column is named elsewhere", f"{stored}:RowsRejectedError", UnnamedError, "elsewhere without the name"),
        ("everything is taken elsewhere", f"{stored}:_check", lambda *_: None, ": it is taken elsewhere"),
        ("no values are taken", f"{WRITER}:conform", conform_times, ": it is refused: "),
        ("a file is left", f"{WRITER}:TableWriter", Littering, "what is refused has changed files"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "are taken, verify reports"),
        ("others see row groups in the opposite order", f"{CHANGE}:new_footer", footer_turned_round, "seen by pyarrow"),
        ("numbers are others the second time", f"{GROUPS}:encode_pages", encode_zeros, "number twice, verify reports"),
        (
            "rows are others with numbers twice",
            f"{GROUPS}:write_row_group",
            write_turned_round,
            "read, with every number",
        ),
    )
    yield from not_noticed(controls, problem_of, offered_columns())
    yield from not_noticed(of_texts, problem_of, [each for each in offered_columns() if each.type == "VARCHAR"])
    yield from not_noticed(of_floats, problem_of, [each for each in offered_columns() if each.type == "FLOAT"])


class _TurnedRound:
    """A new footer that gets its row groups in the opposite order."""

    def __init__(self, footer: FooterParts) -> None:
        self._footer = footer

    def with_row_groups(self, row_groups: Sequence[bytes], row_count: int) -> FooterParts:
        """Return the footer of these row groups."""
        return self._footer.with_row_groups(row_groups[::-1], row_count)


class _Backwards:
    """The rows of a table, of which the last row group comes first."""

    def __init__(self, table: Table, snapshot_of: Callable[[Table], Snapshot] = open_snapshot) -> None:
        self._snapshot = snapshot_of(table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the row groups."""
        yield from reversed(list(self._snapshot.batches()))


class _Longer(_Backwards):
    """The rows of a table, of which those of the last row group come twice."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the row groups."""
        batches = list(self._snapshot.batches())
        yield from (*batches, *batches[-1:])


def _rows(array: pa.Array, first: int) -> pa.Table:
    """Return rows in two pieces, of which the second does not begin where its memory does."""
    times = pa.array(range(FIRST_TIME + first, FIRST_TIME + first + len(array)))
    return pa.table({TIME: times, COLUMN: pa.chunked_array([array[:1], array[1:]])})


def _problem_of_build(table: Table, column: OfferedColumn) -> str | None:
    """Say what is taken for a partition that is prepared elsewhere, and must not be."""
    metadata = needed(table.metadata, "the new table has no metadata")
    # Elsewhere, because it makes a directory.
    with PartitionBuild(MemoryStorage(), "prepared", metadata, WriterOptions(), table_name=PATH) as build:
        for each in column.values:
            if each.keys is None:
                rows = _rows(each.array, 0)
                try:
                    build.encoded(rows.set_column(0, TIME, rows[TIME].cast(pa.timestamp("us", "UTC"))))
                except RowsRejectedError as error:
                    if repr(COLUMN) not in str(error):
                        return f"{each.words}: it is refused elsewhere without the name of the column: {error}"
                else:
                    return f"{each.words}: it is taken elsewhere"
    return None


def _problem_of_refused(storage: MemoryStorage, writer: TableWriter, column: OfferedColumn) -> str | None:
    """Say what is taken and must not be, or what becomes of files or of a row that was staged before."""
    before = storage.image().files
    for each in column.values:
        if each.keys is None:
            writer.write(pa.table({TIME: [FIRST_TIME]}))
            try:
                writer.write(_rows(each.array, 1))
                writer.commit()
            except RowsRejectedError as error:
                if repr(COLUMN) not in str(error):
                    return f"{each.words}: it is refused without the name of the column: {error}"
            else:
                return f"{each.words}: it is taken"
            writer.rollback()
    return None if storage.image().files == before else "what is refused has changed files"


def _stage(writer: TableWriter, column: OfferedColumn) -> tuple[list[Offered], str | None]:
    """Stage what may be taken, and return what is, and what is refused and must not be."""
    taken, count = list[Offered](), 0
    for each in column.values:
        if each.keys is not None:
            try:
                writer.write(_rows(each.array, count))
            except RowsRejectedError as error:
                if each.sure or repr(COLUMN) not in str(error):
                    return [], f"{each.words}: it is refused: {error}"
            else:
                taken.append(each)
                count += len(each.array)
    return taken, None


def _differences(
    rows: pa.Table, taken: Sequence[Offered], how: str, keys_of: Callable[[Offered], Sequence[Any] | None]
) -> Iterator[str]:
    """Yield what rows have otherwise than they should, and how many they are if that is wrong."""
    found, first = _keys(rows[COLUMN]), 0
    for each in taken:
        wanted = list(keys_of(each) or ())
        these = found[first : first + len(wanted)]
        if repr(these) != repr(wanted):
            shown = f"{str(these)[:SHOWN]}, and should be as {str(wanted)[:SHOWN]}"
            yield f"{each.words}: it is {how} as {shown}"
        first += len(wanted)
    if len(found) != first:
        yield f"{len(found)} rows are {how}, and should be {first}"


def _keys(column: pa.ChunkedArray) -> list[Any]:
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return list((values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist())
