"""One value of a document as people read it, by its key and its shape."""

from __future__ import annotations

from collections.abc import Iterable

from tornproof.cli.inspection.report import Document
from tornproof.cli.output import visible

TEXT_LIMIT = 120
BOUND_LIMIT = 20
NOTHING = "–"
UNSET = ((1 << 63) - 1, -(1 << 63))
"""What stands in a `_txn` for times that there are none of."""

LABELS = {
    "ink": "",
    "bloom": "bloom filters",
    "record": "records",
    "schema": "leaf columns",
    "sorting": "sorting columns",
    "byte_range_start": "from",
    "dead_bytes": "dead bytes",
    "false_positive_rate": "let others pass",
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
    """Return a key, or a path of keys with dots between, as a title."""
    return " ".join(LABELS.get(name, name.replace("_bytes", "").replace("_", " ")) for name in key.split("."))


def is_one_value(value: object) -> bool:
    """Whether people read it as one: not a list of objects, and of objects only flags, types, bounds, checksums."""
    if isinstance(value, dict):
        return not {"unknown_bits", "code", "hex", "computed"}.isdisjoint(value)
    return not is_list_of_objects(value)


def is_list_of_objects(value: object) -> bool:
    """Whether it is a list that holds objects."""
    return isinstance(value, list) and any(isinstance(element, dict) for element in value)


def value_text(key: str, value: object, *, show_all: bool) -> str:
    """Return a value as text; a long one is cut unless all is shown."""
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
    text = visible(value or NOTHING)
    return text if show_all or len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…"


def _words(values: Iterable[object]) -> str:
    """Return words by their short forms, each once; encodings that only levels use are left out beside others."""
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
    """Return a minimum or maximum with the marks of its kind, cut in its middle."""
    value = bound["value"]
    text = f"0x{bound['hex']}" if value is None else str(value).lower() if isinstance(value, bool) else visible(value)
    if not show_all and len(text) > BOUND_LIMIT:
        text = f"{text[: BOUND_LIMIT // 2]}…{text[1 - BOUND_LIMIT // 2 :]}"
    exact = {True: "=", False: "~", None: ""}[bound["exact"]]
    return f"{exact}{text}{'' if bound.get('inline', True) else '*'}"
