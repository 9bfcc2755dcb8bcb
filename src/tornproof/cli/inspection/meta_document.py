"""The JSON document of a `_meta`: the table's columns, its interval and its timestamp."""

from __future__ import annotations

from tornproof.cli.inspection.report import FORMAT, Document, Problems, flags_document, record_document
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import meta as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.metadata_file import (
    COLUMN_BYTES,
    HEADER_BYTES,
    META_LIMIT_BYTES,
    TableColumn,
    TableMetadata,
    decode_metadata_file,
)
from tornproof.impl.types.names import type_name


def read_table_metadata(storage: ReadableStorage, path: str, *, file: str) -> bytes:
    """Return the bytes of a `_meta`; raises StorageError, and UnsupportedError above 16 MiB."""
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        if size_bytes > META_LIMIT_BYTES:
            expected = f"at most {META_LIMIT_BYTES} bytes"
            raise UnsupportedError(file=file, field="size", offset_bytes=None, expected=expected, actual=size_bytes)
        return handle.pread(size_bytes, 0)


def table_metadata_document(content: Buffer, problems: Problems, *, file: str) -> Document:
    """Return the document of a `_meta`; of a damaged one the header alone."""
    header = metadata = None
    with problems.noted():
        header = layout.MetaHeader.unpack(content, 0, file=file)
        metadata = decode_metadata_file(content, file=file)
    return {
        "format": FORMAT,
        "kind": "_meta",
        "file": file,
        "size_bytes": len(content),
        "problems": problems.documents(),
        "header": record_document(header) if header else None,
        "partition_by": metadata.partition_by.name if metadata else None,
        "timestamp": _timestamp_document(metadata) if metadata else None,
        "dropped_column_count": header.column_count - len(metadata.columns) if header and metadata else None,
        "columns": [_column_document(content, column, file) for column in metadata.columns] if metadata else [],
    }


def _timestamp_document(metadata: TableMetadata) -> Document | None:
    column = next((column for column in metadata.columns if column.id == metadata.timestamp_id), None)
    if column is None:
        return None
    return {"id": column.id, "name": column.name, "unit": "ns" if metadata.counts_nanoseconds else "us"}


def _column_document(content: Buffer, column: TableColumn, file: str) -> Document:
    record = layout.MetaColumn.unpack(content, HEADER_BYTES + column.id * COLUMN_BYTES, file=file)
    return {
        "id": column.id,
        "name": column.name,
        "type": {"code": column.type, "name": type_name(column.type)},
        "flags": flags_document(layout.META_COLUMN_FLAGS, record.flags),
        "index_block_capacity": record.index_block_capacity,
        "symbol_capacity": record.symbol_capacity,
        "replacing_index": record.replacing_index,
    }
