"""Whether a partition has what its rows and the options of its writer make of it, in whatever way it was written.

A table goes through all of these ways; `partition_contents.py` says what follows from the bytes of its files.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import commit_prepared, metadata_with, new_table
from tornproof.harness.common.patch import Controls, all_replaced, not_noticed, original_of
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.model_based.surroundings import ENCODINGS
from tornproof.harness.explorers.roundtrip.parquet.partition_contents import Contents
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.metadata_file import META_FILE, TableColumn, TableMetadata
from tornproof.impl.table.symbols import (
    SymbolTable,
    dictionary_paths,
    read_offsets_header,
    read_table_symbols,
    symbol_columns,
)
from tornproof.impl.table.table import open_table
from tornproof.impl.write.incoming_rows import Portion, timestamps_of
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

PROPERTY = "a partition has what its rows and the options of its writer make of it"
PATH = "written"
PIECES = {
    "tornproof.impl.write.partition_change:STREAMED_BYTES": 1,
    "tornproof.impl.chunk.duplicate_pages:PAGE_ROW_COUNT": 7,
}
"""What is only divided if it is large."""
LITTLE_ROOM = {"tornproof.impl.limits:PM_LIMIT_BYTES": 10_000}
"""Filters of the small rate do not fit into so many."""
LITTLE_MEMORY = {
    "tornproof.impl.read.row_group:BATCH_FLOOR_BYTES": 4_000,
    "tornproof.impl.read.row_group:EXPANSION_MAX": 1,
}
"""Readers take little more than one long text at once, in whatever few bytes it is stored."""
COLUMNS = {
    "gone": "INT",
    "ts": "TIMESTAMP",
    "v": "LONG",
    "same": "LONG",
    "d": "DOUBLE",
    "name": "VARCHAR",
    "tag": "SYMBOL",
}
NUMBERS = frozenset({"ts", "gone", "v", "same", "d", "renamed"})
FILTERED = ("v", "same", "name", "tag")
GROUP_ROWS, ROW_COUNT = 30, 50
STEP = 10
"""Microseconds from one row to the next."""
LONG_TEXTS, LONG_TEXT_BYTES = 3, 3_000
"""The first texts of each row group are long."""
GROUP_BYTES, GROUP_BYTES_MAX = 7_000, 7_300
"""A slice of rows that were read may have a few bytes more than one of those that were written."""
RATE, SMALL_RATE = 1e-6, 1e-12
TAGS = ("a", "b")
DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPartitions:
    """A table whose first rows are written with some options, and others `afterwards`; maybe row group by row group.

    Some `sizes` are others meanwhile. If there is no room for filters in a `_pm`, they must be in data.parquet.
    """

    name: str
    options: WriterOptions
    afterwards: WriterOptions
    sizes: Mapping[str, int] = field(default_factory=dict)
    kind: str = "partitions"


@functools.cache
def written_partitions() -> tuple[WrittenPartitions, ...]:
    """Return tables whose options differ from the default in one."""
    default = WriterOptions(
        row_group_row_count_max=GROUP_ROWS, rewrite_unused_ratio=1_000.0, allow_unreadable_by_servers=True
    )
    twice = replace(default, encoding=ENCODINGS["every number twice"])
    pages = EncodeOptions(footer_extension=FooterForm.PRIVATE, codec=Codec.GZIP, page_row_count_max=20, page_index=True)
    filters = {
        f"filters {position.value}": replace(
            default, blooms=BloomOptions(columns=dict.fromkeys(FILTERED, RATE), position=position)
        )
        for position in BloomPosition
    }
    inlined, external = (
        filters.pop(f"filters {each.value}") for each in (BloomPosition.INLINED, BloomPosition.EXTERNAL)
    )
    large = replace(default, blooms=BloomOptions(columns=dict.fromkeys(FILTERED, SMALL_RATE)))
    options = {
        "every number twice": twice,
        "row groups of few bytes": replace(default, row_group_size_bytes_max=GROUP_BYTES),
        **filters,
    }
    # Controls meet the first case first, which has the most to notice.
    return (
        WrittenPartitions(name="every number twice at first", options=twice, afterwards=default, sizes=PIECES),
        *(WrittenPartitions(name=name, options=each, afterwards=each) for name, each in options.items()),
        WrittenPartitions(name="readers of little memory", options=inlined, afterwards=inlined, sizes=LITTLE_MEMORY),
        WrittenPartitions(name="small pages afterwards", options=default, afterwards=replace(default, encoding=pages)),
        WrittenPartitions(name="filters that do not fit into _pm", options=large, afterwards=large, sizes=LITTLE_ROOM),
        WrittenPartitions(name="filters row group by row group", options=external, afterwards=external, sizes=PIECES),
        WrittenPartitions(name="filters that only the first rows were asked for", options=inlined, afterwards=default),
    )


def problem_of(case: WrittenPartitions) -> str | None:
    """Say what is wrong with a partition of the table, and after what; None if nothing ever is."""
    with all_replaced(case.sizes):
        living = _Living(case)
        for way, start, asked in living.ways():
            problem = living.problem_of_nulls() or next(_differences(living.contents(start), asked), None)
            if problem is not None:
                return f"after {way} {problem}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that leave something out."""
    writer, encoder = "tornproof.impl.write.partition_writer", "tornproof.impl.chunk.row_group_encoder"
    change = "tornproof.impl.write.partition_change"
    controls: Controls = (
        ("nothing is unused", f"{writer}:unused_bytes_of", lambda _: 0),
        ("duplicates are never unused", f"{writer}:duplicate_bytes_of", lambda _: 0),
        ("totals stay those of one row group", f"{encoder}:_with_totals", lambda tree, _: tree),
        ("a page index stays where it was", f"{encoder}:moved_index", lambda index, _: index),
        ("footers have no extension", f"{writer}:extended_footer", lambda thrift, *_, **__: thrift),
        ("every other filter is larger", f"{change}:bitset_of_values", _every_other_larger()),
        ("sizes of row groups do not matter", f"{change}:_first_count", _as_many_rows),
        ("row groups are as before", f"{change}:_as_before", lambda options, _: options),
    )
    yield from not_noticed(controls, problem_of, written_partitions())
    reference = original_of(f"{encoder}:_reference")
    more: Controls = (
        (
            "page indexes are longer",
            f"{encoder}:_reference",
            lambda name, at, length: reference(name, at, length + 1),
            "into what begins at",
        ),
        ("nothing has nulls", "tornproof.impl.write.table_writer:_has_null", lambda *_: False, "says False of nulls"),
    )
    yield from not_noticed(more, problem_of, written_partitions()[:1])
    by_name = {each.name: each for each in written_partitions()}
    codecs: Controls = (("codecs are the default", f"{change}:encode_options", lambda *_: None, "its codecs are"),)
    yield from not_noticed(codecs, problem_of, [by_name["small pages afterwards"]])
    made = original_of(f"{change}:new_header")
    filters: Controls = (
        ("no filters", f"{change}:new_header", lambda columns, **_: made(columns), "has filters {None}"),
        ("the last row group has no filters", f"{__name__}:Contents", _FewerFilters, "None", "<BloomPosition"),
    )
    yield from not_noticed(filters, problem_of, [by_name["filters that only the first rows were asked for"]])


class _FewerFilters(Contents):
    def positions_of_filters(self, name: str) -> Iterator[BloomPosition | None]:
        *found, _ = super().positions_of_filters(name)
        yield from (*found, None)


def _every_other_larger() -> Callable[[pa.Array, float], bytes]:
    sizes, bitset_of_values = itertools.cycle((1, 2)), original_of("tornproof.impl.parquet.bloom:bitset_of_values")
    return lambda values, rate: bitset_of_values(values, rate) * next(sizes)


def _as_many_rows(rows: pa.Table, options: WriterOptions) -> int:
    return min(len(rows), options.row_group_row_count_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for in a partition, and its rows if its row groups were to be cut by their size."""

    form: FooterForm
    has_duplicates: bool
    codec: Codec
    filters: BloomPosition | None
    rows: pa.Table | None


class _Living:
    """A table that goes through all ways of writing."""

    def __init__(self, case: WrittenPartitions) -> None:
        self._case = case
        self._storage = MemoryStorage()
        new_table(self._storage, PATH, COLUMNS)
        self._known: dict[int, _Asked] = {}
        self._has_null = False

    def ways(self) -> Iterator[tuple[str, int, _Asked]]:
        """Write in each way, and yield that, the start of the partition, and what was asked for."""
        first, after = self._case.options, self._case.afterwards
        times = [FIRST_TIME + STEP * number for number in range(ROW_COUNT)]
        day = FIRST_TIME // DAY * DAY
        self._write(first, times)
        yield "the first rows", day, self._asked(day, first)
        self._change_columns({"same": "renamed"})
        self._write(after, [times[-1] + STEP * number for number in range(1, 4)])
        yield "rows behind others", day, self._asked(day, after)
        self._write(after, [time + 1 for time in times[GROUP_ROWS : GROUP_ROWS + 3]])
        yield "rows between others", day, self._asked(day, after)
        self._change_columns({"gone": None})
        self._write(after, [time + 2 for time in times[3:6]])
        yield "a rewrite because of a column that is gone", day, self._asked(day, after)
        self._prepare_alone(after, [time + DAY for time in times])
        yield "the preparation of a partition", day + DAY, self._asked(day + DAY, after, is_alone=True)
        self._prepare_merged(after, day, [time + 3 for time in times[GROUP_ROWS : GROUP_ROWS + 10]])
        yield "the preparation of a partition with old rows", day, self._asked(day, after)
        self._write(after, [times[-1] + 100, times[-1] + DAY + 100])
        # Where there is little room, the other one may have had to be rewritten, and then has filters.
        for start in (day, day + DAY) if self._case.sizes is not LITTLE_ROOM else (day,):
            yield "rows behind those that were prepared", start, self._asked(start, after)

    def contents(self, start: int) -> Contents:
        """Return the files of a partition."""
        table = open_table(self._storage, PATH)
        partition = next(each for each in table.transaction().partitions if each.timestamp == start)
        return Contents.of(table, partition)

    def problem_of_nulls(self) -> str | None:
        """Say whether the dictionary of symbols does not say if rows have a null."""
        table = open_table(self._storage, PATH)
        column = the_only(symbol_columns(table))
        path = dictionary_paths(table, table.transaction(), column)["o"]
        says_null = bool(read_offsets_header(self._storage, path).has_null)
        return None if says_null == self._has_null else f"the dictionary of {column.name} says {says_null} of nulls"

    def _asked(self, start: int, options: WriterOptions, *, is_alone: bool = False) -> _Asked:
        """Return what was asked for, where the options leave it open as it was before.

        What was prepared alone has no filters, and row groups that are not the writer's.
        """
        before, encoding = self._known.get(start), options.encoding
        filters = before.filters if before else options.blooms.position if options.blooms and not is_alone else None
        if filters and self._case.sizes is LITTLE_ROOM:
            filters = BloomPosition.EXTERNAL
        is_cut = bool(options.row_group_size_bytes_max) and not is_alone and (before is None or before.rows is not None)
        asked = _Asked(
            form=encoding.footer_extension or (before.form if before else FooterForm.THRIFT),
            has_duplicates=bool(
                before and before.has_duplicates if encoding.duplicates is None else encoding.duplicates
            ),
            codec=encoding.codec,
            filters=filters,
            rows=self._rows_of(start) if is_cut else None,
        )
        self._known[start] = asked
        return asked

    def _rows_of(self, start: int) -> pa.Table:
        snapshot = open_snapshot(open_table(self._storage, PATH))
        rows = pa.Table.from_batches(list(snapshot.batches()), schema=snapshot.schema)
        times = timestamps_of(rows, "ts")
        return rows.filter(pa.array((times >= start) & (times < start + DAY)))

    def _write(self, options: WriterOptions, times: Sequence[int]) -> None:
        with open_writer_of_copy(self._storage, PATH, options=self._now(options)) as writer:
            writer.write(self._rows(writer.schema, times))
            writer.commit()

    def _prepare_alone(self, options: WriterOptions, times: Sequence[int]) -> None:
        metadata = self._metadata()
        snapshot = open_snapshot(open_table(self._storage, PATH))
        rows, path = self._rows(snapshot.schema, times, has_null=True), f"{PATH}/alone"
        with PartitionBuild(
            self._storage, path, metadata, self._now(options), table_name=PATH, symbols=self._symbols()
        ) as build:
            size = 10 if options.row_group_size_bytes_max else GROUP_ROWS
            for at in range(0, len(rows), size):
                build.append(build.encoded(rows.slice(at, size)))
            prepared = build.finish(times[0] // DAY * DAY)
        commit_prepared(self._storage, PATH, prepared)

    def _prepare_merged(self, options: WriterOptions, start: int, times: Sequence[int]) -> None:
        snapshot = open_snapshot(open_table(self._storage, PATH))
        rows = self._rows(snapshot.schema, times)
        portion = Portion(timestamp=start, rows=rows, timestamps=timestamps_of(rows, "ts"))
        path, now = f"{PATH}/merged", self._now(options)
        prepared = prepare_partition(self._storage, snapshot, portion, path, now, self._symbols())
        commit_prepared(self._storage, PATH, prepared)

    def _now(self, options: WriterOptions) -> WriterOptions:
        """Return the options with the names that columns have now."""
        if options.blooms is None:
            return options
        names = {column.id: column.name for column in self._metadata().columns}
        asked = {names[list(COLUMNS).index(name)]: rate for name, rate in options.blooms.columns.items()}
        return replace(options, blooms=replace(options.blooms, columns=asked))

    def _symbols(self) -> Mapping[str, SymbolTable]:
        table = open_table(self._storage, PATH)
        return read_table_symbols(table, table.transaction())

    def _metadata(self) -> TableMetadata:
        return needed(open_table(self._storage, PATH).metadata, "the new table has no metadata")

    def _change_columns(self, names: dict[str, str | None]) -> None:
        """Give columns another name, or none, as a server does."""

        def change(columns: Sequence[TableColumn]) -> Iterator[TableColumn]:
            for column in columns:
                if (name := names.get(column.name, column.name)) is not None:
                    yield replace(column, name=name)

        content = metadata_with(self._storage, PATH, change)
        path = f"{PATH}/{META_FILE}"
        self._storage.unlink(path)
        with self._storage.open_for_writing(path, OpenMode.NEW) as file:
            file.pwrite(content, 0)

    def _rows(self, schema: pa.Schema, times: Sequence[int], *, has_null: bool = False) -> pa.Table:
        """Return rows, of which the first one may have no symbol."""
        self._has_null |= has_null
        numbers = range(len(times))
        values = {
            "gone": pa.array(numbers, pa.int32()),
            "d": pa.array([None if number % 5 == 2 else number / 4 for number in numbers], pa.float64()),
            "tag": [None if has_null and number == 0 else TAGS[number % len(TAGS)] for number in numbers],
            "name": ["x" * (LONG_TEXT_BYTES if number % GROUP_ROWS < LONG_TEXTS else 1) for number in numbers],
        }
        made = [
            pa.array(times, pa.int64()) if name == "ts" else values.get(name, [time * 7 for time in times])
            for name in schema.names
        ]
        return pa.Table.from_arrays(
            [pa.array(each).cast(field.type) for each, field in zip(made, schema, strict=True)], schema=schema
        )


def _differences(contents: Contents, asked: _Asked) -> Iterator[str]:
    """Yield what is wrong in a partition."""
    yield from contents.problems()
    if contents.form is not asked.form:
        yield f"its footer is of the form {contents.form}, and should be of {asked.form}"
    for number, chunks in enumerate(contents.row_groups):
        has_duplicate = {chunk.name for chunk in chunks if chunk.duplicate is not None}
        expected = {chunk.name for chunk in chunks if asked.has_duplicates and chunk.name in NUMBERS}
        if has_duplicate != expected:
            yield f"row group {number} has duplicates of {sorted(has_duplicate)}, and should of {sorted(expected)}"
    codecs = {Codec(chunk.meta["codec"]) for chunks in contents.row_groups for chunk in chunks}
    if asked.codec not in codecs:
        yield f"its codecs are {sorted(codecs)}, and the newest should be {asked.codec}"
    yield from _differences_of_sizes(contents, asked)
    yield from _differences_of_filters(contents, asked)


def _differences_of_sizes(contents: Contents, asked: _Asked) -> Iterator[str]:
    start = 0
    for number, group in enumerate(contents.footer["row_groups"]):
        if asked.rows is not None:
            size_bytes = asked.rows.slice(start, group["num_rows"]).nbytes
            if group["num_rows"] > 1 and size_bytes > GROUP_BYTES_MAX:
                yield f"row group {number} has {size_bytes} bytes, and at most {GROUP_BYTES} were asked for"
        start += group["num_rows"]


def _differences_of_filters(contents: Contents, asked: _Asked) -> Iterator[str]:
    names = {column.id: column.name for column in contents.metadata.header.columns}
    for index, name in enumerate(COLUMNS):
        if index in names:
            expected = asked.filters if name in FILTERED else None
            found = set(contents.positions_of_filters(names[index]))
            if found != {expected}:
                yield f"column {name} has filters {found}, and should have {expected}"
    v, same = (list(contents.filters_of(names[list(COLUMNS).index(name)])) for name in ("v", "same"))
    if v != same:
        yield "columns with the same values and rates have other filters"
