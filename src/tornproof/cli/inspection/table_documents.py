"""The JSON documents of the files of a whole table: `_txn` with both its areas, and `_meta`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tornproof.cli.inspection.report import (
    Document,
    Problems,
    demand_at_most,
    flags_document,
    head_document,
    record_document,
)
from tornproof.cli.inspection.values import time_of
from tornproof.impl.errors import BusyError, CorruptError, ProblemError, TornproofError
from tornproof.impl.layout import meta, txn
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.metadata_file import (
    COLUMN_BYTES,
    HEADER_BYTES,
    META_FILE,
    META_LIMIT_BYTES,
    TableColumn,
    TableMetadata,
    decode_metadata_file,
    read_metadata_file,
)
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.txn.transaction import (
    AREA_LIMIT_BYTES,
    SPIN_PAUSE_SECONDS,
    SPIN_SECONDS,
    Area,
    Partition,
    Transaction,
    area_of,
    decode_transaction,
)
from tornproof.impl.types.names import type_name

VERSION = txn.BaseHeader.layout.field("version")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFile:
    """The bytes of a `_txn` and, if there is a `_meta` beside it, the metadata that names the partitions."""

    file: str
    content: bytes
    metadata: TableMetadata | None


def read_transaction_file(storage: ReadableStorage, path: str, *, file: str) -> TransactionFile:
    """Read a `_txn` until its version is stable; raises StorageError, BusyError, UnsupportedError above 64 MiB."""
    deadline = storage.monotonic_seconds() + SPIN_SECONDS
    with storage.open_for_reading(path) as handle:
        while True:
            size_bytes = handle.size_bytes()
            demand_at_most(AREA_LIMIT_BYTES, size_bytes, file=file, field="size")
            content = handle.pread(size_bytes, 0)
            if handle.pread(VERSION.wire.size_bytes, VERSION.offset_bytes) == content[: VERSION.end_bytes]:
                return TransactionFile(file=file, content=content, metadata=_metadata_beside(storage, path))
            if storage.monotonic_seconds() > deadline:
                raise BusyError(f"{file}: the version kept changing for {SPIN_SECONDS:g} s; try again")
            storage.sleep_seconds(SPIN_PAUSE_SECONDS)


def _metadata_beside(storage: ReadableStorage, path: str) -> TableMetadata | None:
    """Return the decoded `_meta`, or None if that fails: it only helps to name partitions."""
    folder, separator, _ = path.rpartition("/")
    try:
        return read_metadata_file(storage, f"{folder}{separator}{META_FILE}")
    except TornproofError:
        return None


def transaction_document(found: TransactionFile, problems: Problems) -> Document:
    """Return the document of a `_txn`; only errors of the live area are problems."""
    base = None
    with problems.noted():
        base = txn.BaseHeader.unpack(found.content, 0, file=found.file)
    areas = (
        [] if base is None else [_area_document(found, base, problems, is_live=is_live) for is_live in (True, False)]
    )
    areas.sort(key=lambda area: str(area["name"]))
    return {
        **head_document("_txn", found.file, len(found.content), problems),
        "base_header": record_document(base) if base else None,
        "live_area": area_of(base, base.version).name if base else None,
        "areas": areas,
    }


def _area_document(found: TransactionFile, base: txn.BaseHeader, problems: Problems, *, is_live: bool) -> Document:
    # The version of a new table is 0, and its other area is that of version 1.
    version = base.version if is_live else base.version - 1 if base.version > 0 else base.version + 1
    area = area_of(base, version)
    transaction, record, error = None, _record_alone(found.content, area) if is_live else None, None
    try:
        transaction = decode_transaction(found.content, file=found.file, version=None if is_live else version)
        record = transaction.record
    except ProblemError as raised:
        error = str(raised)
        if is_live:
            problems.append(raised.problem)
            transaction = None if record is None else _restated(found, record, version)
    return {
        "name": area.name,
        "live": is_live,
        "record_offset_bytes": area.record_offset,
        "size_bytes": area.size_bytes,
        "error": error,
        "record": record_document(record) if record else None,
        "symbol_counts": [record_document(count) for count in (transaction.symbol_counts if transaction else ())],
        "partitions": [
            _partition_document(found.metadata, partition)
            for partition in (transaction.partitions if transaction else ())
        ],
    }


def _restated(found: TransactionFile, record: txn.TransactionRecord, version: int) -> Transaction | None:
    """Decode the live area as the version in its record: the version number may be its only error."""
    if record.txn % 2 != version % 2:
        return None
    with suppress(ProblemError):
        return decode_transaction(found.content, file=found.file, version=record.txn)
    return None


def _record_alone(content: Buffer, area: Area) -> txn.TransactionRecord | None:
    try:
        return txn.TransactionRecord.unpack(content, area.record_offset, file="")
    except CorruptError:
        return None


def _partition_document(metadata: TableMetadata | None, partition: Partition) -> Document:
    time = directory = None
    if metadata is not None:
        is_in_nanoseconds = metadata.counts_nanoseconds
        time = time_of(partition.timestamp, 1_000_000_000 if is_in_nanoseconds else 1_000_000)
        names = directory_names(
            partition.timestamp, partition.name_txn, metadata.partition_by, nanoseconds=is_in_nanoseconds
        )
        # A time outside of the calendar has none.
        directory = next(iter(names), None)
    return {
        "timestamp": partition.timestamp,
        "time": time,
        "directory": directory,
        "rows": partition.row_count,
        "name_txn": partition.name_txn,
        "token": partition.token,
        "format": "parquet" if partition.is_parquet else "native",
        "flags": flags_document(txn.PARTITION_FLAGS, partition.flags),
        "squash_count": txn.SQUASH_COUNT.get(partition.flags),
        "entry_offset_bytes": partition.entry_offset_bytes,
    }


def read_table_metadata(storage: ReadableStorage, path: str, *, file: str) -> bytes:
    """Return the bytes of a `_meta`; raises StorageError, and UnsupportedError above 16 MiB."""
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        demand_at_most(META_LIMIT_BYTES, size_bytes, file=file, field="size")
        return handle.pread(size_bytes, 0)


def table_metadata_document(content: Buffer, problems: Problems, *, file: str) -> Document:
    """Return the document of a `_meta`; of a damaged one only the header."""
    header = metadata = None
    with problems.noted():
        header = meta.MetaHeader.unpack(content, 0, file=file)
        metadata = decode_metadata_file(content, file=file)
    return {
        **head_document("_meta", file, len(content), problems),
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
    record = meta.MetaColumn.unpack(content, HEADER_BYTES + column.id * COLUMN_BYTES, file=file)
    return {
        "id": column.id,
        "name": column.name,
        "type": {"code": column.type, "name": type_name(column.type)},
        "flags": flags_document(meta.META_COLUMN_FLAGS, record.flags),
        "index_block_capacity": record.index_block_capacity,
        "symbol_capacity": record.symbol_capacity,
        "replacing_index": record.replacing_index,
    }
