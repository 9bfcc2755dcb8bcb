"""The JSON documents of a data.parquet that has a `_pm` beside it, and of a whole partition directory."""

from __future__ import annotations

from tornproof.cli.inspection.parquet_document import ParquetFile, parquet_document, read_parquet_file, reader_of
from tornproof.cli.inspection.parquet_map import ReadBytes
from tornproof.cli.inspection.pm_chain import MetadataFile, metadata_at, read_metadata_file
from tornproof.cli.inspection.pm_document import Committed, committed_of, pm_document
from tornproof.cli.inspection.report import FORMAT, Document, Problems
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.storage.interface import EntryKind, ReadableStorage
from tornproof.impl.table.partition import PM_FILE


def metadata_document(
    storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str
) -> tuple[MetadataFile, Document]:
    """Return a `_pm` and its document."""
    # `_txn` first: a `_pm` that is read later contains what it has committed.
    committed = committed_of(storage, path.rpartition("/")[0]) if path.endswith(f"/{PM_FILE}") else None
    found = read_metadata_file(storage, path, problems, file=file)
    read_data = _data_reader(storage, path)
    return found, pm_document(found, at, problems, committed=committed, read_data=read_data)


def _data_reader(storage: ReadableStorage, pm_path: str) -> ReadBytes | None:
    if pm_path.rpartition("/")[2] != PM_FILE:
        return None
    data_path = f"{pm_path.removesuffix(PM_FILE)}{DATA_FILE}"
    return reader_of(storage, data_path) if storage.kind(data_path) is EntryKind.FILE else None


def data_document(storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str) -> Document:
    """Return the document of a Parquet file; as part of a partition it is read at the token of its `_pm`.

    That is the committed token, or the newest where the committed one is not known.
    """
    pm_path, pm_file = f"{path.removesuffix(DATA_FILE)}{PM_FILE}", f"{file.removesuffix(DATA_FILE)}{PM_FILE}"
    is_data_file = path.rpartition("/")[2] == DATA_FILE
    if not is_data_file or storage.kind(pm_path) is not EntryKind.FILE:
        return parquet_document(read_parquet_file(storage, path, at, problems, file=file), problems)
    # Problems of `_pm` itself belong to its own document.
    committed = committed_of(storage, path.rpartition("/")[0])
    try:
        beside: MetadataFile | None = read_metadata_file(storage, pm_path, Problems(), file=pm_file)
    except TornproofError:
        beside = None
    found, document = _at_token(storage, path, _token(at, beside, committed), beside, problems, file)
    document["partition"] = _beside_document(pm_file, beside, found)
    return document


def partition_document(
    storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str
) -> Document:
    """Return the documents of `_pm` and data.parquet at one token, and contradictions between them."""
    names = storage.listdir(path)
    pm_file, data_file = f"{file}/{PM_FILE}", f"{file}/{DATA_FILE}"
    beside, pm, data = None, None, None
    if PM_FILE in names:
        pm_problems = Problems()
        beside, pm = metadata_document(storage, f"{path}/{PM_FILE}", at, pm_problems, file=pm_file)
        problems += pm_problems
    if DATA_FILE in names:
        data_problems = Problems()
        shown = pm["resolved"]["token"] if at is None and pm is not None and pm["resolved"] else at
        found, data = _at_token(storage, f"{path}/{DATA_FILE}", shown, beside, data_problems, data_file)
        if beside is not None:
            data["partition"] = _beside_document(pm_file, beside, found)
            _compare(beside, found, data_problems)
            data["problems"] = data_problems.documents()
        problems += data_problems
    return joined_document(file, problems.documents(), pm=pm, data=data)


def joined_document(file: str, problems: list[Document], *, pm: Document | None, data: Document | None) -> Document:
    """Return the document of a directory from those of its files, None for one that is missing or not inspectable."""
    return {"format": FORMAT, "kind": "partition", "file": file, "problems": problems, "pm": pm, "data": data}


def _token(at: int | None, beside: MetadataFile | None, committed: Committed | None) -> int | None:
    """Return the token to read data.parquet at, None for its end."""
    if at is not None or beside is None or not beside.positions:
        return at
    is_known = committed is not None and beside.index_of(committed.token) is not None
    return committed.token if committed is not None and is_known else beside.positions[0].token


def _at_token(
    storage: ReadableStorage, path: str, at: int | None, beside: MetadataFile | None, problems: Problems, file: str
) -> tuple[ParquetFile, Document]:
    found = read_parquet_file(storage, path, at, problems, file=file)
    return found, parquet_document(found, problems, beside)


def _beside_document(pm_file: str, beside: MetadataFile | None, found: ParquetFile) -> Document:
    positions = beside.positions if beside else ()
    return {
        "pm": pm_file,
        "tokens": [position.token for position in positions],
        "generation": beside.index_of(found.end_bytes) if beside else None,
        "bytes_after_token": max(found.size_bytes - found.end_bytes, 0),
    }


def _compare(beside: MetadataFile, found: ParquetFile, problems: Problems) -> None:
    index = beside.index_of(found.end_bytes)
    metadata = None if index is None else metadata_at(beside, index)
    if metadata is not None and found.footer is not None:
        problems.extend(compare_footer(found.footer, metadata, file=found.file))
