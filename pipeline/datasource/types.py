"""The table's Arrow types as Spark's types, and conversion of values in both directions.

Spark has no unsigned numbers, nanoseconds, fixed-size binaries or UUIDs, and decimals of 38 digits at most. Values are
never rounded: they become the next wider type, text or bytes, or are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl.errors import RowsRejectedError, TornproofError
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.write.incoming_rows import cast_exactly

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

DECIMAL_DIGITS_MAX = 38
UUID_BYTES = 16
UUID_TEXT = r"^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\z"
UUID_TEXT_LENGTH = 36
_HYPHENS = (8, 13, 18, 23)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGIT_POSITIONS = np.array([index for index in range(UUID_TEXT_LENGTH) if index not in _HYPHENS])
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


class ValueRejectedError(TornproofError):
    """A value that the target type cannot represent."""


def spark_arrow_type(of: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a column's values for Spark."""
    if of == pa.uuid():
        return pa.string()
    if pa.types.is_uint16(of):
        return pa.int32()
    if pa.types.is_uint32(of):
        return pa.int64()
    if pa.types.is_timestamp(of):
        return pa.int64() if of.unit == "ns" else UTC_MICROSECONDS
    if pa.types.is_fixed_size_binary(of):
        return pa.binary()
    if pa.types.is_decimal256(of):
        is_short = of.precision <= DECIMAL_DIGITS_MAX
        return pa.decimal128(of.precision, of.scale) if is_short else pa.string()
    if pa.types.is_list(of):
        return pa.list_(pa.field("element", spark_arrow_type(of.value_type)))
    return of


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema for Spark; all columns are nullable, so that no plan relies on the absence of nulls."""
    return pa.schema([pa.field(field.name, spark_arrow_type(field.type)) for field in schema])


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of a table's Arrow schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(spark_arrow_schema(schema))


def column_named(name: str) -> Column:
    """Return the column of a frame that has exactly this name, whatever characters it holds."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def to_spark(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return a table's rows in the types of `target`, its `spark_arrow_schema`.

    Raises ValueRejectedError for dates that Spark's microseconds cannot represent.
    """
    arrays = [_to_spark(batch.column(index), field) for index, field in enumerate(target)]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def from_spark(batch: pa.RecordBatch, target: pa.Schema, columns: Iterable[SnapshotColumn] = ()) -> pa.RecordBatch:
    """Return rows from Spark in the table's types; columns that `target` lacks are unchanged.

    `columns` say which numbers are geohashes. Raises ValueRejectedError for values that the type cannot represent.
    """
    known, types = set(target.names), {column.name: column.type for column in columns}
    fields = [target.field(field.name) if field.name in known else field for field in batch.schema]
    arrays = [_from_spark(batch.column(index), field, types.get(field.name)) for index, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in fields]))


def uuid_text(array: pa.Array) -> pa.Array:
    """Return UUIDs as text of 36 characters, such as 11111111-2222-3333-4444-555555555555."""
    count, storage = len(array), array.storage
    stored = np.frombuffer(storage.buffers()[1] or b"", np.uint8)[storage.offset * UUID_BYTES :]
    stored = stored[: count * UUID_BYTES].reshape(count, UUID_BYTES)
    text = np.full((count, UUID_TEXT_LENGTH), ord("-"), np.uint8)
    text[:, _DIGIT_POSITIONS[::2]] = _DIGITS[stored >> 4]
    text[:, _DIGIT_POSITIONS[1::2]] = _DIGITS[stored & 15]
    fixed = pa.Array.from_buffers(pa.binary(UUID_TEXT_LENGTH), count, [None, pa.py_buffer(text.data)])
    return pc.if_else(storage.is_valid(), fixed.cast(pa.binary()).cast(pa.string()), None)


def _to_spark(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type:
        return array
    if array.type == pa.uuid():
        return uuid_text(array)
    if pa.types.is_timestamp(array.type) and pa.types.is_int64(field.type):
        return array.view(pa.int64())
    return _cast(array, field)


def _from_spark(array: pa.Array, field: pa.Field, column_type: int | None) -> pa.Array:
    if array.type == field.type:
        return array
    if field.type == pa.uuid():
        return pa.ExtensionArray.from_storage(field.type, _uuid_bytes(array, field))
    if pa.types.is_timestamp(field.type) and pa.types.is_integer(array.type):
        return _cast(array, field.with_type(pa.int64())).view(field.type)
    return _cast(array, field, column_type)


def _uuid_bytes(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return 16 bytes for each UUID, which may come as such or as text."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        row = pc.index(pc.match_substring_regex(array, UUID_TEXT), False).as_py()
        if row >= 0:
            raise ValueRejectedError(f"column {field.name!r}, row {row}: a text that is not a UUID: {array[row]}")
        digits = pc.replace_substring(array, "-", "").to_pylist()
        array = pa.array([None if each is None else bytes.fromhex(each) for each in digits], pa.binary())
    return _cast(array, field.with_type(pa.binary(UUID_BYTES)))


def _cast(array: pa.Array, field: pa.Field, column_type: int | None = None) -> pa.Array:
    try:
        return cast_exactly(array, field, column_type)
    except RowsRejectedError as error:
        raise ValueRejectedError(str(error)) from error
