"""Parquet files of events: finding, validating, and reading them in slices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tornproof.harness.checkers.recorded import EVENT_SCHEMA, NAMES, TEXTS
from tornproof.impl.errors import StorageError, TornproofError
from tornproof.pipeline.files import Location, each_once, is_hidden, is_utf8

SUFFIX = ".parquet"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
LARGEST_INTEGERS_BITS = 64
"""The only width of which a float does not hold all numbers."""
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
RowGroup: TypeAlias = tuple[Location, int]
Slice: TypeAlias = tuple[RowGroup, ...]


class UnreadableEventsError(TornproofError):
    """A path without readable events."""


def event_files(paths: Sequence[Location]) -> list[Location]:
    """Return the Parquet files among the paths, and those below the directories among them, each once.

    Files whose names begin with a dot or an underscore are unfinished, as in every dataset. Raises
    UnreadableEventsError if there is none.
    """
    files: list[Location] = []
    for path in paths:
        size_bytes = path.size_bytes()
        if size_bytes is None:
            if not path.is_local:
                # Of a bucket that is not there, this is the call that says so.
                path.files_below()
            raise UnreadableEventsError(f"{path}: does not exist")
        below = [path] if size_bytes >= 0 else [file for file, _ in path.files_below() if file.name.endswith(SUFFIX)]
        own = [file for file in below if file == path or not _is_hidden(file.relative_to(path))]
        if not own:
            raise UnreadableEventsError(f"{path}: contains no Parquet file")
        files += own
    return list(each_once(files))


def key_columns(
    files: Mapping[Location, pq.FileMetaData], paths: Sequence[Location]
) -> tuple[dict[str, list[pa.DataType]], dict[Location, dict[str, str | None]]]:
    """Return the columns that events do not have, with the types of each, and by file those in names of directories.

    Those (`fault=none`) are whole numbers if all are, and text otherwise. Raises UnreadableEventsError for names of
    directories that are columns of events.
    """
    keys: dict[str, list[pa.DataType]] = {}
    below: dict[Location, dict[str, str | None]] = {}
    tops = _tops(files, paths)
    for file, metadata in files.items():
        below[file] = _in_directories(file, tops)
        for field in metadata.schema.to_arrow_schema():
            if field.name not in NAMES and field.name not in below[file]:
                keys.setdefault(field.name, []).append(_of_values(field.type))
    for name in dict.fromkeys(name for values in below.values() for name in values):
        texts = [text for values in below.values() if (text := values.get(name)) is not None]
        keys.setdefault(name, []).append(pa.int64() if all(map(_is_whole_number, texts)) else pa.string())
    return {name: list(dict.fromkeys(types)) for name, types in keys.items()}, below


def _tops(files: Container[Location], paths: Sequence[Location]) -> dict[Location, Location]:
    """Return for each path the directory from which on names of directories are keys of its files.

    Of several paths, such as `events/fault=*`, their own last names are keys, too, as far as they are below a directory
    that holds them all: the histories are those of `events`. What a single path is called tells no histories apart.
    """
    names = {path: path.address.rstrip("/").split("/") for path in paths}
    levels = zip(*names.values(), strict=False)
    shared = len(list(itertools.takewhile(lambda level: len(set(level)) == 1, levels)))
    tops = {}
    for path, own in names.items():
        end = len(own) - (path in files)
        while end > shared and "=" in own[end - 1]:
            end -= 1
        tops[path] = replace(path, address="/".join(own[:end]) or "/")
    return tops


def _in_directories(file: Location, tops: Mapping[Location, Location]) -> dict[str, str | None]:
    """Return the columns in the names of a file's directories, from the highest directory on of the paths to it."""
    own = (top for path, top in tops.items() if file.is_below(path))
    top = min(own, key=lambda each: len(each.address))
    parts = [part for part in file.relative_to(top).split("/")[:-1] if "=" in part]
    if not all(map(is_utf8, parts)):
        raise UnreadableEventsError(f"{file}: the name of a directory with = is a key, and no text in UTF-8")
    pairs = (part.partition("=") for part in parts)
    found = {name: None if text == NO_VALUE else unquote(text) for name, _, text in pairs}
    if of_events := [name for name in found if name in NAMES]:
        raise UnreadableEventsError(f"{file}: the directory {of_events[0]}=… is called like a column of events")
    return found


def common_type(name: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type in which equal keys of files with these types are equal and others are not, text if need be.

    Raises UnreadableEventsError if there is none.
    """
    found = [of for of in types if not pa.types.is_null(of)]
    if len(found) < 2:
        return found[0] if found else pa.string()
    # The same time in two zones is one time.
    alike = [pa.timestamp(of.unit, "UTC") if pa.types.is_timestamp(of) and of.tz else of for of in found]
    try:
        schemas = [pa.schema([(name, of)]) for of in alike]
        wider = pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        wider = None
    if wider is not None and _holds_all(wider, alike):
        return wider
    if any(pa.types.is_nested(of) or _is_bytes(of) or isinstance(of, pa.BaseExtensionType) for of in found):
        raise UnreadableEventsError(f"the key {name} has other types in other files: {', '.join(map(str, found))}")
    return pa.string()


def _is_bytes(of: pa.DataType) -> bool:
    """Return whether values are bytes, which need not be text."""
    types = pa.types
    is_long = types.is_large_binary(of) or types.is_fixed_size_binary(of)
    return bool(types.is_binary(of) or types.is_binary_view(of) or is_long)


def _holds_all(wider: pa.DataType, types: Sequence[pa.DataType]) -> bool:
    """Return whether Arrow's common type has each number and time of the others, which it does not look at."""
    widths = [of.bit_width for of in types if pa.types.is_integer(of)]
    if pa.types.is_floating(wider):
        return max(widths, default=0) < LARGEST_INTEGERS_BITS and not any(map(pa.types.is_decimal, types))
    if pa.types.is_decimal(wider):
        return not widths
    if pa.types.is_timestamp(wider) or pa.types.is_duration(wider):
        # Nanoseconds of 64 bits end in 2262.
        return wider.unit != "ns" or all(of.unit == "ns" for of in types)
    return wider != pa.int64() or pa.uint64() not in types


def spark_type_of(of: pa.DataType) -> pa.DataType:
    """Return the type in which Spark gets a key, which is text if Spark has none that keeps all values apart."""
    types = pa.types
    if types.is_fixed_size_binary(of) or types.is_binary_view(of) or isinstance(of, pa.BaseExtensionType):
        return pa.binary()
    if types.is_timestamp(of) and of.unit != "ns":
        return pa.timestamp("us", of.tz)
    is_cut = types.is_timestamp(of) or (types.is_duration(of) and of.unit != "us")
    is_unknown = types.is_unsigned_integer(of) or types.is_float16(of) or types.is_time(of) or types.is_string_view(of)
    is_other_decimal = types.is_decimal(of) and not types.is_decimal128(of)
    return pa.string() if is_cut or is_unknown or is_other_decimal else of


def _of_values(of: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's values, which pandas has for categories and Spark not at all."""
    return of.value_type if pa.types.is_dictionary(of) else of


def _is_whole_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and str(int(text)) == text and abs(int(text)) < 1 << 63


def plan_slices(files: Sequence[Location], slice_events: int) -> tuple[list[Slice], int]:
    """Return row groups combined into slices, and the number of all events; raises UnreadableEventsError."""
    slices: list[Slice] = []
    current: list[RowGroup] = []
    current_count = event_count = 0
    for file in files:
        metadata = events_metadata(file)
        for index in range(metadata.num_row_groups):
            row_count = metadata.row_group(index).num_rows
            if current and current_count + row_count > slice_events:
                slices.append(tuple(current))
                current, current_count = [], 0
            current.append((file, index))
            current_count += row_count
            event_count += row_count
    return [*slices, tuple(current)] if current else slices, event_count


def events_metadata(file: Location) -> pq.FileMetaData:
    """Return the metadata of a Parquet file of events; raises UnreadableEventsError."""
    with _opened(file) as parquet:
        metadata, schema = parquet.metadata, parquet.schema_arrow
    for name in NAMES:
        index = schema.get_field_index(name)
        if index < 0:
            raise UnreadableEventsError(f"{file}: has no column {name}, so it contains no events")
        type_ = schema.field(index).type
        is_right = _is_text(type_) if name in TEXTS else type_ == pa.int64()
        if not is_right:
            raise UnreadableEventsError(f"{file}: column {name} is {type_}, not {'text' if name in TEXTS else 'int64'}")
    return metadata


@contextmanager
def _opened(file: Location, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; raises UnreadableEventsError, also for what is found while it is open."""
    try:
        with pq.ParquetFile(file.open_for_reading(mapped=True), read_dictionary=list(dictionaries)) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise UnreadableEventsError(f"{file}: is not a readable Parquet file: {error}") from error
    except StorageError as error:
        raise UnreadableEventsError(str(error)) from error


def read_slice(row_groups: Slice) -> pa.Table:
    """Return the events of a slice, with texts dictionary-encoded; raises UnreadableEventsError."""
    return pa.concat_tables(_row_groups(row_groups, NAMES, TEXTS)).select(NAMES)


def _row_groups(row_groups: Slice, names: Sequence[str], dictionaries: Sequence[str]) -> list[pa.Table]:
    """Return the columns that there are of some names; a file is opened once."""
    tables = []
    for file, own in itertools.groupby(row_groups, key=lambda each: each[0]):
        with _opened(file, dictionaries) as parquet:
            there = [name for name in names if name in parquet.schema_arrow.names]
            tables += [parquet.read_row_group(index, columns=there, use_threads=False) for _, index in own]
    return tables


def schema_with_keys(keys: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the columns of events and keys for Spark."""
    return pa.schema([*EVENT_SCHEMA, *((name, spark_type_of(of)) for name, of in keys.items())])


def read_with_keys(
    row_groups: Slice, keys: Mapping[str, pa.DataType], below: Mapping[Location, Mapping[str, str | None]]
) -> pa.Table:
    """Return the events of a slice with key columns, of which those in names of directories are in `below`.

    Keys are in the types of Spark, after those that all files have in common. Raises UnreadableEventsError.
    """
    schema = pa.schema([*EVENT_SCHEMA, *keys.items()])
    target = schema_with_keys(keys)
    tables = [target.empty_table()]
    for file, own in itertools.groupby(row_groups, key=lambda each: each[0]):
        given = below.get(file, {})
        for table in _row_groups(tuple(own), schema.names, ()):
            columns = [
                pa.repeat(pa.scalar(given[field.name]).cast(field.type), len(table))
                if field.name in given
                else _in_type(table, field)
                for field in schema
            ]
            tables.append(pa.Table.from_arrays(columns, schema=schema).cast(target))
    return pa.concat_tables(tables)


def _in_type(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Return a column in the type that all files have in common."""
    if field.name not in table.column_names or pa.types.is_null(table[field.name].type):
        return pa.nulls(len(table), field.type)
    column = table[field.name]
    values = column.cast(_of_values(column.type))
    return _texts_of(values) if pa.types.is_string(field.type) else values.cast(field.type)


def _texts_of(values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the texts of values, equal for equal numbers of all types, and for equal times of all units and zones."""
    of = values.type
    if pa.types.is_timestamp(of):
        digits = str(NANOSECONDS[of.unit])[1:]
        rest = f"{'.' if of.unit == 's' else ''}{digits}{'Z' if of.tz else ''}"
        return pc.binary_join_element_wise(values.cast(pa.timestamp(of.unit)).cast(pa.string()), rest, "")
    if pa.types.is_floating(of):
        return _written(values.cast(pa.float64()), _text_of)
    if pa.types.is_decimal(of):
        return _written(values, _text_of)
    if pa.types.is_duration(of):
        return _written(values.cast(pa.int64()), lambda count: str(count * NANOSECONDS[of.unit]))
    return values.cast(pa.string())


def _written(values: pa.ChunkedArray, write: Callable[[Any], str]) -> pa.Array:
    """Return the text of each value, written once for equal ones."""
    distinct = values.combine_chunks().dictionary_encode()
    return pa.array(map(write, distinct.dictionary.to_pylist()), pa.string()).take(distinct.indices)


def _text_of(number: float | Decimal) -> str:
    """Return a number without exponent, and without the point if it is a whole one."""
    is_whole = isinstance(number, float) and number.is_integer()
    text = format(Decimal(int(number) if is_whole else str(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_text(type_: pa.DataType) -> bool:
    inner = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _is_hidden(below: str) -> bool:
    return any(map(is_hidden, below.split("/")))
