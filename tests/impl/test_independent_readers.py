"""Other readers of Parquet, given data.parquet cut at the token, against ours."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import golden_data
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_tables import only, parquet_partitions, rows_of, snapshot_of

from impl.layout.parquet import MAGIC, ParquetTail
from impl.parquet.footer import read_footer_tail
from impl.parquet.thrift import decode, encode
from impl.parquet.tree import Items, Struct
from impl.questdb_types import TypeTag, tag_of
from impl.reader import Snapshot, open_snapshot
from impl.row_group import column_key
from impl.transaction import Partition

LAST_STEPS = [
    max(step for step in golden_data.HISTORY_STEPS if step.startswith(f"{name}/")) for name in golden_data.HISTORIES
]
FOLDERS = [f"{name}/table" for name in (*golden_data.TABLES, *golden_data.CRASHES, *golden_data.AFTER_RESTARTS)]
READ_FOLDERS = [*FOLDERS, *LAST_STEPS]
DECIMAL256_BYTES = 32
SCHEMA_FIELD, TYPE_LENGTH_FIELD = 2, 2
DECIMAL_FIELDS = {6, 7, 8, 10}


def read_with_pyarrow(content: bytes, folder: Path) -> pa.Table:
    return pq.read_table(pa.BufferReader(content))


def read_with_duckdb(content: bytes, folder: Path) -> pa.Table:
    path = folder / "cut.parquet"
    path.write_bytes(content)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).to_arrow_table()


def read_with_polars(content: bytes, folder: Path) -> pa.Table:
    return polars.read_parquet(io.BytesIO(without_decimal256(content)), hive_partitioning=False).to_arrow()


def without_decimal256(content: bytes) -> bytes:
    """Take the annotation of 32-byte decimals away: Polars then reads their bytes, where it refuses the numbers."""
    start, length = read_footer_tail(content[-ParquetTail.layout.size_bytes :], file="cut", token=len(content))
    footer, _ = decode(content[start : start + length], file="cut")
    fields = [
        field._replace(value=plain(field.value)) if field.id == SCHEMA_FIELD else field for field in footer.fields
    ]
    encoded = encode(footer._replace(fields=tuple(fields)))
    return content[:start] + encoded + ParquetTail(footer_length=len(encoded), magic=MAGIC).pack()


def plain(schema: Any) -> Items:
    assert isinstance(schema, Items)

    def element(old: Any) -> Struct:
        assert isinstance(old, Struct)
        ids = {field.id: field.value for field in old.fields}
        if ids.get(TYPE_LENGTH_FIELD) != DECIMAL256_BYTES:
            return old
        return old._replace(fields=tuple(field for field in old.fields if field.id not in DECIMAL_FIELDS))

    return schema._replace(elements=tuple(map(element, schema.elements)))


READERS = {"pyarrow": read_with_pyarrow, "duckdb": read_with_duckdb, "polars": read_with_polars}


def ours_and_content(snapshot: Snapshot, partition: Partition) -> tuple[pa.Table, bytes]:
    """Rows of a partition with the columns of its file, in the file's order, and the file cut at the token."""
    resolved = snapshot.resolve(partition)
    bare = replace(open_snapshot(replace(snapshot.table, metadata=None)), transaction=snapshot.transaction)
    by_id = {column.id: column.name for column in bare.columns}
    names = [by_id[column_key(place, column)] for place, column in enumerate(resolved.metadata.header.columns)]
    with resolved.files.open_data() as handle:
        return rows_of(only(bare, partition), names), handle.pread(partition.token, 0)


def normalised(theirs: pa.Table, ours: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return both with the same types and names: what a reader cannot represent is cast on both sides.

    Renamed columns keep their old name in older files, so columns go by place. QuestDB stores arrays as raw binary,
    which only our reader makes lists of. DuckDB shows UUIDs as text, milliseconds as microseconds, fixed binary
    without its length, unannotated 32-bit integers (IPv4) as signed, and decimals above 38 digits as doubles.
    Polars has long strings, no UUID, and refuses decimals above 38 digits, whose bytes are compared instead.
    """
    ours_columns, theirs_columns = [], []
    for mine, other in zip(ours.columns, theirs.columns, strict=True):
        mine, other = mine.combine_chunks(), other.combine_chunks()
        mine, other = alike(mine, other)
        ours_columns.append(mine)
        theirs_columns.append(other)
    return pa.table(theirs_columns, ours.schema.names), pa.table(ours_columns, ours.schema.names)


def alike(mine: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_list(mine.type):
        raw = other.cast(pa.binary()).to_pylist()
        return mine, pa.array([None if value is None else lists(value, depth(mine.type)) for value in raw], mine.type)
    if isinstance(mine.type, pa.UuidType):
        mine = pa.array([None if value is None else str(value) for value in mine.to_pylist()])
        if isinstance(other.type, pa.BaseExtensionType):
            other = other.storage
        if not pa.types.is_string(other.type):
            raw = other.cast(pa.binary(16)).to_pylist()
            other = pa.array([None if value is None else uuid_text(value) for value in raw])
        return mine, other
    if pa.types.is_decimal256(mine.type) and pa.types.is_floating(other.type):
        return pa.array([None if value is None else float(value) for value in mine.to_pylist()]), other
    if pa.types.is_decimal256(mine.type) and not pa.types.is_decimal(other.type):
        return pa.array([unscaled(value, mine.type.scale) for value in mine.to_pylist()], pa.binary()), other.cast(
            pa.binary()
        )
    if mine.type == pa.uint32() and other.type == pa.int32():
        return mine, other.view(pa.uint32())
    return mine, other.cast(mine.type)


def unscaled(value: Any, scale: int) -> bytes | None:
    return None if value is None else int(value.scaleb(scale)).to_bytes(DECIMAL256_BYTES, "big", signed=True)


def uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def depth(list_type: pa.DataType) -> int:
    return 1 + depth(list_type.value_type) if pa.types.is_list(list_type.value_type) else 1


def lists(raw: bytes, dimensions: int) -> Any:
    """A raw array of QuestDB: a u32 length per dimension, zeros up to 8 bytes, doubles in row-major order."""
    lengths = struct.unpack_from(f"<{dimensions}I", raw)
    values = iter(struct.iter_unpack("<d", raw[-(-4 * dimensions // 8) * 8 :]))

    def nest(level: int) -> Any:
        if level == dimensions:
            return next(values)[0]
        return [nest(level + 1) for _ in range(lengths[level])]

    nested = nest(0)
    assert next(values, None) is None
    return nested


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", READ_FOLDERS)
def test_other_reader_gets_the_same_rows(
    name: str, read: Callable[[bytes, Path], pa.Table], questdb_data: Path, tmp_path: Path
) -> None:
    snapshot = snapshot_of(questdb_data / name)
    partitions = parquet_partitions(snapshot)
    assert partitions
    for partition in partitions:
        ours, content = ours_and_content(snapshot, partition)
        assert ours.num_rows == partition.row_count
        theirs, mine = normalised(read(content, tmp_path), ours)
        assert theirs.equals(mine)


@pytest.mark.parametrize("name", READ_FOLDERS)
def test_pyarrow_finds_our_very_types_but_for_arrays(name: str, questdb_data: Path, tmp_path: Path) -> None:
    snapshot = snapshot_of(questdb_data / name)
    for partition in parquet_partitions(snapshot):
        ours, content = ours_and_content(snapshot, partition)
        types = [pa.binary() if pa.types.is_list(each) else each for each in ours.schema.types]
        assert read_with_pyarrow(content, tmp_path).schema.types == types


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_other_reader_disagrees_when_a_value_differs(
    read: Callable[[bytes, Path], pa.Table], questdb_data: Path, tmp_path: Path
) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/types/table")
    (partition,) = parquet_partitions(snapshot)
    ours, content = ours_and_content(snapshot, partition)
    theirs, mine = normalised(read(content, tmp_path), ours)
    for place, name in enumerate(mine.schema.names):
        shifted = mine.set_column(
            place, name, pa.concat_arrays([*mine.column(place).slice(1).chunks, pa.nulls(1, mine.column(place).type)])
        )
        assert not theirs.equals(shifted), name


def test_polars_still_refuses_decimals_of_more_than_38_digits(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/types/table")
    (partition,) = parquet_partitions(snapshot)
    ours, content = ours_and_content(snapshot, partition)
    with pytest.raises(polars.exceptions.PolarsError, match="Decimal"):
        polars.read_parquet(io.BytesIO(content))
    assert [field.name for field in ours.schema if pa.types.is_decimal256(field.type)] == ["dec256"]


def test_every_type_of_questdb_but_one_is_among_what_others_read(questdb_data: Path) -> None:
    tags = {tag_of(column.type) for name in FOLDERS for column in snapshot_of(questdb_data / name).columns}
    assert set(TypeTag) - tags == {TypeTag.LONG128}
