"""A commit's change of one partition: rows merged in place, a rewrite, or a new partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tornproof.impl import limits
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup, encode_row_group
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.bloom import bitset_of_values
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.check import is_same_type
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition
from tornproof.impl.table.partition_schema import new_header, physical_form
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.write.commit import PartitionWrite
from tornproof.impl.write.incoming_rows import Portion, in_time_order, without_duplicates
from tornproof.impl.write.merge_plan import Insert, Keep, Merge, Run, plan_merge, runs_of
from tornproof.impl.write.partition_writer import (
    KeptRowGroups,
    NextRowGroups,
    OpenPartition,
    excess_of,
    load_state,
    new_footer,
    next_in_new_directory,
    next_in_place,
)
from tornproof.impl.write.readable_row_groups import readable_row_groups
from tornproof.impl.write.stored_arrays import one_array, stored_table
from tornproof.impl.write.streamed_partition import stream_new_directory
from tornproof.impl.write.writer_options import (
    COUNT_MAX,
    DEFAULT_FALSE_POSITIVE_RATE,
    BloomPosition,
    WriterOptions,
    check_options,
    encode_options,
    has_hashes,
)

__all__ = ["PartitionChange", "PartitionChanger", "RowGroupEncoder", "WriterOptions"]
RowGroupEncoder = Callable[..., EncodedRowGroup]
STREAMED_BYTES = 1 << 20
"""A new directory of more than that is written a row group at a time, before the commit's other actions."""
RUN_BYTES_MAX = 1 << 30
"""Row groups of other programs that overlap in time are sorted in memory, up to so many bytes."""
ROW_GROUP_GROWTH = 4
"""By how much row groups become larger where a partition would have too many."""


class PartitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes to write, and the partition after they are committed."""

    write: PartitionWrite
    partition: OpenPartition


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a new directory, which can be gone through several times, and at most how many there are."""

    parts: Callable[[], Iterator[pa.Table]]
    count_max: int
    is_streamed: bool


class PartitionChanger(msgspec.Struct, kw_only=True):
    """Plans changes of one table's partitions; reads old rows to merge them with new ones.

    Nothing is written but new directories of large partitions, whose paths are in `streamed`. `keys` are the
    deduplication keys, empty in a table without deduplication.
    """

    storage: Storage
    name: Callable[[], str]
    metadata: TableMetadata
    columns: tuple[SnapshotColumn, ...]
    schema: pa.Schema
    timestamp: SnapshotColumn
    keys: Mapping[str, int]
    options: WriterOptions
    encode: RowGroupEncoder
    reader: ReaderProtocol
    symbols_of: Callable[[str], SymbolTable] = field(repr=False)
    streamed: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise OptionsRejectedError for options that do not fit the columns."""
        check_options(self.options, self.metadata)

    @property
    def timestamp_name(self) -> str:
        """The name of the designated timestamp."""
        return self.timestamp.name

    def load(self, resolved: ResolvedPartition) -> OpenPartition:
        """Return the state of a resolved partition; raises CorruptError, UnsupportedError, StorageError."""
        return load_state(resolved, self.timestamp)

    def must_rewrite(self, partition: OpenPartition, portion: Portion | None) -> bool:
        """Whether a partition cannot or should not grow in place (docs/format.md)."""
        header = partition.metadata.header
        if not header.is_in_time_order or not self._has_columns_of_now(header):
            return True
        if portion is not None and self._breaks_ascii(header, portion.rows):
            return True
        ratio = partition.unused_bytes / partition.token
        return ratio > self.options.rewrite_unused_ratio or partition.unused_bytes > self.options.rewrite_unused_bytes

    def grow(self, partition: OpenPartition, portion: Portion, files: PartitionFiles) -> PartitionChange:
        """Merge rows into the row groups that overlap them in time, and append the others.

        If readers would not accept the result, or most of a large partition would be merged, it is rewritten into
        `files`.
        """
        steps = plan_merge(partition.spans, portion.timestamps, has_keys=bool(self.keys))
        merged = [block for step in steps if isinstance(step, Merge) for block in _blocks(partition, step)]
        merged_bytes = sum(chunk.total_compressed for block in merged for chunk in block.chunks)
        used_bytes = partition.token - partition.unused_bytes
        if merged_bytes > max(STREAMED_BYTES, self.options.rewrite_unused_ratio * used_bytes):
            return self.rewrite(partition, portion, files)
        row_groups: list[NextRowGroups] = []
        options = _as_before(self.options, partition)
        for step in steps:
            match step:
                case Keep(first, end):
                    row_groups.append(KeptRowGroups(first, end))
                case Merge(first, last, start, end):
                    old = pa.concat_tables(self._old_rows(partition, range(first, last + 1)))
                    rows = self._joined(old, portion.rows.slice(start, end - start))
                    row_groups += self._encoded([rows], partition.metadata.header, options)
                case Insert(start, end):
                    inserted = portion.rows.slice(start, end - start)
                    row_groups += self._encoded([inserted], partition.metadata.header, options)
        write, after = next_in_place(partition, row_groups, self.options.encoding.footer_extension)
        if excess_of(after, partition) is not None:
            return self.rewrite(partition, portion, files)
        return PartitionChange(write=write, partition=after)

    def rewrite(
        self, partition: OpenPartition, portion: Portion | None, files: PartitionFiles, *, is_streamed: bool = False
    ) -> PartitionChange:
        """Write all rows, old and new, into a new directory, with the table's current columns.

        A large one is written at once, and so is a small one if it `is_streamed`.
        """
        rows = _Rows(
            parts=partial(self._merged, partition, portion),
            count_max=partition.metadata.row_count + (len(portion.timestamps) if portion else 0),
            is_streamed=is_streamed or partition.token > STREAMED_BYTES,
        )
        options = _as_before(self.options, partition)
        return self._create(rows, self._header(partition.metadata.header), files, options, partition.form)

    def create(self, portion: Portion, files: PartitionFiles, *, is_streamed: bool = False) -> PartitionChange:
        """Write the first rows of a partition."""
        rows = _Rows(
            parts=lambda: iter([portion.rows]),
            count_max=portion.rows.num_rows,
            is_streamed=is_streamed or portion.rows.nbytes > STREAMED_BYTES,
        )
        return self._create(rows, self._header(None), files, self.options, FooterForm.THRIFT)

    def _header(self, before: FileHeader | None) -> FileHeader:
        """Return the header of a new directory, with the bloom filters in the options or in the file `before`."""
        asked = self.options.blooms
        if asked is not None:
            ids = {column.id for column in self.metadata.columns if column.name in asked.columns}
            return new_header(self.metadata, bloom_ids=ids, blooms_external=asked.position is BloomPosition.EXTERNAL)
        if before is None:
            return new_header(self.metadata)
        return new_header(self.metadata, bloom_ids=self._bloom_ids(before), blooms_external=before.blooms_external)

    def _bloom_ids(self, header: FileHeader) -> set[int]:
        """Return the ids of the table's columns that have bloom filters in a file."""
        # By id, because the current columns may have other positions.
        ids, known = {header.columns[index].id for index in header.bloom_columns}, self.metadata.columns_by_id
        return {known[key].id for key in ids & known.keys() if has_hashes(known[key].type)}

    def _create(
        self, rows: _Rows, header: FileHeader, files: PartitionFiles, options: WriterOptions, form_before: FooterForm
    ) -> PartitionChange:
        """Return a new directory that readers accept, if need be with external filters, then with larger row groups.

        Raises RowsRejectedError if there is none.
        """
        form = options.encoding.footer_extension or form_before
        footer, row_groups = new_footer(header, self.name()), self._encoded(rows.parts(), header, options)
        if rows.is_streamed:
            self.streamed.append(files.path)
            write, after = stream_new_directory(self.storage, files, header, footer, row_groups, form)
        else:
            write, after = next_in_new_directory(files, header, footer, row_groups, form=form)
        found = excess_of(after)
        if found is None:
            return PartitionChange(write=write, partition=after)
        if found.what == limits.PM_SIZE and header.bloom_columns and not header.blooms_external:
            ids = self._bloom_ids(header)
            return self._create(
                rows, new_header(self.metadata, bloom_ids=ids, blooms_external=True), files, options, form
            )
        if _has_larger_row_groups(options, rows.count_max):
            return self._create(rows, header, files, _with_larger_row_groups(options), form)
        raise RowsRejectedError(
            f"{files.name}: it would have {found}; write fewer rows or filters, or shorter values, to it"
        )

    def _merged(self, partition: OpenPartition, portion: Portion | None) -> Iterator[pa.Table]:
        """Yield old and new rows in time order, so many at a time as have to be merged or sorted."""
        timestamps, runs = portion.timestamps if portion else np.empty(0, np.int64), runs_of(partition.spans)
        for step in plan_merge([run.span for run in runs], timestamps, has_keys=bool(self.keys)):
            match step:
                case Keep(first, end):
                    for run in runs[first:end]:
                        yield in_time_order(self._rows_of_runs(partition, [run]), self.timestamp_name)
                case Merge(first, last, start, end):
                    assert portion is not None
                    new = portion.rows.slice(start, end - start)
                    # Without a name for the old rows, which would keep them while the joined ones are encoded.
                    yield self._joined(self._rows_of_runs(partition, runs[first : last + 1]), new)
                case Insert(start, end):
                    assert portion is not None
                    yield portion.rows.slice(start, end - start)

    def _rows_of_runs(self, partition: OpenPartition, runs: Sequence[Run]) -> pa.Table:
        """Return the rows of runs in the order of the file; raises RowsRejectedError for a run of too many bytes."""
        parts = [self.schema.empty_table()]
        for run in runs:
            rest_bytes = RUN_BYTES_MAX
            for ordinal in sorted(run.ordinals):
                rows = self._old_rows(partition, [ordinal])
                parts += rows
                rest_bytes -= sum(part.nbytes for part in rows)
                if rest_bytes < 0 and len(run.ordinals) > 1:
                    raise RowsRejectedError(
                        f"{partition.files.name}: {len(run.ordinals)} of its row groups overlap in time, so that they "
                        f"have to be sorted at once, and have more than {RUN_BYTES_MAX:,} bytes; drop the partition, "
                        "and write its rows in time order"
                    )
        return pa.concat_tables(parts)

    def _joined(self, old: pa.Table, new: pa.Table) -> pa.Table:
        rows = pa.concat_tables([old, new])
        if self.keys:
            rows = without_duplicates(rows, self.keys, old_count=old.num_rows)
        return in_time_order(rows, self.timestamp_name)

    def _old_rows(self, partition: OpenPartition, ordinals: Sequence[int]) -> list[pa.Table]:
        parts = [self.schema.empty_table()]
        with partition.files.open_data() as handle:
            for ordinal in ordinals:
                block = self.reader.described(partition.metadata.blocks[ordinal])
                parts += [
                    pa.Table.from_arrays(arrays, schema=self.schema)
                    for arrays in row_group_columns(partition, block, handle, self.columns)
                ]
        return parts

    def _encoded(
        self, tables: Iterable[pa.Table], header: FileHeader, limited: WriterOptions
    ) -> Iterator[EncodedRowGroup]:
        """Yield rows, given in several tables, as row groups with the sizes and the encoding in `limited`."""
        names = self.metadata.names_by_id
        symbols = {
            column.name: self.symbols_of(names[column.id])
            for column in header.columns
            if tag_of(column.type) is TypeTag.SYMBOL
        }
        file_names = {names[column.id]: column.name for column in header.columns}
        options = encode_options(limited, file_names, self.timestamp_name)

        def encoded(part: pa.Table) -> EncodedRowGroup:
            stored, bounds = stored_table(part, header.columns, symbols)
            bitsets = self._bitsets(stored, header, names)
            settings: dict[str, Any] = {} if options is None else {"options": options}
            if bitsets and (header.blooms_external or self._also_in_data()):
                settings["bitsets"] = bitsets
            # By default only bounds are passed, so that simpler row group encoders can be used.
            group = self.encode(stored, bounds=bounds, **settings)
            return replace(group, bitsets=bitsets) if bitsets else group

        def in_file_order(part: pa.Table) -> pa.Table:
            # A renamed column keeps its original name in the files.
            arrays = [part[names[column.id]] for column in header.columns]
            return pa.Table.from_arrays(arrays, names=[column.name for column in header.columns])

        for part in row_group_parts(tables, limited):
            yield from readable_row_groups(in_file_order(part), encoded)
            del part  # before the next one is made

    def _bitsets(self, stored: pa.Table, header: FileHeader, names: Mapping[int, str]) -> dict[int, bytes]:
        """Return filters for the bloom columns of the file, which are the same in all generations."""
        rates = self.options.blooms.columns if self.options.blooms else {}
        return {
            index: bitset_of_values(
                one_array(stored.column(index)),
                rates.get(names[header.columns[index].id], DEFAULT_FALSE_POSITIVE_RATE),
            )
            for index in header.bloom_columns
            if has_hashes(header.columns[index].type)
        }

    def _also_in_data(self) -> bool:
        return self.options.blooms is not None and self.options.blooms.position is BloomPosition.BOTH

    def _breaks_ascii(self, header: FileHeader, rows: pa.Table) -> bool:
        """Whether rows have other text in a column that is marked as ASCII in the header, which no update changes."""
        names = self.metadata.names_by_id
        promised = [column.id for column in header.columns if layout.IS_ASCII.get(column.flags)]
        return any(pc.any(pc.invert(pc.string_is_ascii(rows[names[key]]))).as_py() for key in promised)

    def _has_columns_of_now(self, header: FileHeader) -> bool:
        """Whether the file has the table's current columns, in the form of new row groups."""
        known = self.metadata.columns_by_id
        found = {known[column.id].id if column.id in known else column.id for column in header.columns}
        return found == {column.id for column in self.metadata.columns} and all(
            is_same_type(column, known[column.id].type)
            and physical_form(column.type) == (column.physical_type, column.fixed_byte_len)
            and column.max_rep_level == 0
            for column in header.columns
        )


def changer_of(
    storage: Storage,
    snapshot: Snapshot,
    options: WriterOptions,
    *,
    symbols_of: Callable[[str], SymbolTable],
    encode: RowGroupEncoder = encode_row_group,
) -> PartitionChanger:
    """Return what changes the partitions of a version of a table, which has a `_meta` with a designated timestamp."""
    metadata = snapshot.table.metadata
    assert metadata is not None
    (timestamp,) = (column for column in snapshot.columns if column.id == metadata.timestamp_id)
    return PartitionChanger(
        storage=storage,
        name=snapshot.table.name,
        metadata=metadata,
        columns=snapshot.columns,
        schema=snapshot.schema,
        timestamp=timestamp,
        keys=metadata.keys,
        options=options,
        encode=encode,
        reader=snapshot.reader,
        symbols_of=symbols_of,
    )


def _as_before(options: WriterOptions, partition: OpenPartition) -> WriterOptions:
    """Return the options with what they leave to the partition."""
    if options.encoding.duplicates is not None or not partition.has_duplicates:
        return options
    kept = replace(options.encoding, duplicates=True)
    return replace(options, encoding=kept, allow_unreadable_by_servers=True)


def _blocks(partition: OpenPartition, step: Merge) -> tuple[Block, ...]:
    """Return the row groups that a step merges."""
    return partition.metadata.blocks[step.first : step.last + 1]


def row_group_parts(tables: Iterable[pa.Table], options: WriterOptions) -> Iterator[pa.Table]:
    """Yield the rows of each row group, of which all but the last are as large as the options let them be."""
    rows: pa.Table | None = None
    for table in tables:
        rows = table if rows is None else pa.concat_tables([rows, table])
        del table
        while len(rows) >= options.row_group_row_count_max:
            part, rows = _divided(rows, options)
            yield part
            del part
    while rows is not None and len(rows):
        part, rows = _divided(rows, options)
        yield part


def _divided(rows: pa.Table, options: WriterOptions) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the first row group and those behind them; if these are few, they keep no others in memory."""
    count = _first_count(rows, options)
    part, rest = rows.slice(0, count).combine_chunks(), rows.slice(count)
    return part, rest.take(np.arange(len(rest))) if len(rest) < options.row_group_row_count_max else rest


def _first_count(rows: pa.Table, options: WriterOptions) -> int:
    """Return how many rows the first row group has."""
    # One array must be able to hold a column of it.
    size_bytes_max = min(options.row_group_size_bytes_max or limits.ARRAY_LIMIT_BYTES, limits.ARRAY_LIMIT_BYTES)
    part = rows.slice(0, options.row_group_row_count_max)
    while part.nbytes > size_bytes_max and part.num_rows > 1:
        part = part.slice(0, max(1, min(part.num_rows - 1, part.num_rows * size_bytes_max // part.nbytes)))
    return int(part.num_rows)


def _has_larger_row_groups(options: WriterOptions, row_count: int) -> bool:
    """Whether so many rows can be in larger row groups than the options let them be."""
    size_bytes_max = options.row_group_size_bytes_max
    is_cut_by_size = size_bytes_max is not None and size_bytes_max < limits.ARRAY_LIMIT_BYTES
    return options.row_group_row_count_max < row_count or is_cut_by_size


def _with_larger_row_groups(options: WriterOptions) -> WriterOptions:
    size_bytes_max = options.row_group_size_bytes_max
    return replace(
        options,
        row_group_row_count_max=min(options.row_group_row_count_max * ROW_GROUP_GROWTH, COUNT_MAX),
        row_group_size_bytes_max=None if size_bytes_max is None else min(size_bytes_max * ROW_GROUP_GROWTH, COUNT_MAX),
    )
