"""One inspection from path to document, with the records that hex is printed of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tornproof.cli.inspection.hex_print import PARQUET_PLACES, Place, meta_places, pm_places, print_hex, txn_places
from tornproof.cli.inspection.meta_document import read_table_metadata, table_metadata_document
from tornproof.cli.inspection.partition_document import data_document, metadata_document, partition_document
from tornproof.cli.inspection.report import Document, Problems, clean_text
from tornproof.cli.inspection.target import TargetKind, target_kind
from tornproof.cli.inspection.tree import Printer
from tornproof.cli.inspection.txn_document import read_transaction_file, transaction_document
from tornproof.impl.errors import UsageError
from tornproof.impl.storage.interface import ReadableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found: the document, and the fixed-size records in the bytes from `base_bytes` of the file on."""

    document: Document
    content: bytes = b""
    base_bytes: int = 0
    places: Sequence[Place] = ()

    def print(self, printer: Printer, *, hexadecimal: bool) -> None:
        """Print the document for people, with hex if that is wanted, and at last what is wrong."""
        printer.document(self.document)
        if hexadecimal and self.places:
            print_hex(self.content, self.places, printer, base_bytes=self.base_bytes)
        elif hexadecimal:
            printer.line("--hex shows one file at a time: name the _pm or data.parquet inside", "dim")
        printer.problems(self.document["problems"])


def inspect_path(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    """Inspect whatever stands at `path`, at the token `at` if one is given.

    Raises StorageError, UsageError for what cannot be inspected, UnsupportedError for what is too large, BusyError.
    """
    path = path.rstrip("/") or path
    file, problems = clean_text(path), Problems()
    kind = target_kind(storage, path)
    if at is not None and kind in (TargetKind.TXN, TargetKind.META):
        raise UsageError(f"{file}: --at picks a footer of a _pm or data.parquet, and this is neither")
    match kind:
        case TargetKind.PM:
            found, document = metadata_document(storage, path, at, problems, file=file)
            return Inspection(document=document, content=found.content, places=pm_places(document))
        case TargetKind.TXN:
            transaction = read_transaction_file(storage, path, file=file)
            document = transaction_document(transaction, problems)
            return Inspection(document=document, content=transaction.content, places=txn_places(document))
        case TargetKind.META:
            content = read_table_metadata(storage, path, file=file)
            document = table_metadata_document(content, problems, file=file)
            return Inspection(document=document, content=content, places=meta_places(document))
        case TargetKind.PARQUET:
            return _parquet_inspection(storage, path, data_document(storage, path, at, problems, file=file))
        case TargetKind.PARTITION:
            return Inspection(document=partition_document(storage, path, at, problems, file=file))


def _parquet_inspection(storage: ReadableStorage, path: str, document: Document) -> Inspection:
    size_bytes = PARQUET_PLACES[0][1].layout.size_bytes
    base_bytes = max(document["token"] - size_bytes, 0)
    with storage.open_for_reading(path) as handle:
        tail = handle.pread(size_bytes, base_bytes)
    return Inspection(document=document, content=tail, base_bytes=base_bytes, places=PARQUET_PLACES)
