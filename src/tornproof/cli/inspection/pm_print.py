"""A `_pm` on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tornproof.cli.inspection.drawn_map import draw_map
from tornproof.cli.inspection.printing import ROW_GROUP_LIMIT, Printer, encodings_text, flags_text
from tornproof.cli.inspection.report import Document, counted


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
    _print_committed(document["committed"], resolved, printer)
    rows = []
    for entry in document["generations"]:
        checksum = entry["checksum"]
        state = Text(f"{checksum['stored']:08x} ok") if checksum["ok"] else _bad(checksum)
        rows.append(
            (
                _generation_mark(entry["index"], resolved, document["committed"]),
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


def _print_committed(committed: Document | None, resolved: Document | None, printer: Printer) -> None:
    """Say which generation is the committed one, as far as anybody knows, and what stands above it."""
    orphans = counted(len(resolved["orphans"]), "newer generation") if resolved and resolved["orphans"] else None
    if committed is not None:
        says = f"  _txn: version {committed['version']} of the table has committed token {committed['token']:,}"
        if committed["generation"] is None:
            printer.line(f"{says}, which no generation here has", "red")
        else:
            printer.line(f"{says}, generation {committed['generation']} here", "dim")
    if resolved is None or orphans is None:
        return
    if committed is not None and committed["generation"] == resolved["generation"]:
        printer.line(f"  {orphans} never became committed", "yellow")
    else:
        printer.line(f"  if token {resolved['token']} is the committed one, {orphans} never became so")


def _generation_mark(index: int, resolved: Document | None, committed: Document | None) -> str:
    if resolved is not None and index == resolved["generation"]:
        is_committed = committed is not None and committed["generation"] == index
        return f"→ committed {index}" if is_committed else f"→ {index}"
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
    print_blooms(
        [(group["index"], chunk["name"], chunk["bloom"]) for group in kept for chunk in group["chunks"]], printer
    )


def print_blooms(filters: Iterable[tuple[int, str, Document | None]], printer: Printer) -> None:
    """Print bloom filters, if there are any, given by row group and name of column."""
    present = [(group, name, bloom) for group, name, bloom in filters if bloom is not None]
    if not present:
        return
    printer.heading(counted(len(present), "bloom filter"))
    rows = [
        (
            group,
            printer.cut(name, 30),
            bloom.get("file", "here"),
            bloom["offset_bytes"],
            bloom["bitset_size_bytes"],
            None if bloom["fill"] is None else f"{100 * bloom['fill']:.1f} %",
            None if bloom["fill"] is None else f"{100 * bloom['false_positive_rate']:.3g} %",
        )
        for group, name, bloom in present
    ]
    titles = (">row group", "column", "in", ">at", ">bitset", ">bits set", ">let others pass")
    printer.table(titles, rows, "bloom filter")


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
    drawn = [(entry["start_bytes"], entry["end_bytes"], entry["what"]) for entry in document["byte_map"]]
    draw_map(drawn, document["size_bytes"], printer)
    printer.line("")
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
