"""Documents for people: labels of keys, text of values, and which fields of a list are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tornproof.cli.inspection.byte_map import OTHER_GENERATION
from tornproof.cli.inspection.report import Document
from tornproof.cli.output import visible

TEXT_LIMIT = 120
BOUND_LIMIT = 20
NOTHING = "–"
UNSET = ((1 << 63) - 1, -(1 << 63))
"""Values in a `_txn` that mean "no time"."""

LABELS = {
    "glyph": "",
    "bloom": "bloom filters",
    "record": "records",
    "schema": "leaf columns",
    "sorting": "sorting columns",
    "byte_range_start": "from",
    "dead_bytes": "dead bytes",
    "false_positive_rate": "false positives",
    "fill": "bits set",
    "footer_feature_flags": "flags",
    "footer_offset_bytes": "footer at",
    "max_def_level": "def",
    "max_rep_level": "rep",
    "null_count": "nulls",
    "parquet_meta_file_size": "published size",
    "prev_parquet_meta_file_size": "prev",
    "row_group_count": "row groups",
    "total_compressed": "size",
    "unused_bytes": "unused",
}
WORDS = {
    "PLAIN_DICTIONARY": "DICT",
    "RLE_DICTIONARY": "DICT",
    "DELTA_BINARY_PACKED": "DELTA",
    "DELTA_LENGTH_BYTE_ARRAY": "DELTA_LEN",
    "DELTA_BYTE_ARRAY": "DELTA_BYTES",
    "BYTE_STREAM_SPLIT": "SPLIT",
}
LEVEL_ENCODINGS = frozenset({"RLE", "BIT_PACKED"})


def label(key: str) -> str:
    """Return a key, or a dotted path of keys, as a title."""
    return " ".join(LABELS.get(name, name.replace("_bytes", "").replace("_", " ")) for name in key.split("."))


def is_one_value(value: object) -> bool:
    """Return whether a value fits in a cell: no list of objects; of objects only flags, types, bounds, checksums."""
    if isinstance(value, dict):
        return not {"unknown_bits", "code", "hex", "computed"}.isdisjoint(value)
    return not is_list_of_objects(value)


def is_list_of_objects(value: object) -> bool:
    """Return whether it is a list that contains objects."""
    return isinstance(value, list) and any(isinstance(element, dict) for element in value)


def value_text(key: str, value: object, *, show_all: bool) -> str:
    """Return a value as text, truncated unless all is shown."""
    if isinstance(value, dict):
        return _object_text(value, show_all=show_all)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return NOTHING if value in UNSET else f"{value:,}"
    if isinstance(value, float):
        return f"{100 * value:.{1 if key.endswith('fill') else 3}{'f' if key.endswith('fill') else 'g'}} %"
    if isinstance(value, list):
        value = ".".join(value) if key == "path" else _words(value)
    return truncated(visible(value or NOTHING), None if show_all else TEXT_LIMIT)


def truncated(text: str, limit: int | None) -> str:
    """Return at most `limit` characters of a text, all of it for None."""
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"


def _words(values: Iterable[object]) -> str:
    """Return the short forms of words, each once; encodings of levels are left out beside others."""
    words = dict.fromkeys(WORDS.get(str(value), str(value)) for value in values)
    return " ".join([word for word in words if word not in LEVEL_ENCODINGS] or words)


def _object_text(value: Document, *, show_all: bool) -> str:
    match value:
        case {"names": names, "unknown_bits": bits}:
            return _words([*names, *(f"bit {bit}?" for bit in bits)]) or NOTHING
        case {"code": _, "name": name}:
            return str(name)
        case {"hex": _}:
            return _bound_text(value, show_all=show_all)
        case {"stored": stored, "computed": computed, "ok": is_right}:
            return f"{stored:08x} ok" if is_right else f"{stored:08x} BAD, is {computed:08x}"
    return ", ".join(f"{label(name)} {value_text(name, field, show_all=show_all)}" for name, field in value.items())


def _bound_text(bound: Document, *, show_all: bool) -> str:
    """Return a minimum or maximum with the marks of its kind, shortened in the middle."""
    value = bound["value"]
    text = f"0x{bound['hex']}" if value is None else str(value).lower() if isinstance(value, bool) else visible(value)
    if not show_all and len(text) > BOUND_LIMIT:
        text = f"{text[: BOUND_LIMIT // 2]}…{text[1 - BOUND_LIMIT // 2 :]}"
    exact = {True: "=", False: "~", None: ""}[bound["exact"]]
    return f"{exact}{text}{'' if bound.get('inline', True) else '*'}"


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
"""The fields shown of lists whose objects have many more, in order."""
NAMES = frozenset({"name", "path", "chunk", "directory", "token", "key"})
"""Fields that identify the rows of a table."""
STAYS_BEHIND = {"max": "min"}
"""Columns that stay in the same table as another one."""
LEGENDS = {
    "generations": "newest first",
    "chunks": "= exact value, ~ only a bound, * stored out of line",
}


def chosen(name: str, entry: Document, *, show_all: bool) -> Document:
    """Return the fields of a list entry to show, in order; with `show_all` the others follow."""
    first = {key: entry[key] for key in COLUMNS.get(name, entry) if key in entry}
    return first | entry if show_all else first


def readable(document: Document) -> Document:
    """Return the fields of a document below its title, with names of columns and states added."""
    shown = {name: value for name, value in document.items() if name not in IN_THE_TITLE}
    if document["kind"] == "_pm":
        names = [column["name"] for column in document["columns"]]
        shown |= {"bloom_columns": [_named(number, names) for number in document["bloom_columns"]]}
        if header := document["header"]:
            shown["header"] = header | {"designated_timestamp": _named(header["designated_timestamp"], names)}
        shown["generations"] = [
            {"state": _state(entry["index"], document), **entry} for entry in document["generations"]
        ]
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


def _range(entry: Document, names: Sequence[str]) -> Document:
    """Return a range of a byte map with its size, its column's name, and the key of its glyph."""
    start, end = entry["start_bytes"], entry["end_bytes"]
    shown = {"from": start, "to": end, "bytes": end - start}
    shown |= {name: value for name, value in entry.items() if name not in ("start_bytes", "end_bytes", "token")}
    if "column" in entry:
        # Of a data.parquet; in `_pm`, every generation is one of the file's own.
        shown["column"] = None if entry["column"] is None else _named(entry["column"], names)
        return shown | {"glyph": entry["what"] if entry["generation"] is None else OTHER_GENERATION}
    return shown | {"token_that_the_chain_leaves_out": entry["token"], "glyph": entry["what"]}
