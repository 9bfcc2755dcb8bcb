"""The result of a table for its report page: the documents of `verify`, and of `inspect` for some partitions."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornproof.api.steady import until_stable
from tornproof.cli.inspection.partition_document import data_document, joined_document, partition_document
from tornproof.cli.inspection.report import FORMAT, Document, Problems, clean_text
from tornproof.cli.output import make_folder, write_json
from tornproof.impl.errors import TornproofError, UnsupportedError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.verify.verify import PartitionReport, TableReport

INSPECTED_MAX = 8
RANGES_MAX = 2_000
GENERATIONS_MAX = 300
ROW_GROUPS_MAX = 1_000
CHUNKS_MAX = 4_000
COLUMNS_MAX = 500
NAME_CHARACTERS_MAX = 60
CHUNK_FIELDS = ("column", "name", "byte_range_start", "byte_range_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspections:
    """The documents of the inspected partitions, by directory, and how many were not inspected."""

    documents: Mapping[str, Document]
    left_out: int


def inspections_of(
    storage: Storage, path: str, report: TableReport, progress: Callable[[str], None] = lambda _: None
) -> Inspections:
    """Inspect the most relevant partitions of a table in the verified version; damage raises no error."""
    path = path.rstrip("/") or path
    documents = {}
    for partition in chosen(report.partitions):
        progress(partition.name)
        documents[partition.name] = bounded(_inspection(storage, path, partition, report.version))
    candidate_count = sum(partition.format != "native" for partition in report.partitions)
    return Inspections(documents=documents, left_out=candidate_count - len(documents))


def table_result(verify_document: Document, inspections: Inspections) -> Document:
    """Return the document of a table's report page."""
    return {
        "format": FORMAT,
        "verify": verify_document,
        "inspections": inspections.documents,
        "left_out": inspections.left_out,
    }


def chosen(partitions: Sequence[PartitionReport]) -> list[PartitionReport]:
    """Return the partitions to inspect: with problems, with orphans, with most useless bytes, then the newest."""
    ranked = sorted(
        (
            (not each.problems, not each.orphans, -(each.dead_bytes + each.unused_bytes), -index)
            for index, each in enumerate(partitions)
            if each.format != "native"
        ),
    )
    return [partitions[-negated] for *_, negated in ranked[:INSPECTED_MAX]]


def _inspection(storage: Storage, path: str, partition: PartitionReport, version: int | None) -> Document:
    """Return the inspection of a partition, in the verified version if that still exists."""
    try:
        document = _inspected(storage, path, partition.name, None)
        if _version_of(document) in (None, version):
            return document
        # A server committed meanwhile; files that were not replaced still contain the earlier version.
        earlier = _inspected(storage, path, partition.name, partition.token)
        is_found = earlier["pm"]["resolved"] is not None if earlier["pm"] is not None else False
        return earlier if is_found else document
    except TornproofError as error:
        return joined_document(partition.name, [], pm=None, data=None) | {"error": clean_text(str(error))}


def _inspected(storage: Storage, path: str, name: str, at: int | None) -> Document:
    """Return the document of a partition's directory; problems count once two attempts agree on them."""

    def attempt() -> Document:
        try:
            return partition_document(storage, f"{path}/{name}", at, Problems(), file=name)
        except UnsupportedError as error:
            # One file is too large to inspect; the other one may not be.
            data = data_document(storage, f"{path}/{name}/data.parquet", at, Problems(), file=f"{name}/data.parquet")
            return joined_document(name, data["problems"], pm=None, data=data) | {"error": clean_text(str(error))}

    return until_stable(storage, path, attempt, lambda document: document["problems"] or None)


def _version_of(document: Document) -> int | None:
    committed = document["pm"]["committed"] if document["pm"] is not None else None
    return None if committed is None else int(committed["version"])


def bounded(inspection: Document) -> Document:
    """Return an inspection without what no page shows (statistics, schemas); `cut` says whether more was left out."""
    pm, data = inspection["pm"], inspection["data"]
    is_cut = any(_is_large(part) for part in (pm, data) if part is not None)
    return {
        **inspection,
        "pm": None if pm is None else _bounded_pm(pm),
        "data": None if data is None else _bounded_data(data),
        "cut": is_cut,
    }


def _is_large(part: Document) -> bool:
    return (
        len(part["byte_map"]) > RANGES_MAX
        or len(part["row_groups"]) > ROW_GROUPS_MAX
        or len(part.get("generations", ())) > GENERATIONS_MAX
    )


def _bounded_pm(pm: Document) -> Document:
    shown = pm["resolved"]["generation"] if pm["resolved"] is not None else 0
    start = max(0, shown - GENERATIONS_MAX // 2)
    row_groups = pm["row_groups"][:ROW_GROUPS_MAX]
    has_few_chunks = sum(len(group["chunks"]) for group in row_groups) <= CHUNKS_MAX
    return {
        **pm,
        "columns": pm["columns"][:COLUMNS_MAX],
        "generations": [
            {name: value for name, value in entry.items() if name != "block_offsets"}
            for entry in pm["generations"][start : start + GENERATIONS_MAX]
        ],
        "resolved": pm["resolved"] and {**pm["resolved"], "orphans": pm["resolved"]["orphans"][:GENERATIONS_MAX]},
        "row_groups": [
            {**group, "chunks": [_chunk_range(chunk) for chunk in group["chunks"]] if has_few_chunks else []}
            for group in row_groups
        ],
        "byte_map": _bounded_ranges(pm["byte_map"]),
    }


def _chunk_range(chunk: Document) -> Document:
    return {name: chunk[name] for name in CHUNK_FIELDS}


def _bounded_data(data: Document) -> Document:
    return {
        **data,
        "schema": data["schema"][:COLUMNS_MAX],
        "row_groups": [],
        "key_values": [],
        "extensions": [],
        "duplicates": [],
        "byte_map": _bounded_ranges(data["byte_map"]),
    }


def _bounded_ranges(ranges: list[Document]) -> list[Document]:
    """Return at most RANGES_MAX ranges: adjacent ones of the same owner are merged first, then the rest."""
    if len(ranges) <= RANGES_MAX:
        return ranges
    merged = list(_merged(ranges))
    kept, rest = merged[: RANGES_MAX - 1], merged[RANGES_MAX - 1 :]
    if len(rest) > 1:
        end_bytes = max(entry["end_bytes"] for entry in rest)
        rest = [{"start_bytes": rest[0]["start_bytes"], "end_bytes": end_bytes, "what": "not explained"}]
    return kept + rest


def _merged(ranges: Iterable[Document]) -> Iterable[Document]:
    last: dict[str, Any] | None = None
    for entry in ranges:
        if last is not None and all(last.get(name) == entry.get(name) for name in ("row_group", "generation", "token")):
            is_owned = entry["row_group"] is not None or entry["generation"] is not None
            if is_owned and "footer" not in (last["what"], entry["what"]):
                last = {**last, "end_bytes": max(last["end_bytes"], entry["end_bytes"])}
                continue
        if last is not None:
            yield last
        last = entry
    if last is not None:
        yield last


def write_table_result(directory: Path, table: str, document: Document) -> Path:
    """Write the result of a table into a folder of results, replacing an earlier one, and return the file."""
    # Imported here, like all that reports need.
    from tornproof.reports.folder import TABLES

    folder = directory / TABLES
    make_folder(folder)
    path = folder / f"table-{safe_name(table)}.json"
    write_json(document, str(path))
    return path


def safe_name(table: str) -> str:
    """Return a file name for a table: its directory's name, and a hash of the whole path."""
    whole = os.path.realpath(table)
    name = re.sub(r"[^A-Za-z0-9._~-]+", "_", Path(whole).name)[:NAME_CHARACTERS_MAX]
    return f"{name}-{hashlib.sha256(os.fsencode(whole)).hexdigest()[:8]}"
