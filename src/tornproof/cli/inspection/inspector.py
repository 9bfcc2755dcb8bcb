"""One inspection from path to document, with the printing that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tornproof.cli.inspection.hex_print import PARQUET_PLACES, meta_places, pm_places, print_hex, txn_places
from tornproof.cli.inspection.meta_document import read_table_metadata, table_metadata_document
from tornproof.cli.inspection.parquet_print import print_parquet
from tornproof.cli.inspection.partition_document import data_document, metadata_document, partition_document
from tornproof.cli.inspection.pm_print import print_pm
from tornproof.cli.inspection.printing import Printer
from tornproof.cli.inspection.report import Document, Problems, clean_text
from tornproof.cli.inspection.table_print import print_meta, print_txn
from tornproof.cli.inspection.target import TargetKind, target_kind
from tornproof.cli.inspection.txn_document import read_transaction_file, transaction_document
from tornproof.impl.errors import UsageError
from tornproof.impl.storage.interface import ReadableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found: the document for machines, and for people a part that prints it and one that prints hex."""

    document: Document
    print_document: Callable[[Printer], None]
    print_records: Callable[[Printer], None]


def inspect_path(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    """Inspect whatever stands at `path`, at the token `at` if one is given.

    Raises StorageError, UsageError for what cannot be inspected, UnsupportedError for what is too large, BusyError.
    """
    path = path.rstrip("/") or path
    kind = target_kind(storage, path)
    if at is not None and kind in (TargetKind.TXN, TargetKind.META):
        raise UsageError(f"{clean_text(path)}: --at picks a footer of a _pm or data.parquet, and this is neither")
    return _INSPECTORS[kind](storage, path, at)


def _inspect_pm(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    problems = Problems()
    found, document = metadata_document(storage, path, at, problems, file=clean_text(path))
    return Inspection(
        document=document,
        print_document=lambda printer: print_pm(document, printer),
        print_records=lambda printer: print_hex(found.content, pm_places(found, document), printer),
    )


def _inspect_txn(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    found = read_transaction_file(storage, path, file=clean_text(path))
    document = transaction_document(found, Problems())
    return Inspection(
        document=document,
        print_document=lambda printer: print_txn(document, printer),
        print_records=lambda printer: print_hex(found.content, txn_places(document), printer),
    )


def _inspect_meta(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    content = read_table_metadata(storage, path, file=clean_text(path))
    document = table_metadata_document(content, Problems(), file=clean_text(path))
    return Inspection(
        document=document,
        print_document=lambda printer: print_meta(document, printer),
        print_records=lambda printer: print_hex(content, meta_places(document), printer),
    )


def _inspect_parquet(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    document = data_document(storage, path, at, Problems(), file=clean_text(path))
    return Inspection(
        document=document,
        print_document=lambda printer: print_parquet(document, printer),
        print_records=lambda printer: _print_tail(storage, path, document, printer),
    )


def _print_tail(storage: ReadableStorage, path: str, document: Document, printer: Printer) -> None:
    size_bytes = PARQUET_PLACES[0][1].layout.size_bytes
    base_bytes = max(document["token"] - size_bytes, 0)
    with storage.open_for_reading(path) as handle:
        print_hex(handle.pread(size_bytes, base_bytes), PARQUET_PLACES, printer, base_bytes=base_bytes)


def _inspect_partition(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    document = partition_document(storage, path, at, Problems(), file=clean_text(path))

    def print_both(printer: Printer) -> None:
        if document["pm"] is not None:
            print_pm(document["pm"], printer)
        if document["data"] is not None:
            printer.line("")
            print_parquet(document["data"], printer)

    def print_records(printer: Printer) -> None:
        printer.line("--hex shows one file at a time: name the _pm or data.parquet inside", "dim")

    return Inspection(document=document, print_document=print_both, print_records=print_records)


_INSPECTORS = {
    TargetKind.PM: _inspect_pm,
    TargetKind.TXN: _inspect_txn,
    TargetKind.META: _inspect_meta,
    TargetKind.PARQUET: _inspect_parquet,
    TargetKind.PARTITION: _inspect_partition,
}
