"""Arrow values as text for CSV: lists as JSON, binary as hex; everything else as Arrow's own writer prints it."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv


def text_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the rows as `text_batch` makes them."""
    return pa.schema([pa.field(field.name, _text_type(field.type)) for field in schema])


def text_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that Arrow's CSV writer can write."""
    return pa.record_batch([_text_array(array) for array in batch.columns], schema=text_schema(batch.schema))


def csv_bytes(batch: pa.RecordBatch, *, has_header: bool) -> pa.Buffer:
    """Return the rows as lines of CSV in UTF-8, after the line of names if `has_header`."""
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(text_batch(batch), sink, pa_csv.WriteOptions(include_header=has_header))
    return sink.getvalue()


def _text_array(array: pa.Array) -> pa.Array:
    if _text_type(array.type) == array.type:
        return array
    if array.null_count == len(array):
        # A column that a row group lacks may be millions of nulls long.
        return pa.nulls(len(array), pa.string())
    return pa.array(map(_text, array.to_pylist()), pa.string())


def _text_type(of: pa.DataType) -> pa.DataType:
    needs_text = (
        pa.types.is_nested(of)
        or pa.types.is_binary(of)
        or pa.types.is_fixed_size_binary(of)
        or pa.types.is_decimal256(of)
        or isinstance(of, pa.BaseExtensionType)
    )
    return pa.string() if needs_text else of


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bytes():
            return value.hex()
        case list():
            return json.dumps(_json_value(value))
        case uuid.UUID():
            return str(value)
        case _:
            return format(value, "f")


def _json_value(value: Any) -> Any:
    """Return nested lists of numbers for JSON, with null for NaN, which is QuestDB's null of a double."""
    if isinstance(value, list):
        return [_json_value(element) for element in value]
    return None if value is None or math.isnan(value) else value
