"""The rows of a table as bytes, equal for equal rows in equal batches."""

from __future__ import annotations

import pyarrow as pa


def arrow_bytes(rows: pa.Table) -> bytes:
    """Return a table as an Arrow stream, which `pa.ipc.open_stream` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())
