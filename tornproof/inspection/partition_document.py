"""The JSON documents of a data.parquet that has a `_pm` beside it, and of a whole partition directory."""

from __future__ import annotations

from impl.errors import TornproofError
from impl.footer_comparison import compare_footer
from impl.partition import DATA_FILE, PM_FILE
from impl.storage import EntryKind, ReadableStorage
from tornproof.inspection.parquet_document import ParquetFile, parquet_document, read_parquet_file
from tornproof.inspection.pm_chain import MetadataFile, metadata_at, read_metadata_file
from tornproof.inspection.pm_document import pm_document
from tornproof.inspection.report import FORMAT, Document, Problems


def data_document(storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str) -> Document:
    """Return the document of a Parquet file; as part of a partition it is read at the newest token of its `_pm`."""
    pm_path, pm_file = f"{path.removesuffix(DATA_FILE)}{PM_FILE}", f"{file.removesuffix(DATA_FILE)}{PM_FILE}"
    is_data_file = path.rpartition("/")[2] == DATA_FILE
    if not is_data_file or storage.kind(pm_path) is not EntryKind.FILE:
        return parquet_document(read_parquet_file(storage, path, at, problems, file=file), problems)
    # What is wrong with `_pm` itself belongs to its own document.
    try:
        beside: MetadataFile | None = read_metadata_file(storage, pm_path, Problems(), file=pm_file)
    except TornproofError:
        beside = None
    found, document = _at_token(storage, path, at, beside, problems, file)
    document["partition"] = _beside_document(pm_file, beside, found)
    return document


def partition_document(
    storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str
) -> Document:
    """Return the documents of `_pm` and data.parquet at one token, and what contradicts each other in them."""
    names = storage.listdir(path)
    pm_file, data_file = f"{file}/{PM_FILE}", f"{file}/{DATA_FILE}"
    beside, pm, data = None, None, None
    if PM_FILE in names:
        pm_problems = Problems()
        beside = read_metadata_file(storage, f"{path}/{PM_FILE}", pm_problems, file=pm_file)
        pm = pm_document(beside, at, pm_problems)
        problems += pm_problems
    if DATA_FILE in names:
        data_problems = Problems()
        found, data = _at_token(storage, f"{path}/{DATA_FILE}", at, beside, data_problems, data_file)
        if beside is not None:
            data["partition"] = _beside_document(pm_file, beside, found)
            _compare(beside, found, data_problems)
            data["problems"] = data_problems.documents()
        problems += data_problems
    return {
        "format": FORMAT,
        "kind": "partition",
        "file": file,
        "problems": problems.documents(),
        "pm": pm,
        "data": data,
    }


def _at_token(
    storage: ReadableStorage, path: str, at: int | None, beside: MetadataFile | None, problems: Problems, file: str
) -> tuple[ParquetFile, Document]:
    newest = beside.places[0].token if beside is not None and beside.places else None
    found = read_parquet_file(storage, path, newest if at is None else at, problems, file=file)
    return found, parquet_document(found, problems)


def _beside_document(pm_file: str, beside: MetadataFile | None, found: ParquetFile) -> Document:
    places = beside.places if beside else ()
    return {
        "pm": pm_file,
        "tokens": [place.token for place in places],
        "generation": beside.position_of(found.end_bytes) if beside else None,
        "bytes_after_token": max(found.size_bytes - found.end_bytes, 0),
    }


def _compare(beside: MetadataFile, found: ParquetFile, problems: Problems) -> None:
    position = beside.position_of(found.end_bytes)
    metadata = None if position is None else metadata_at(beside, position)
    if metadata is not None and found.footer is not None:
        problems.extend(compare_footer(found.footer, metadata, file=found.file))
