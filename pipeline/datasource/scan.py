"""Reads a committed version of a table with Spark's own Parquet reader, at its speed.

A source in Python transfers every value from another process, which takes longer than reading it. So `_pm` is resolved
and checked here, and Spark reads the committed prefixes of the data files as files.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.fields import Codec, PageEncoding
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.read.reader import Snapshot, snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.changed_types import check_is_read
from tornproof.impl.table.columns import SnapshotColumn, column_positions, position_of
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.partition_schema import has_questdb_form
from tornproof.impl.table.table import agreeing, open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.types.arrow import is_nullable
from tornproof.impl.verify.verify import check_thrift_footer
from tornproof.pipeline.datasource.committed_files import CommittedFile, views
from tornproof.pipeline.datasource.har import SUFFIX, Beginning, write_archive
from tornproof.pipeline.datasource.options import OptionRejectedError, folder_of, path_of
from tornproof.pipeline.datasource.plan import ReadRequest, explained
from tornproof.pipeline.datasource.source import NAME, register
from tornproof.pipeline.datasource.types import DECIMAL_DIGITS_MAX, column_named, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

READABLE_CODECS = frozenset({Codec.UNCOMPRESSED, Codec.SNAPPY, Codec.GZIP, Codec.ZSTD, Codec.LZ4_RAW})
READ_OPTIONS = {
    # An archive without a file system in its address is in the default one.
    "fs.defaultFS": "file:///",
    # Some damaged pages can still be decoded.
    "parquet.page.verify-checksum.enabled": "true",
    # Whatever the settings of a session: a version is read completely and unchanged, or not at all.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
}
PATTERN = re.compile(r"[][{}*?\\]")
"""Characters that make Spark treat a path as a pattern, which it cannot resolve in an archive."""
UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


class SlowScanWarning(UserWarning):
    """Spark's own reader cannot read a table, so its rows are read in Python."""


_Layout: TypeAlias = tuple[str | None, ...]
"""The names of the requested columns in a partition's file; None for a column added after it was written."""


class _NotForSparkError(Exception):
    """Why Spark's own reader cannot read a partition."""


@contextmanager
def scan(
    spark: SparkSession, path: str, *, columns: Sequence[str] | None = None, staging: str | None = None
) -> Iterator[DataFrame]:
    """Yield the committed version of a table, or some of its columns, readable within the `with` block.

    The rows and types are those of the format `tornproof`. Where Spark's Java takes no new file system, `staging` names
    a folder that every machine sees, for an index of files. Warns with SlowScanWarning if it has to read as that format
    does. Raises as that format does when it loads a table, and PipelineUnavailableError on Spark Connect.
    """
    location, storage = path_of(path), OperatingSystemStorage()
    table = open_table(storage, location)
    with pin_committed(storage, location) as pin:
        snapshot = snapshot_of(*agreeing(table, pin.transaction))
        wanted = snapshot.selected(None if columns is None else list(columns))
        try:
            layouts = _layouts(snapshot, wanted)
        except _NotForSparkError as reason:
            warnings.warn(f"{location}: rows are read in Python: {reason}", SlowScanWarning, stacklevel=3)
            register(spark)
            names = json.dumps([column.name for column in wanted])
            yield spark.read.format(NAME).option("columns", names).load(location)
            return
        opened = views(spark, location, list(layouts.values()))
        with opened if staging is None else _archived(location, list(layouts.values()), staging) as addresses:
            found = dict(zip(layouts, addresses, strict=True))
            yield _native_frame(spark, snapshot.schema_of(wanted), wanted, found)


@contextmanager
def _archived(path: str, folders: Sequence[Sequence[CommittedFile]], staging: str) -> Iterator[list[str]]:
    """Yield the addresses of folders of files in an archive in `staging`, which is removed after the block."""
    with _archive_directory(staging) as directory:
        beginnings = [
            Beginning(
                folder=str(number),
                name=f"{file.directory}.parquet",
                path=Path(path, file.directory, DATA_FILE),
                size_bytes=file.size_bytes,
            )
            for number, files in enumerate(folders)
            for file in files
        ]
        write_archive(directory, beginnings)
        yield [f"har://{directory}/{number}" for number in range(len(folders))]


@contextmanager
def _archive_directory(staging: str) -> Iterator[Path]:
    parent = folder_of({"staging": staging}, "staging")
    with tempfile.TemporaryDirectory(prefix="tornproof-scan-", suffix=SUFFIX, dir=parent) as name:
        if found := PATTERN.search(name):
            raise OptionRejectedError(f"staging: {name}: Spark treats {found.group()!r} as part of a pattern")
        directory = Path(name)
        # Executors may be other users.
        directory.chmod(0o755)
        yield directory


def _layouts(snapshot: Snapshot, columns: Sequence[SnapshotColumn]) -> dict[_Layout, list[CommittedFile]]:
    """Return the files of a version by how they store the columns; raises _NotForSparkError, UnsupportedError."""
    request = ReadRequest.of(snapshot, tuple(columns))
    found: dict[_Layout, list[CommittedFile]] = {}
    for partition in snapshot.parquet_partitions():
        files = snapshot.table.files_of(partition)
        with explained(files, request):
            layout = _layout_of(snapshot.resolve(partition), columns)
        found.setdefault(layout, []).append(CommittedFile(directory=files.name, size_bytes=partition.token))
    return found


def _native_frame(
    spark: SparkSession, schema: pa.Schema, columns: Sequence[SnapshotColumn], addresses: Mapping[_Layout, str]
) -> DataFrame:
    """Return one frame of all partitions, each read by the column names in its file."""
    frames = [
        _frame(spark, address, schema, list(zip(columns, layout, strict=True))) for layout, address in addresses.items()
    ]
    if not frames:
        return spark.createDataFrame([], spark_schema(schema))
    return functools.reduce(lambda left, right: left.unionAll(right), frames)


def _layout_of(resolved: ResolvedPartition, columns: Sequence[SnapshotColumn]) -> _Layout:
    """Return how a partition stores the columns; raises _NotForSparkError, UnsupportedError."""
    label = resolved.files.data_label
    footer, problems = check_thrift_footer(resolved)
    if problems:
        raise _NotForSparkError(problems[0])
    if footer is None:
        raise _NotForSparkError(f"{label}: its Thrift footer is too large or too new to be compared with _pm")
    for row_group in footer.row_groups:
        for leaf, chunk in zip(footer.leaves, row_group.chunks, strict=True):
            if chunk.path_in_schema != leaf.path:
                old = ".".join(chunk.path_in_schema)
                raise _NotForSparkError(f"{label}: column {leaf.dotted_path!r} is still called {old!r} in row groups")
    name_counts = Counter(leaf.top.name.casefold() for leaf in footer.leaves)
    positions = column_positions(resolved.metadata.header)
    layout: list[str | None] = []
    for column in columns:
        position = position_of(column, positions)
        if position is None:
            layout.append(None)
            continue
        check_is_read(column, resolved.metadata.header.columns[position], file=resolved.files.pm_label)
        leaf = footer.leaves[position]
        reason = _why_unreadable(footer, position, column)
        if name_counts[leaf.top.name.casefold()] > 1:
            reason = "has the name of another one except for case"
        if reason is not None:
            raise _NotForSparkError(f"{label}: column {leaf.top.name!r} {reason}")
        layout.append(leaf.top.name)
    return tuple(layout)


def _why_unreadable(footer: ParquetFooter, index: int, column: SnapshotColumn) -> str | None:
    leaf, of = footer.leaves[index], column.arrow_type
    if pa.types.is_list(of) or (pa.types.is_decimal(of) and of.precision > DECIMAL_DIGITS_MAX):
        return f"holds {of}, which Spark has no reader for"
    if leaf.max_rep or not has_questdb_form(leaf.element, column.type):
        return f"is not stored as QuestDB stores {of}"
    for chunk in (row_group.chunks[index] for row_group in footer.row_groups):
        if chunk.codec not in READABLE_CODECS:
            return f"is compressed with {chunk.codec.name}"
        if PageEncoding.BYTE_STREAM_SPLIT in chunk.encodings:
            return "is encoded as BYTE_STREAM_SPLIT"
    return None


def _frame(
    spark: SparkSession, address: str, schema: pa.Schema, columns: Sequence[tuple[SnapshotColumn, str | None]]
) -> DataFrame:
    from pyspark.sql.types import BinaryType, StructField, StructType

    fields, values = [], []
    for field, (column, stored) in zip(spark_schema(schema).fields, columns, strict=True):
        if stored is not None:
            is_uuid = column.arrow_type == pa.uuid()
            fields.append(StructField(stored, BinaryType() if is_uuid else field.dataType))
        values.append(_value(column, stored).cast(field.dataType).alias(column.name))
    return spark.read.options(**READ_OPTIONS).schema(StructType(fields)).parquet(address).select(*values)


def _value(column: SnapshotColumn, stored: str | None) -> Column:
    from pyspark.sql import functions

    missing = functions.lit(column.constant(1)[0].as_py())
    if stored is None:
        return missing
    value = column_named(stored)
    if column.arrow_type == pa.uuid():
        digits = functions.lower(functions.hex(value))
        parts = [functions.substring(digits, start, length) for start, length in UUID_PARTS]
        return functools.reduce(lambda left, right: functions.concat(left, functions.lit("-"), right), parts)
    if not is_nullable(column.type):
        # Also where it is required: earlier servers left rows that are older than it out of bounds (docs/format.md).
        return functions.coalesce(value, missing)
    return _found_by_filters(value, column.arrow_type)


def _found_by_filters(value: Column, of: pa.DataType) -> Column:
    """Return a column as a computed value if Spark, which skips row groups by columns alone, would skip wrong ones."""
    from pyspark.sql import functions

    if pa.types.is_floating(of):
        # To Spark NaN is above all numbers, and the bounds of a row group leave it out.
        return functions.nanvl(value, value)
    if pa.types.is_timestamp(of) and of.unit == "ms":
        # For Parquet Spark cuts a literal of microseconds to milliseconds.
        return functions.timestamp_millis(functions.unix_millis(value))
    if pa.types.is_string(of) or pa.types.is_dictionary(of):
        # Earlier servers left texts out of bounds, and nulls of older rows out of their count (docs/format.md).
        return functions.concat(value, functions.lit(""))
    if pa.types.is_binary(of) or pa.types.is_fixed_size_binary(of):
        return functions.concat(value, functions.lit(b""))
    return value
