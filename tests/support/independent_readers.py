"""Other readers of Parquet, and the few differences in what they show, for comparison with what our reader returns."""

import decimal
import io
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from real_tables import only, rows_of

from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.parquet.footer import read_footer_tail
from tornproof.impl.parquet.thrift import Items, Struct, decode, encode
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.table.columns import column_key
from tornproof.impl.txn.transaction import Partition

DECIMAL256_BYTES = 32
SCHEMA_FIELD, TYPE_LENGTH_FIELD = 2, 2
DECIMAL_FIELDS = {6, 7, 8, 10}
EXACT = decimal.Context(prec=decimal.MAX_PREC)
ROUNDING = 1e-15


def read_with_pyarrow(content: bytes, folder: Path) -> pa.Table:
    """Return the rows as pyarrow reads them; it compares page checksums where there are any."""
    return pq.read_table(pa.BufferReader(content), page_checksum_verification=True)


def read_with_duckdb(content: bytes, folder: Path) -> pa.Table:
    """Return the rows as DuckDB reads them from a file in `folder`."""
    path = folder / "cut.parquet"
    path.write_bytes(content)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).to_arrow_table()


def read_with_polars(content: bytes, folder: Path) -> pa.Table:
    """Return the rows as Polars reads them."""
    return polars.read_parquet(io.BytesIO(without_decimal256(content)), hive_partitioning=False).to_arrow()


def without_decimal256(content: bytes) -> bytes:
    """Take the annotation of 32-byte decimals away: Polars then reads their bytes, where it refuses the numbers."""
    start, length = read_footer_tail(content[-ParquetTail.layout.size_bytes :], file="cut", token=len(content))
    footer, _ = decode(content[start : start + length], file="cut")
    fields = [
        field._replace(value=_plain(field.value)) if field.id == SCHEMA_FIELD else field for field in footer.fields
    ]
    encoded = encode(footer._replace(fields=tuple(fields)))
    return content[:start] + encoded + ParquetTail(footer_length=len(encoded), magic=MAGIC).pack()


def _plain(schema: Any) -> Items:
    assert isinstance(schema, Items)

    def element(old: Any) -> Struct:
        assert isinstance(old, Struct)
        ids = {field.id: field.value for field in old.fields}
        if ids.get(TYPE_LENGTH_FIELD) != DECIMAL256_BYTES:
            return old
        return old._replace(fields=tuple(field for field in old.fields if field.id not in DECIMAL_FIELDS))

    return schema._replace(elements=tuple(map(element, schema.elements)))


READERS: dict[str, Callable[[bytes, Path], pa.Table]] = {
    "pyarrow": read_with_pyarrow,
    "duckdb": read_with_duckdb,
    "polars": read_with_polars,
}


def ours_and_content(snapshot: Snapshot, partition: Partition) -> tuple[pa.Table, bytes]:
    """Return a partition's rows with the columns of its file, in the file's order, and the file cut at the token."""
    resolved = snapshot.resolve(partition)
    bare = replace(open_snapshot(replace(snapshot.table, metadata=None)), transaction=snapshot.transaction)
    by_id = {column.id: column.name for column in bare.columns}
    names = [by_id[column_key(position, column)] for position, column in enumerate(resolved.metadata.header.columns)]
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
        mine, other = _alike(mine, other)
        ours_columns.append(mine)
        theirs_columns.append(other)
    return pa.table(theirs_columns, ours.schema.names), pa.table(ours_columns, ours.schema.names)


def _alike(mine: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_list(mine.type):
        raw = other.cast(pa.binary()).to_pylist()
        return mine, pa.array([None if value is None else _lists(value, _depth(mine.type)) for value in raw], mine.type)
    if isinstance(mine.type, pa.UuidType):
        mine = pa.array([None if value is None else str(value) for value in mine.to_pylist()])
        if isinstance(other.type, pa.BaseExtensionType):
            other = other.storage
        if not pa.types.is_string(other.type):
            raw = other.cast(pa.binary(16)).to_pylist()
            other = pa.array([None if value is None else _uuid_text(value) for value in raw])
        return mine, other
    if pa.types.is_decimal256(mine.type) and pa.types.is_floating(other.type):
        return _rounded(mine, other), other
    if pa.types.is_decimal256(mine.type) and not pa.types.is_decimal(other.type):
        return pa.array([_unscaled(value, mine.type.scale) for value in mine.to_pylist()], pa.binary()), other.cast(
            pa.binary()
        )
    if mine.type == pa.uint32() and other.type == pa.int32():
        return mine, other.view(pa.uint32())
    return mine, other.cast(mine.type)


def _rounded(mine: pa.Array, other: pa.Array) -> pa.Array:
    """Return decimals as doubles: the other reader's own wherever it is off by no more than rounding."""
    values = [None if value is None else float(value) for value in mine.to_pylist()]
    pairs = zip(values, other.to_pylist(), strict=True)
    return pa.array(
        [
            theirs if ours is not None and theirs is not None and math.isclose(ours, theirs, rel_tol=ROUNDING) else ours
            for ours, theirs in pairs
        ],
        pa.float64(),
    )


def _unscaled(value: Any, scale: int) -> bytes | None:
    return None if value is None else int(value.scaleb(scale, EXACT)).to_bytes(DECIMAL256_BYTES, "big", signed=True)


def _uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _depth(list_type: pa.DataType) -> int:
    return 1 + _depth(list_type.value_type) if pa.types.is_list(list_type.value_type) else 1


def _lists(raw: bytes, dimensions: int) -> Any:
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
