"""The JSON document of a `_txn`: both areas, the live one as far as it goes, the other one if it decodes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tornproof.cli.inspection.report import FORMAT, Document, Problems, flags_document, record_document
from tornproof.cli.inspection.values import time_of
from tornproof.impl.errors import BusyError, CorruptError, ProblemError, TornproofError, UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.metadata_file import META_FILE, TableMetadata, read_metadata_file
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

VERSION = layout.BaseHeader.layout.field("version")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFile:
    """The bytes of a `_txn` and, where a `_meta` stands beside it, what the table's partitions are called."""

    file: str
    content: bytes
    metadata: TableMetadata | None


def read_transaction_file(storage: ReadableStorage, path: str, *, file: str) -> TransactionFile:
    """Read a `_txn` while its version stands still; raises StorageError, BusyError, UnsupportedError above 64 MiB."""
    deadline = storage.monotonic_seconds() + SPIN_SECONDS
    with storage.open_for_reading(path) as handle:
        while True:
            size_bytes = handle.size_bytes()
            if size_bytes > AREA_LIMIT_BYTES:
                expected = f"at most {AREA_LIMIT_BYTES} bytes"
                raise UnsupportedError(file=file, field="size", offset_bytes=None, expected=expected, actual=size_bytes)
            content = handle.pread(size_bytes, 0)
            if handle.pread(VERSION.wire.size_bytes, VERSION.offset_bytes) == content[: VERSION.end_bytes]:
                return TransactionFile(file=file, content=content, metadata=_metadata_beside(storage, path))
            if storage.monotonic_seconds() > deadline:
                raise BusyError(f"{file}: the version kept changing for {SPIN_SECONDS:g} s; try again")
            storage.sleep_seconds(SPIN_PAUSE_SECONDS)


def _metadata_beside(storage: ReadableStorage, path: str) -> TableMetadata | None:
    """Return what `_meta` says, or None where it cannot: it only helps to name things and is not what is inspected."""
    folder, separator, _ = path.rpartition("/")
    try:
        return read_metadata_file(storage, f"{folder}{separator}{META_FILE}")
    except TornproofError:
        return None


def transaction_document(found: TransactionFile, problems: Problems) -> Document:
    """Return the document of a `_txn`; only what is wrong with the live area is a problem."""
    base = None
    with problems.noted():
        base = layout.BaseHeader.unpack(found.content, 0, file=found.file)
    areas: list[Document] = []
    if base is not None:
        # A new table's version is 0, and its other area is the one of version 1.
        other_version = base.version - 1 if base.version > 0 else base.version + 1
        areas = [_live_document(found, base, problems), _other_document(found, base, other_version)]
        areas.sort(key=lambda area: str(area["name"]))
    return {
        "format": FORMAT,
        "kind": "_txn",
        "file": found.file,
        "size_bytes": len(found.content),
        "problems": problems.documents(),
        "base_header": record_document(base) if base else None,
        "live_area": area_of(base, base.version).name if base else None,
        "areas": areas,
    }


def _live_document(found: TransactionFile, base: layout.BaseHeader, problems: Problems) -> Document:
    area = area_of(base, base.version)
    record = _record_alone(found.content, area)
    try:
        transaction: Transaction | None = decode_transaction(found.content, file=found.file)
    except ProblemError as error:
        problems.append(error.problem)
        transaction = None if record is None else _restated(found, record, base.version)
        return _area_document(found, area, transaction, record, error=str(error), is_live=True)
    return _area_document(found, area, transaction, record, error=None, is_live=True)


def _other_document(found: TransactionFile, base: layout.BaseHeader, version: int) -> Document:
    area = area_of(base, version)
    try:
        transaction = decode_transaction(found.content, file=found.file, version=version)
    except ProblemError as error:
        return _area_document(found, area, None, None, error=str(error), is_live=False)
    return _area_document(found, area, transaction, transaction.record, error=None, is_live=False)


def _area_document(
    found: TransactionFile,
    area: Area,
    transaction: Transaction | None,
    record: layout.TransactionRecord | None,
    *,
    error: str | None,
    is_live: bool,
) -> Document:
    counts = transaction.symbol_counts if transaction else ()
    partitions = transaction.partitions if transaction else ()
    return {
        "name": area.name,
        "live": is_live,
        "record_offset_bytes": area.record_offset,
        "size_bytes": area.size_bytes,
        "error": error,
        "record": record_document(record) if record else None,
        "symbol_counts": [record_document(count) for count in counts],
        "partitions": [_partition_document(found, partition) for partition in partitions],
    }


def _restated(found: TransactionFile, record: layout.TransactionRecord, version: int) -> Transaction | None:
    """Return what the live area says as the version that it claims to be: all that is wrong may be its number."""
    if record.txn % 2 != version % 2:
        return None
    with suppress(ProblemError):
        return decode_transaction(found.content, file=found.file, version=record.txn)
    return None


def _record_alone(content: Buffer, area: Area) -> layout.TransactionRecord | None:
    try:
        return layout.TransactionRecord.unpack(content, area.record_offset, file="")
    except CorruptError:
        return None


def _partition_document(found: TransactionFile, partition: Partition) -> Document:
    metadata = found.metadata
    names: tuple[str, ...] = ()
    if metadata is not None:
        names = directory_names(
            partition.timestamp,
            partition.name_txn,
            metadata.partition_by,
            nanoseconds=metadata.counts_nanoseconds,
        )
    units_in_second = 1_000_000_000 if metadata and metadata.counts_nanoseconds else 1_000_000
    return {
        "timestamp": partition.timestamp,
        "time": time_of(partition.timestamp, units_in_second) if metadata else None,
        "directory": names[0] if names else None,
        "rows": partition.row_count,
        "name_txn": partition.name_txn,
        "token": partition.token,
        "format": "parquet" if partition.is_parquet else "native",
        "flags": flags_document(layout.PARTITION_FLAGS, partition.flags),
        "squash_count": layout.SQUASH_COUNT.get(partition.flags),
        "entry_offset_bytes": partition.entry_offset_bytes,
    }
