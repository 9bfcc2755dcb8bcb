"""A `_pm` on a terminal."""

from __future__ import annotations

from rich.text import Text

from tornproof.inspection.printing import ROW_GROUP_LIMIT, Printer, encodings_text, flags_text
from tornproof.inspection.report import Document, counted


def print_pm(document: Document, printer: Printer) -> None:
    """Print header, columns, generations, row groups, byte map."""
    header = document["header"]
    printer.line(f"{document['file']}: _pm, {counted(document['size_bytes'], 'byte')}", "bold")
    if header is not None:
        _print_header(document, header, printer)
    if document["columns"]:
        _print_columns(document, printer)
    if document["generations"]:
        _print_generations(document, printer)
    if document["row_groups"]:
        _print_row_groups(document, printer)
    _print_map(document, printer)


def _print_header(document: Document, header: Document, printer: Printer) -> None:
    names = [column["name"] for column in document["columns"]]
    sorting = [entry["name"] + (" descending" if entry["descending"] else "") for entry in document["sorting"]]
    timestamp = header["designated_timestamp"]
    printer.facts(
        [
            ("published size", header["parquet_meta_file_size"]),
            ("feature flags", flags_text(header["feature_flags"])),
            ("designated timestamp", names[timestamp] if 0 <= timestamp < len(names) else timestamp),
            ("sorted by", ", ".join(sorting) or None),
            ("bloom filters on", ", ".join(names[index] for index in document["bloom_columns"]) or None),
            ("squash tracker", document["squash_tracker"]),
        ]
    )


def _print_columns(document: Document, printer: Printer) -> None:
    printer.heading(f"{counted(len(document['columns']), 'column')}")
    printer.table(
        ("name", ">id", "type", "stored as", ">length", "repetition", ">rep", ">def", "flags"),
        [
            (
                printer.cut(column["name"], 24),
                column["id"],
                column["type"]["name"],
                column["physical_type"],
                column["fixed_byte_len"] or None,
                (column["repetition"] or "?").lower(),
                column["max_rep_level"],
                column["max_def_level"],
                flags_text(column["flags"]),
            )
            for column in document["columns"]
        ],
        "column",
    )


def _print_generations(document: Document, printer: Printer) -> None:
    resolved = document["resolved"]
    printer.heading(f"{counted(len(document['generations']), 'generation')}, newest first")
    if resolved is not None and resolved["orphans"]:
        orphans = counted(len(resolved["orphans"]), "newer generation")
        printer.line(f"  if token {resolved['token']} is the committed one, {orphans} never became so")
    rows = []
    for entry in document["generations"]:
        checksum = entry["checksum"]
        state = Text(f"{checksum['stored']:08x} ok") if checksum["ok"] else _bad(checksum)
        rows.append(
            (
                _generation_mark(entry["index"], resolved),
                entry["token"],
                entry["footer_offset_bytes"],
                entry["end_bytes"],
                entry["prev_parquet_meta_file_size"],
                entry["row_group_count"],
                entry["rows"],
                entry["unused_bytes"],
                flags_text(entry["footer_feature_flags"]),
                state,
            )
        )
    titles = (">", ">token", ">footer", ">end", ">prev", ">row groups", ">rows", ">unused", "flags", "checksum")
    printer.table(titles, rows, "generation")


def _bad(checksum: Document) -> Text:
    return Text(f"{checksum['stored']:08x} BAD, is {checksum['computed']:08x}", style="red")


def _generation_mark(index: int, resolved: Document | None) -> str:
    if resolved is not None and index == resolved["generation"]:
        return f"→ {index}"
    is_orphan = resolved is not None and index < len(resolved["orphans"])
    return f"orphan {index}" if is_orphan else str(index)


def _print_row_groups(document: Document, printer: Printer) -> None:
    groups = document["row_groups"]
    printer.heading(f"{counted(len(groups), 'row group')} of generation {document['resolved']['generation']}")
    kept = groups if printer.show_all else groups[:ROW_GROUP_LIMIT]
    for group in kept:
        printer.line(
            f"  row group {group['index']}: {counted(group['rows'], 'row')}, block {group['block_offset_bytes']:,} "
            f"to {group['block_end_bytes']:,}, written by generation {group['written_by_generation']}"
        )
        printer.table(
            ("column", "codec", "encodings", ">from", ">size", ">nulls", "min", "max", ">bloom"),
            [_chunk_row(chunk, printer) for chunk in group["chunks"]],
            "column",
        )
    printer.left_out(len(groups) - len(kept), "row group")
    printer.line("  = exact value, ~ only a bound, * stored out of line", "dim")


def _chunk_row(chunk: Document, printer: Printer) -> tuple[object, ...]:
    return (
        printer.cut(chunk["name"], 20),
        None if chunk["codec"] == "UNCOMPRESSED" else chunk["codec"],
        encodings_text(chunk["encodings"]["names"]),
        chunk["byte_range_start"],
        chunk["total_compressed"],
        chunk["null_count"],
        printer.bound(chunk["min"]),
        printer.bound(chunk["max"]),
        chunk["bloom"]["bitset_size_bytes"] if chunk["bloom"] else None,
    )


def _print_map(document: Document, printer: Printer) -> None:
    dead = document["dead_bytes"]
    printer.heading("Bytes" + (f", {counted(dead, 'byte')} of them dead" if dead else ""))
    rows = []
    for entry in document["byte_map"]:
        what = entry["what"]
        if entry["row_group"] is not None:
            what += f" of row group {entry['row_group']}"
        if entry["generation"] is not None:
            what += f", generation {entry['generation']}"
        if entry["token"] is not None:
            what += f": a whole generation with token {entry['token']} that the chain leaves out"
        rows.append((entry["start_bytes"], entry["end_bytes"], entry["end_bytes"] - entry["start_bytes"], what))
    printer.table((">from", ">to", ">bytes", "what"), rows, "range")
