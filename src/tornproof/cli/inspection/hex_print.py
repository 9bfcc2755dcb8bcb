"""Fixed-size records as annotated hex: offset, bytes, name and value of each field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tornproof.cli.inspection.report import Document
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.layout import meta, parquet, pm, txn
from tornproof.impl.layout.record import Buffer, Record
from tornproof.impl.pm.block import chunk_offset

Located: TypeAlias = tuple[str, type[Record], int]
"""A title, the layout of a record, and its offset."""

RECORD_LIMIT = 24
HEX_LIMIT = 32


def print_hex(content: Buffer, records: Sequence[Located], printer: Printer, *, base_bytes: int = 0) -> None:
    """Print the records that are completely in `content`, which starts at byte `base_bytes` of the file."""
    whole = [each for each in records if 0 <= each[2] <= len(content) - each[1].layout.size_bytes]
    kept = whole if printer.show_all else whole[:RECORD_LIMIT]
    for title, record, offset_bytes in kept:
        printer.heading(f"{title}, {record.layout.size_bytes} bytes at {base_bytes + offset_bytes:,}")
        rows = [
            {"at": base_bytes + start, "bytes": printer.cut(raw, HEX_LIMIT), "field": name, "value": value}
            for start, raw, name, value in record.layout.annotate(content, offset_bytes)
        ]
        printer.table("fields", rows)
    printer.left_out(len(whole) - len(kept), "records")


def pm_records(document: Document) -> list[Located]:
    """Return the records of a `_pm`: its fixed header, all footers, the descriptors, the blocks that are shown."""
    records: list[Located] = [("Header", pm.Header, 0)]
    for generation in document["generations"]:
        index, end_bytes = generation["index"], generation["end_bytes"]
        records.append((f"Footer of generation {index}", pm.Footer, generation["footer_offset_bytes"]))
        entries = generation["footer_offset_bytes"] + pm.Footer.layout.size_bytes
        records += [
            (f"Entry of row group {ordinal}", pm.RowGroupEntry, entries + ordinal * pm.RowGroupEntry.layout.size_bytes)
            for ordinal in range(len(generation["block_offsets"]))
        ]
        records.append((f"Trailer of generation {index}", pm.Trailer, end_bytes - pm.Trailer.layout.size_bytes))
    start, width = pm.Header.layout.size_bytes, pm.ColumnDescriptor.layout.size_bytes
    records += [
        (f"Descriptor of column {column['index']}", pm.ColumnDescriptor, start + column["index"] * width)
        for column in document["columns"]
    ]
    for group in document["row_groups"]:
        records += _block_records(group)
    return records


def _block_records(group: Document) -> Iterator[Located]:
    block = group["block_offset_bytes"]
    yield f"Block of row group {group['index']}", pm.RowGroupHeader, block
    for chunk in group["chunks"]:
        offset_bytes = chunk_offset(block, chunk["column"])
        yield f"Chunk of column {chunk['column']}, row group {group['index']}", pm.ColumnChunk, offset_bytes


def txn_records(document: Document) -> list[Located]:
    """Return the records of a `_txn`: the base header and what decodes of both areas."""
    records: list[Located] = [("Base header", txn.BaseHeader, 0)]
    for area in document["areas"]:
        if area["record"] is None:
            continue
        record = area["record_offset_bytes"]
        counts = record + txn.TransactionRecord.layout.size_bytes
        records.append((f"Record of area {area['name']}", txn.TransactionRecord, record))
        records += [
            (f"Symbol column {index}", txn.SymbolCount, counts + index * txn.SymbolCount.layout.size_bytes)
            for index in range(len(area["symbol_counts"]))
        ]
        records += [
            (f"Partition {index} of area {area['name']}", txn.PartitionEntry, partition["entry_offset_bytes"])
            for index, partition in enumerate(area["partitions"])
        ]
    return records


def meta_records(document: Document) -> list[Located]:
    """Return the records of a `_meta`: the header and the live columns."""
    start, width = meta.MetaHeader.layout.size_bytes, meta.MetaColumn.layout.size_bytes
    records: list[Located] = [("Header", meta.MetaHeader, 0)]
    return records + [
        (f"Column {column['id']}", meta.MetaColumn, start + column["id"] * width) for column in document["columns"]
    ]


PARQUET_RECORDS: list[Located] = [("Tail", parquet.ParquetTail, 0)]
