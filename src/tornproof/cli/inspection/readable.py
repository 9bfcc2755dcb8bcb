"""A document as people want it: what they would look up elsewhere in it stands where they look."""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.cli.inspection.byte_map import OTHER_GENERATION
from tornproof.cli.inspection.report import Document, counted

IN_THE_TITLE = ("format", "kind", "file", "size_bytes", "problems")
COLUMNS = {
    "generations": (
        *("state", "index", "token", "footer_offset_bytes", "end_bytes", "prev_parquet_meta_file_size"),
        *("row_group_count", "rows", "unused_bytes", "footer_feature_flags", "checksum", "seq_txn", "unknown_sections"),
    ),
    "chunks": (
        *("row_group", "name", "path", "codec", "encodings", "byte_range_start", "total_compressed"),
        *("null_count", "min", "max", "bloom", "column_index", "offset_index", "file_path"),
    ),
    "columns": (
        *("id", "name", "type", "physical_type", "fixed_byte_len", "repetition", "max_rep_level", "max_def_level"),
        *("index_block_capacity", "symbol_capacity", "replacing_index", "flags"),
    ),
    "schema": (
        *("path", "physical_type", "type_length", "logical_type", "repetition"),
        *("max_rep_level", "max_def_level", "field_id"),
    ),
    "partitions": ("area", "directory", "rows", "format", "token", "name_txn", "squash_count", "flags", "timestamp"),
}
"""Of lists whose objects have more fields than people ask for: those that they do, in that order."""
NAMES = frozenset({"name", "path", "chunk", "directory", "token", "key"})
"""What tells the rows of a table apart."""
STAYS_BEHIND = {"max": "min"}
"""What is never in another table than the column before it."""
LEGENDS = {
    "generations": "newest first",
    "chunks": "= exact value, ~ only a bound, * stored out of line",
}


def chosen(name: str, entry: Document, *, show_all: bool) -> Document:
    """Return the fields of an entry of a list that are shown, in their order; with `show_all` the others follow."""
    first = {key: entry[key] for key in COLUMNS.get(name, entry) if key in entry}
    return first | entry if show_all else first


def readable(document: Document) -> Document:
    """Return the fields of a document that are no part of its title, with names of columns and states added."""
    shown = {name: value for name, value in document.items() if name not in IN_THE_TITLE}
    if document["kind"] == "_pm":
        names = [column["name"] for column in document["columns"]]
        shown |= {"bloom_columns": [_named(number, names) for number in document["bloom_columns"]]}
        if header := document["header"]:
            shown["header"] = header | {"designated_timestamp": _named(header["designated_timestamp"], names)}
        shown["generations"] = [
            {"state": _state(entry["index"], document), **entry} for entry in document["generations"]
        ]
        shown |= {"committed": _committed(document), "resolved": _resolved(document)}
    if document["kind"] == "parquet":
        names = [".".join(leaf["path"]) for leaf in document["schema"]]
    if "byte_map" in document:
        shown["byte_map"] = [_range(entry, names) for entry in document["byte_map"]]
    return shown


def _named(number: int, names: Sequence[str]) -> str | int:
    return names[number] if 0 <= number < len(names) else number


def _state(index: int, document: Document) -> str | None:
    resolved, committed = document["resolved"], document["committed"]
    if resolved is None or index > resolved["generation"]:
        return None
    if index < resolved["generation"]:
        return "orphan"
    return "→ committed" if committed is not None and committed["generation"] == index else "→"


def _committed(document: Document) -> str | None:
    committed = document["committed"]
    if committed is None:
        return None
    generation = committed["generation"]
    where = "which no generation here has" if generation is None else f"generation {generation} here"
    return f"version {committed['version']} of the table has committed token {committed['token']:,}, {where}"


def _resolved(document: Document) -> str | None:
    """Say which generation is shown, and what stands above it."""
    resolved, committed = document["resolved"], document["committed"]
    if resolved is None:
        return None
    shown = f"generation {resolved['generation']}, token {resolved['token']:,}"
    if not resolved["orphans"]:
        return shown
    orphans = counted(len(resolved["orphans"]), "newer generation")
    if committed is not None and committed["generation"] == resolved["generation"]:
        return f"{shown}; {orphans} never became committed"
    return f"{shown}; if this token is the committed one, {orphans} never became so"


def _range(entry: Document, names: Sequence[str]) -> Document:
    """Return a range of a byte map with its size, its column's name, and the name of the ink that it is drawn in."""
    start, end = entry["start_bytes"], entry["end_bytes"]
    shown = {"from": start, "to": end, "bytes": end - start}
    shown |= {name: value for name, value in entry.items() if name not in ("start_bytes", "end_bytes", "token")}
    if "column" in entry:
        # Of a data.parquet; in `_pm`, any generation that has a range is one of its own.
        shown["column"] = None if entry["column"] is None else _named(entry["column"], names)
        return shown | {"ink": entry["what"] if entry["generation"] is None else OTHER_GENERATION}
    return shown | {"token_that_the_chain_leaves_out": entry["token"], "ink": entry["what"]}
