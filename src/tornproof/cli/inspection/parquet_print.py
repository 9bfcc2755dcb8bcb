"""A Parquet file on a terminal."""

from __future__ import annotations

from tornproof.cli.inspection.drawn_map import OTHER_GENERATION, draw_map
from tornproof.cli.inspection.pm_print import print_blooms
from tornproof.cli.inspection.printing import ROW_GROUP_LIMIT, Printer, encodings_text
from tornproof.cli.inspection.report import Document, counted

INDEX_WORDS = (("col", "column_index"), ("off", "offset_index"))


def print_parquet(document: Document, printer: Printer) -> None:
    """Print footer, partition, schema, row groups, bloom filters, key-values, extensions, byte map."""
    printer.line(f"{document['file']}: Parquet, {counted(document['size_bytes'], 'byte')}", "bold")
    _print_partition(document, printer)
    printer.facts(
        [
            ("read at token", document["token"]),
            ("footer at", document["footer_offset_bytes"]),
            ("footer length", document["footer_length_bytes"]),
            ("format version", document["version"]),
            ("created by", document["created_by"]),
            ("rows", document["num_rows"]),
        ]
    )
    if document["schema"]:
        _print_schema(document, printer)
    if document["row_groups"]:
        _print_row_groups(document, printer)
    if document["key_values"]:
        printer.heading(counted(len(document["key_values"]), "key-value"))
        rows = [(printer.cut(pair["key"]), printer.cut(pair["value"], 120)) for pair in document["key_values"]]
        printer.table(("key", "value"), rows, "key-value")
    for extension in document["extensions"]:
        printer.heading(f"Extension field 32767 of {extension['struct']}")
        printer.facts(
            (name.replace("_", " "), extension[name]) for name in ("form", "offset_bytes", "length_bytes", "uuid")
        )
    if document["byte_map"]:
        _print_map(document, printer)


def _print_partition(document: Document, printer: Printer) -> None:
    partition = document.get("partition")
    if partition is None:
        return
    generation = partition["generation"]
    which = "no generation has this token" if generation is None else f"read as generation {generation} has it"
    dead = partition["bytes_after_token"]
    printer.line(f"  {partition['pm']} stands beside it: {which}" + (f", {dead:,} bytes follow" if dead else ""))
    printer.line(f"  tokens, newest first: {printer.cut(' '.join(map(str, partition['tokens'])) or 'none')}", "dim")


def _print_schema(document: Document, printer: Printer) -> None:
    printer.heading(counted(len(document["schema"]), "leaf column"))
    printer.table(
        ("column", "stored as", ">length", "logical type", "repetition", ">rep", ">def", ">field id"),
        [
            (
                printer.cut(".".join(leaf["path"]), 30),
                leaf["physical_type"],
                leaf["type_length"],
                leaf["logical_type"],
                leaf["repetition"].lower(),
                leaf["max_rep_level"],
                leaf["max_def_level"],
                leaf["field_id"],
            )
            for leaf in document["schema"]
        ],
        "column",
    )


def _print_row_groups(document: Document, printer: Printer) -> None:
    groups = document["row_groups"]
    printer.heading(counted(len(groups), "row group"))
    kept = groups if printer.show_all else groups[:ROW_GROUP_LIMIT]
    for group in kept:
        sizes = f"{counted(group['rows'], 'row')}, {counted(group['total_byte_size'], 'byte')} uncompressed"
        printer.line(f"  row group {group['index']}: {sizes}")
        printer.table(
            ("column", "codec", "encodings", ">from", ">size", ">nulls", "min", "max", ">bloom", "indexes"),
            [_chunk_row(chunk, printer) for chunk in group["chunks"]],
            "column",
        )
    printer.left_out(len(groups) - len(kept), "row group")
    print_blooms(
        [(group["index"], ".".join(chunk["path"]), chunk["bloom"]) for group in kept for chunk in group["chunks"]],
        printer,
    )


def _chunk_row(chunk: Document, printer: Printer) -> tuple[object, ...]:
    indexes = [word for word, name in INDEX_WORDS if chunk[name]]
    bloom = chunk["bloom"]
    return (
        printer.cut(".".join(chunk["path"]), 20),
        None if chunk["codec"] == "UNCOMPRESSED" else chunk["codec"],
        encodings_text(chunk["encodings"]),
        chunk["byte_range_start"],
        chunk["total_compressed"],
        chunk["null_count"],
        printer.bound(chunk["min"]),
        printer.bound(chunk["max"]),
        None if bloom is None else bloom["length_bytes"],
        "+".join(indexes) or None,
    )


def _print_map(document: Document, printer: Printer) -> None:
    dead = document["dead_bytes"]
    used = f", {counted(dead, 'byte')} of them not reached from this footer" if dead else ""
    printer.heading(f"Bytes{used}")
    ranges = document["byte_map"]
    drawn = [
        (entry["start_bytes"], entry["end_bytes"], entry["what"] if entry["generation"] is None else OTHER_GENERATION)
        for entry in ranges
    ]
    draw_map(drawn, document["size_bytes"], printer)
    printer.line("")
    names = [".".join(leaf["path"]) for leaf in document["schema"]]
    rows = [
        (
            entry["start_bytes"],
            entry["end_bytes"],
            entry["end_bytes"] - entry["start_bytes"],
            _what(entry, names, printer),
        )
        for entry in ranges
    ]
    printer.table((">from", ">to", ">bytes", "what"), rows, "range")


def _what(entry: Document, names: list[str], printer: Printer) -> str:
    words = str(entry["what"])
    if entry["column"] is not None and entry["column"] < len(names):
        words += f" of {printer.cut(names[entry['column']], 30)}"
    if entry["row_group"] is not None:
        words += f", row group {entry['row_group']}"
    if entry["generation"] is not None:
        words += f", generation {entry['generation']}"
    return words
