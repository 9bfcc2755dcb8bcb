"""Preparing rows for a commit: the table's columns and types, time order, deduplication, division by partition.

Of rows with equal keys the last one written wins, at the position of the first one (docs/format.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl import limits
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.pm.header import Column
from tornproof.impl.table.metadata_file import TableColumn, TableMetadata
from tornproof.impl.table.partition_names import interval_end, interval_start
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.types.questdb import GEOHASH_BITS, GEOHASH_PRECISION, NULL_VALUES, tag_of
from tornproof.impl.types.texts import NumberText, number_text
from tornproof.impl.write.merge_plan import Timestamps

POSITION = "position of a row"
WIDEST_INTEGERS = pa.decimal256(38, 0)
VARIABLE_WIDTH_BUFFER_COUNT = 3
"""Validity, offsets and values."""
_INSTEAD_OF_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class ArrowStream(Protocol):
    """Rows of any library that hands them over as an Arrow stream, such as a data frame of Polars or pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream as a capsule."""


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one partition; `timestamp` is its start, whether or not the partition exists."""

    timestamp: int
    rows: pa.Table
    timestamps: Timestamps


def conform(rows: ArrowStream, schema: pa.Schema, timestamp_name: str, columns: Iterable[TableColumn] = ()) -> pa.Table:
    """Return rows in the table's columns and types; missing columns get nulls, or false and 0 for types without null.

    `columns` say which numbers are geohashes, and of how many bits, which `schema` does not. Raises RowsRejectedError
    for unknown columns, values that do not fit the type, missing timestamps, and what is no Arrow rows.
    """
    if not hasattr(rows, "__arrow_c_stream__"):
        raise RowsRejectedError(f"expected rows as a table, batch or stream of Arrow, found: {type(rows).__name__}")
    try:
        stream = pa.RecordBatchReader.from_stream(rows)
    except pa.ArrowInvalid as error:
        raise RowsRejectedError(f"expected rows of columns, found {type(rows).__name__}: {error}") from error
    table = stream.read_all()
    given = dict(zip(table.schema.names, table.columns, strict=True))
    if len(given) < table.num_columns:
        raise RowsRejectedError("the rows have two columns of one name")
    known = {*schema.names}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RowsRejectedError(f"there is no column {unknown[0]!r}; the table has {', '.join(schema.names)}")
    if timestamp_name not in given:
        raise RowsRejectedError(f"the rows lack {timestamp_name!r}, the designated timestamp")
    columns = tuple(columns)
    types = {column.name: column.type for column in columns}
    arrays = [_column(given.get(field.name), field, table.num_rows, types.get(field.name)) for field in schema]
    for field, array in zip(schema, arrays, strict=True):
        if array.null_count and not field.nullable:
            row = pc.index(array.is_null(), True).as_py()
            raise RowsRejectedError.at(field.name, row, f"a value, as {field.type} is never null", "null")
    fitting = pa.Table.from_arrays(arrays, schema=schema)
    reject_long_geohashes(fitting, columns)
    return fitting


def reject_long_geohashes(rows: pa.Table, columns: Iterable[TableColumn | Column]) -> None:
    """Raise RowsRejectedError for a geohash of more bits than its column has, but not for -1, the null of servers."""
    for column in columns:
        if tag_of(column.type) in GEOHASH_BITS:
            size_bits, values = GEOHASH_PRECISION.get(column.type), rows[column.name]
            is_long = pc.or_(pc.less(values, -1), pc.greater(values, (1 << size_bits) - 1))
            row = pc.index(is_long, True).as_py()
            if row >= 0:
                raise RowsRejectedError.at(column.name, row, f"a geohash of {size_bits} bits", values[row])


def in_time_order(rows: pa.Table, timestamp_name: str) -> pa.Table:
    """Return rows by ascending time; rows with equal times keep their order."""
    timestamps = timestamps_of(rows, timestamp_name)
    if len(timestamps) < 2 or not (timestamps[1:] < timestamps[:-1]).any():
        return rows
    return _taken(rows, np.argsort(timestamps, kind="stable"))


def without_duplicates(rows: pa.Table, keys: Mapping[str, int], *, old_count: int = 0) -> pa.Table:
    """Return one row for each key, the last one, at the position of the first; nulls count as equal.

    `keys` are names and types. As in servers, values of fixed width are equal if all of their bits are, and null equals
    the value that is kept in its place (docs/types.md). The first `old_count` rows are in the table already: those with
    keys that no later row has stay, even if several have them, because a server may have written them before the table
    had its keys.
    """
    for key in keys:
        _check_size(key, rows[key])
    positions = pa.array(np.arange(len(rows)))
    # A key may have any name.
    numbers = list(map(str, range(len(keys))))
    values = [_comparable(rows[key], of) for key, of in keys.items()]
    try:
        groups = (
            pa.Table.from_arrays([*values, positions], names=[*numbers, POSITION])
            .group_by(numbers, use_threads=False)
            .aggregate([(POSITION, "list")])
        )
    except pa.ArrowNotImplementedError as error:
        raise RowsRejectedError(f"rows cannot be told apart by the keys {', '.join(keys)}: {error}") from error
    if len(groups) == len(rows):
        return rows
    lists = groups[f"{POSITION}_list"].combine_chunks()
    ends, equal = lists.offsets.to_numpy(), lists.values.to_numpy()
    firsts, lasts = equal[ends[:-1]], equal[ends[1:] - 1]
    is_old = lasts < old_count
    stay = equal[np.repeat(is_old, np.diff(ends))]
    places, taken = np.append(firsts[~is_old], stay), np.append(lasts[~is_old], stay)
    return _taken(rows, taken[np.argsort(places)])


def portions(
    rows: pa.Table, timestamp_name: str, metadata: TableMetadata, partitions: Sequence[Partition]
) -> Iterator[Portion]:
    """Yield rows, given in time order, partition by partition.

    A row belongs to the last partition of its interval that starts at or before it, because partitions may have been
    split (docs/format.md).
    """
    timestamps = timestamps_of(rows, timestamp_name)
    starts = sorted(partition.timestamp for partition in partitions)
    position = 0
    while position < len(timestamps):
        first = int(timestamps[position])
        start, end = _interval(first, metadata)
        later = bisect_right(starts, first)
        stop = int(np.searchsorted(timestamps, min([end, *starts[later : later + 1]]), "left"))
        yield Portion(
            timestamp=max([start, *starts[max(0, later - 1) : later]]),
            rows=rows.slice(position, stop - position),
            timestamps=timestamps[position:stop],
        )
        position = stop


def timestamps_of(rows: pa.Table, timestamp_name: str) -> Timestamps:
    """Return the designated timestamps as integers in the column's unit."""
    return np.asarray(rows[timestamp_name].cast(pa.int64()).combine_chunks().to_numpy(zero_copy_only=False), np.int64)


def _interval(timestamp: int, metadata: TableMetadata) -> tuple[int, int]:
    nanoseconds = metadata.counts_nanoseconds
    start = interval_start(timestamp, metadata.partition_by, nanoseconds=nanoseconds)
    end = interval_end(timestamp, metadata.partition_by, nanoseconds=nanoseconds)
    # The server accepts no rows from before 1970, so it could not continue such a partition.
    if start is None or end is None or timestamp < 0:
        raise RowsRejectedError(f"a row at {timestamp} lies in no partition that the table can have")
    return start, end


def _column(given: pa.ChunkedArray | None, field: pa.Field, row_count: int, column_type: int | None) -> pa.Array:
    if given is None:
        if field.nullable:
            return pa.nulls(row_count, _storage(field.type)).cast(field.type)
        return pa.repeat(pa.scalar(False if field.type == pa.bool_() else 0, field.type), row_count)
    _check_size(field.name, given)
    try:
        column = _in_one_array(given)
    except pa.ArrowException as error:
        raise RowsRejectedError.at(field.name, None, field.type, f"{given.type}: {error}") from error
    fitting = column if column.type == field.type else cast_exactly(column, field, column_type)
    try:
        fitting.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RowsRejectedError.at(field.name, None, f"sound values of type {field.type}", error) from error
    return fitting


def _in_one_array(given: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(given.type):
        # Dictionaries of several chunks may be too many for one.
        given = _with_values_to_take(given)
        given = pa.chunked_array([chunk.dictionary_decode() for chunk in given.chunks], given.type.value_type)
    return given.combine_chunks()


def _with_values_to_take(given: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the same values with a dictionary that Arrow can decode, which it cannot if that has views (Polars)."""
    of = _INSTEAD_OF_VIEWS.get(given.type.value_type)
    return given if of is None else given.cast(pa.dictionary(given.type.index_type, of))


def cast_exactly(column: pa.Array, field: pa.Field, column_type: int | None = None) -> pa.Array:
    """Return values in the field's type; rejects those of which a cast would lose something, also if Arrow does not.

    Texts for a geohash, of which only `column_type` tells, an address or a CHAR are not parsed as their number.
    """
    if _is_text(column.type) and pa.types.is_fixed_size_binary(_storage(field.type)):
        # Arrow would take the bytes of the text for those of the value.
        raise RowsRejectedError.at(field.name, None, field.type, column.type)
    text = number_text(field.type, column_type) if _may_be_text(column.type) else None
    try:
        fitting, row = _converted(column, field.type) if text is None else _numbers_of(column, field, text)
    except pa.ArrowException as error:
        raise RowsRejectedError.at(field.name, None, field.type, f"{column.type}: {error}") from error
    if row >= 0:
        expected = f"a number that {field.type} holds" if text is None else text.expected
        raise RowsRejectedError.at(field.name, row, expected, column[row])
    return fitting


def _numbers_of(given: pa.Array, field: pa.Field, text: NumberText) -> tuple[pa.Array, int]:
    """Return the numbers of texts, and the first row whose text stands for none, else -1."""
    texts = given.cast(pa.large_string())
    if not field.nullable:
        # As in servers, where a null is an empty CHAR.
        texts = texts.fill_null("")
    encoded, numbers = texts.dictionary_encode(), list[int]()
    for each in encoded.dictionary.to_pylist():
        try:
            numbers.append(text.number_of(each))
        except ValueError:
            return texts, pc.index(texts, each).as_py()
    return pa.array(numbers, field.type).take(encoded.indices), -1


def _converted(given: pa.Array, of: pa.DataType) -> tuple[pa.Array, int]:
    """Return values in a type, and the first row whose number this changes where Arrow does not say so, else -1."""
    if pa.types.is_list(of) and _is_list(given.type):
        return _converted_lists(given, of)
    if pa.types.is_dictionary(given.type):
        given = _with_values_to_take(given).dictionary_decode()
    if pa.types.is_integer(of) and _may_be_text(given.type):
        # Arrow takes the digits for bits of the type, so that 0xFF is -1 in eight of them.
        texts = given.cast(pa.large_string())
        row = pc.index(pc.match_substring_regex(texts, "^0[xX]"), True).as_py()
        if row >= 0:
            return texts, row
    # Arrow takes as many digits for integers as their type may have, not as they have.
    is_whole = pa.types.is_integer(given.type) and pa.types.is_decimal(of)
    fitting = _cast(given.cast(WIDEST_INTEGERS) if is_whole else given, of)
    is_lost = _lost(given, fitting)
    return fitting, -1 if is_lost is None else pc.index(is_lost, True).as_py()


def _cast(given: pa.Array, of: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(given.type) and pa.types.is_floating(of):
        # Arrow divides a decimal by a power of ten, which rounds twice; of its text it takes the nearest float.
        given = given.cast(pa.large_string())
    return given.cast(of)


def _converted_lists(given: pa.Array, of: pa.ListType) -> tuple[pa.Array, int]:
    """Return lists with converted elements; Arrow itself loses elements of list views that follow a null."""
    elements, position = _converted(pc.list_flatten(given), of.value_type)
    ends = np.cumsum(pc.list_value_length(given).fill_null(0).to_numpy(zero_copy_only=False))
    offsets = pa.array(np.append(0, ends), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, elements, type=of, mask=given.is_null())
    return lists, position if position < 0 else pc.list_parent_indices(given)[position].as_py()


def _is_list(of: pa.DataType) -> bool:
    is_view = pa.types.is_list_view(of) or pa.types.is_large_list_view(of)
    return bool(is_view or pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of))


def _lost(given: pa.Array, fitting: pa.Array) -> pa.Array | None:
    """Return which numbers a cast has changed, or None where it rejects such numbers itself."""
    if pa.types.is_floating(fitting.type) and not _is_number(given.type):
        # Texts of all kinds, of which Arrow takes infinity for a number that is too large.
        is_infinity = pc.match_substring(given.cast(pa.large_string()), "inf", ignore_case=True)
        return pc.and_not(pc.is_inf(fitting), is_infinity)
    if not _is_number(given.type):
        return None
    if pa.types.is_floating(fitting.type):
        if pa.types.is_decimal(given.type):
            return _lost_decimals(given, fitting)
        # A narrower float is the nearest one, but Arrow also takes infinity for a number that is too large.
        return pc.and_not(pc.is_finite(given), pc.is_finite(fitting))
    if pa.types.is_boolean(fitting.type) or pa.types.is_decimal(fitting.type):
        # Arrow takes every number but 0 for true, and cuts floats to the digits of a decimal.
        return pc.invert(pc.equal(_cast(fitting, given.type), given))
    return None


def _lost_decimals(given: pa.Array, fitting: pa.Array) -> pa.Array:
    """Return which decimals a float is too narrow for, and which without a fraction it does not hold exactly.

    A fraction is the nearest float; of an integer that it does not hold Arrow says so itself.
    """
    floats = fitting.to_numpy(zero_copy_only=False)
    is_lost = np.isinf(floats)
    # Below, every whole number is a float.
    for row in np.flatnonzero(np.abs(floats) >= 1 << np.finfo(floats.dtype).nmant + 1).tolist():
        number, nearest = given[row].as_py(), floats[row].item()
        is_lost[row] |= number == int(number) and number != nearest
    return pa.array(is_lost)


def _is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of))


def _may_be_text(of: pa.DataType) -> bool:
    """Whether Arrow parses values as texts, which it does of bytes, too."""
    is_binary = pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_binary_view(of)
    return bool(is_binary or _is_text(of))


def _is_number(of: pa.DataType) -> bool:
    return bool(pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of))


def _taken(rows: pa.Table, positions: pa.Array | npt.NDArray[np.int64]) -> pa.Table:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        _check_size(name, column)
    return rows.take(positions)


def _check_size(name: str, column: pa.ChunkedArray) -> None:
    """Reject values that Arrow cannot join or sort, because one of its arrays cannot hold them."""
    if column.nbytes <= limits.ARRAY_LIMIT_BYTES or column.type.num_buffers < VARIABLE_WIDTH_BUFFER_COUNT:
        return
    expected = f"at most {limits.ARRAY_LIMIT_BYTES:,} bytes at once; write and commit fewer rows at a time"
    raise RowsRejectedError.at(name, None, expected, f"{column.nbytes:,}")


def _comparable(column: pa.ChunkedArray, column_type: int) -> pa.Array:
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    tag = tag_of(column_type)
    return values.fill_null(pa.scalar(NULL_VALUES[tag], values.type)) if tag in NULL_VALUES else values


def _storage(of: pa.DataType) -> pa.DataType:
    return of.storage_type if isinstance(of, pa.BaseExtensionType) else of
