"""One inspection: from a path to its document and the records that --hex prints."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tornproof.cli.inspection.hex_print import (
    PARQUET_RECORDS,
    Located,
    meta_records,
    pm_records,
    print_hex,
    txn_records,
)
from tornproof.cli.inspection.partition_document import data_document, metadata_document, partition_document
from tornproof.cli.inspection.report import Document, Problems, clean_text
from tornproof.cli.inspection.table_documents import (
    read_table_metadata,
    read_transaction_file,
    table_metadata_document,
    transaction_document,
)
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.errors import UsageError
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC
from tornproof.impl.storage.interface import EntryKind, ReadableStorage
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE

PM_SUFFIX, PARQUET_SUFFIX = ".pm", ".parquet"


class TargetKind(enum.Enum):
    """What can be inspected."""

    PM = "_pm"
    TXN = "_txn"
    META = "_meta"
    PARQUET = "parquet"
    PARTITION = "partition"


def target_kind(storage: ReadableStorage, path: str) -> TargetKind:
    """Return the kind of file at a path; raises UsageError for what cannot be inspected, StorageError."""
    if storage.kind(path) is EntryKind.DIRECTORY:
        return _directory_kind(storage, path)
    name = path.rpartition("/")[2]
    if name == PM_FILE or name.endswith(PM_SUFFIX):
        return TargetKind.PM
    if name in (TXN_FILE, META_FILE):
        return TargetKind(name)
    if name.endswith(PARQUET_SUFFIX):
        return TargetKind.PARQUET
    with storage.open_for_reading(path) as handle:
        end_offset = max(handle.size_bytes() - len(MAGIC), 0)
        if MAGIC in (handle.pread(len(MAGIC), 0), handle.pread(len(MAGIC), end_offset)):
            return TargetKind.PARQUET
    raise UsageError(
        f"{clean_text(path)}: neither name nor bytes are those of a {PM_FILE}, {TXN_FILE}, {META_FILE} or Parquet file"
    )


def _directory_kind(storage: ReadableStorage, path: str) -> TargetKind:
    names = storage.listdir(path)
    if TXN_FILE in names:
        raise UsageError(f"{clean_text(path)}: this is a whole table; use `tornproof verify`")
    if PM_FILE in names or DATA_FILE in names:
        return TargetKind.PARTITION
    raise UsageError(f"{clean_text(path)}: this directory is neither a parquet partition nor a table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The document, and the fixed-size records in `content`, the bytes of the file from `base_bytes`."""

    document: Document
    content: bytes = b""
    base_bytes: int = 0
    records: Sequence[Located] = ()

    def print(self, printer: Printer, *, hexadecimal: bool) -> None:
        """Print the document, hex if wanted, and the problems last."""
        printer.document(self.document)
        if hexadecimal and self.records:
            print_hex(self.content, self.records, printer, base_bytes=self.base_bytes)
        elif hexadecimal:
            printer.line("--hex shows one file at a time: name the _pm or data.parquet inside", "dim")
        printer.problems(self.document["problems"])


def inspect_path(storage: ReadableStorage, path: str, at: int | None) -> Inspection:
    """Inspect the file or partition at `path`, at the token `at` if one is given.

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
            return Inspection(document=document, content=found.content, records=pm_records(document))
        case TargetKind.TXN:
            transaction = read_transaction_file(storage, path, file=file)
            document = transaction_document(transaction, problems)
            return Inspection(document=document, content=transaction.content, records=txn_records(document))
        case TargetKind.META:
            content = read_table_metadata(storage, path, file=file)
            document = table_metadata_document(content, problems, file=file)
            return Inspection(document=document, content=content, records=meta_records(document))
        case TargetKind.PARQUET:
            return _parquet_inspection(storage, path, data_document(storage, path, at, problems, file=file))
        case TargetKind.PARTITION:
            return Inspection(document=partition_document(storage, path, at, problems, file=file))


def _parquet_inspection(storage: ReadableStorage, path: str, document: Document) -> Inspection:
    size_bytes = PARQUET_RECORDS[0][1].layout.size_bytes
    base_bytes = max(document["token"] - size_bytes, 0)
    with storage.open_for_reading(path) as handle:
        tail = handle.pread(size_bytes, base_bytes)
    return Inspection(document=document, content=tail, base_bytes=base_bytes, records=PARQUET_RECORDS)
