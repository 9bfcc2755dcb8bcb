"""`_txn` and `_meta` on a terminal."""

from __future__ import annotations

from tornproof.cli.inspection.printing import Printer, flags_text
from tornproof.cli.inspection.report import Document, counted

UNSET_LAG_MIN, UNSET_LAG_MAX = (1 << 63) - 1, -(1 << 63)


def print_txn(document: Document, printer: Printer) -> None:
    """Print the base header and both areas, the live one first."""
    printer.line(f"{document['file']}: _txn, {counted(document['size_bytes'], 'byte')}", "bold")
    base = document["base_header"]
    if base is None:
        return
    printer.facts([("version", base["version"]), ("live area", document["live_area"])])
    for area in sorted(document["areas"], key=lambda area: not area["live"]):
        _print_area(area, printer)


def _print_area(area: Document, printer: Printer) -> None:
    state = "live" if area["live"] else "not live"
    place = f"{counted(area['size_bytes'], 'byte')} at {area['record_offset_bytes']:,}"
    printer.heading(f"Area {area['name']} ({state}), {place}")
    if area["error"] is not None:
        printer.line(f"  does not decode: {area['error']}", "red" if area["live"] else "dim")
    if area["record"] is not None:
        printer.facts((name.replace("_", " "), _unset(value)) for name, value in area["record"].items())
    if area["symbol_counts"]:
        printer.table(
            (">symbol column", ">symbols", ">uncommitted ones included"),
            [(index, *count.values()) for index, count in enumerate(area["symbol_counts"])],
            "symbol column",
        )
    if area["partitions"]:
        printer.table(
            ("partition", ">rows", "format", ">token", ">name txn", ">squashed", "flags"),
            [_partition_row(partition) for partition in area["partitions"]],
            "partition",
        )


def _unset(value: object) -> object:
    return None if value in (UNSET_LAG_MIN, UNSET_LAG_MAX) else value


def _partition_row(partition: Document) -> tuple[object, ...]:
    return (
        partition["directory"] or str(partition["timestamp"]),
        partition["rows"],
        partition["format"],
        partition["token"],
        partition["name_txn"],
        partition["squash_count"],
        flags_text(partition["flags"]),
    )


def print_meta(document: Document, printer: Printer) -> None:
    """Print the settings and the columns."""
    printer.line(f"{document['file']}: _meta, {counted(document['size_bytes'], 'byte')}", "bold")
    header, timestamp = document["header"], document["timestamp"]
    if header is None:
        return
    printer.facts(
        [
            ("partitioned by", document["partition_by"]),
            ("designated timestamp", f"{timestamp['name']} ({timestamp['unit']})" if timestamp else None),
            *((name.replace("_", " "), value) for name, value in header.items() if name != "unused"),
        ]
    )
    printer.heading(counted(len(document["columns"]), "column"))
    printer.table(
        (">id", "name", "type", ">index block", ">symbol capacity", ">took the place of", "flags"),
        [
            (
                column["id"],
                printer.cut(column["name"]),
                column["type"]["name"],
                column["index_block_capacity"],
                column["symbol_capacity"],
                column["replacing_index"] - 1 if column["replacing_index"] else None,
                flags_text(column["flags"]),
            )
            for column in document["columns"]
        ],
        "column",
    )
