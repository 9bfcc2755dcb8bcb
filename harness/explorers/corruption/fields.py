"""Fields with wrong values: every number of `_txn` and `_pm` set to values that a mistake is likely to store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tornproof.harness.explorers.corruption.plan import Edit, Kind, Overwrite, difference
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.record import Layout
from tornproof.impl.pm.chain import CHECKSUM_START, checksum_of, decode_chain, walk
from tornproof.impl.pm.footer import FOOTER_BYTES, FooterPosition
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import ENTRY_BYTES, RECORD_BYTES, SIZE_BYTES, SYMBOL_BYTES, Area, area_of

WRAP_BITS = 32


@dataclass(frozen=True, slots=True)
class Spot:
    """One number of a file, and the offset of its counterpart, the same field of another record, if there is one.

    Both offsets count from the start of the file.
    """

    offset_bytes: int
    size_bytes: int
    counterpart_offset_bytes: int | None = None


def txn_spots(content: bytes) -> Iterator[Spot]:
    """Yield the numbers of a `_txn` that decodes: the base header, the live record, and the other one where it fits.

    The counterpart of a field is the same one in the other area.
    """
    base = txn_layout.BaseHeader.unpack(content, 0, file="_txn")
    layout = txn_layout.BaseHeader.layout
    areas = (area_of(base, base.version), area_of(base, base.version + 1))
    whole = [area for area in areas if _is_inside(area, len(content))]
    record = txn_layout.TransactionRecord.layout.offset_of("txn")
    yield Spot(0, layout.field("version").wire.size_bytes, whole[1].record_offset + record if len(whole) > 1 else None)
    for left, right in itertools.permutations("ab", 2):
        for name in ("record_offset", "symbols_size", "partitions_size"):
            spec = layout.field(f"{left}_{name}")
            yield Spot(spec.offset_bytes, spec.wire.size_bytes, layout.offset_of(f"{right}_{name}"))
    for area, other in zip(whole, [*whole[1:], whole[0]] if len(whole) > 1 else [None], strict=True):
        counterparts: dict[tuple[str, int, int], int] = {}
        if other is not None:
            counterparts = {key: offset_bytes for key, offset_bytes, _ in _area_fields(other)}
        for key, offset_bytes, size_bytes in _area_fields(area):
            yield Spot(offset_bytes, size_bytes, counterparts.get(key))


def pm_spots(resolved: ResolvedPartition) -> Iterator[Spot]:
    """Yield the numbers of a `_pm`: header, descriptors, every footer of the chain, every block of the committed one.

    The counterpart of a footer's field is in the next older footer (of the oldest one, the next newer); of a chunk's
    field in the row group before, or in the next column where there is one row group; of a descriptor's in the next.
    """
    content, metadata = resolved.published.content, resolved.metadata
    positions = list(walk(content, file=resolved.files.pm_label))
    ends = [position.end_bytes for position in positions]
    yield from _record(pm_layout.Header.layout, 0, None, skipped="parquet_meta_file_size")
    size = pm_layout.Header.layout.field("parquet_meta_file_size")
    older_end = positions[0].offset_bytes + pm_layout.Footer.layout.offset_of("prev_parquet_meta_file_size")
    yield Spot(size.offset_bytes, size.wire.size_bytes, older_end if len(ends) > 1 else None)
    columns = len(metadata.header.columns)
    yield from _table(pm_layout.ColumnDescriptor.layout, pm_layout.Header.layout.size_bytes, columns)
    descriptors_end = pm_layout.Header.layout.size_bytes + columns * pm_layout.ColumnDescriptor.layout.size_bytes
    yield from _table(pm_layout.SortingColumn.layout, descriptors_end, len(metadata.header.sorting_columns))
    yield from _blocks(resolved, columns)
    for index, position in enumerate(positions):
        counterpart = positions[index + 1] if index + 1 < len(positions) else positions[index - 1] if index else None
        yield from _footer(position, counterpart)


def field_damages(spots: Sequence[Spot], file: str, content: bytes) -> Iterator[Overwrite]:
    """Yield every wrong value of every number once."""
    for spot in spots:
        seen: set[bytes] = set()
        for name, value in _values(spot, content):
            edit = difference(file, content, spot.offset_bytes, value)
            if edit is not None and value not in seen:
                seen.add(value)
                description = f"the number of {spot.size_bytes} bytes at {spot.offset_bytes} of {file} set to {name}"
                yield Overwrite(Kind.FIELD, (edit,), description)


def forged_damages(spots: Sequence[Spot], file: str, resolved: ResolvedPartition) -> Iterator[Overwrite]:
    """Yield the wrong values that the CRC of the committed generation covers, with all checksums recomputed.

    This is a mistake of a writer rather than of a disk: a writer computes the checksum of whatever it stores.
    """
    content, label = resolved.published.content, resolved.files.pm_label
    positions = sorted(walk(content, file=label), key=lambda position: position.checksum_offset)
    covered = [
        spot for spot in spots if CHECKSUM_START <= spot.offset_bytes < resolved.resolved.position.checksum_offset
    ]
    for damage in field_damages(covered, file, content):
        edits: list[Edit] = list(damage.edits)
        forged = bytearray(damage.apply(content))
        for position in positions:
            if position.checksum_offset > damage.offset_bytes:
                checksum = checksum_of(forged, position).to_bytes(4, "little")
                repaired = difference(file, bytes(forged), position.checksum_offset, checksum)
                if repaired is not None:
                    edits.append(repaired)
                    forged[repaired.offset_bytes : repaired.end_bytes] = repaired.content
        yield Overwrite(Kind.FORGED, tuple(edits), f"{damage.description}, and the checksums recomputed")


def _values(spot: Spot, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the wrong values of a number: a name, and its bytes."""
    bits = 8 * spot.size_bytes
    value = int.from_bytes(content[spot.offset_bytes : spot.offset_bytes + spot.size_bytes], "little")
    values = {
        "0": 0,
        "-1": -1,
        "its largest signed value": (1 << bits - 1) - 1,
        "its smallest signed value": 1 << bits - 1,
        "one more": value + 1,
        "one less": value - 1,
    }
    if bits > WRAP_BITS:
        values |= {"2^32 more": value + (1 << WRAP_BITS), "its low 32 bits": value & (1 << WRAP_BITS) - 1}
    for name, number in values.items():
        yield name, (number % (1 << bits)).to_bytes(spot.size_bytes, "little")
    if spot.counterpart_offset_bytes is not None:
        start = spot.counterpart_offset_bytes
        yield f"the value at {start}", content[start : start + spot.size_bytes]


def _is_inside(area: Area, size_bytes: int) -> bool:
    sizes_are_whole = min(area.symbols_size, area.partitions_size) >= 0
    return area.record_offset > 0 and sizes_are_whole and area.record_offset + area.size_bytes <= size_bytes


def _area_fields(area: Area) -> Iterator[tuple[tuple[str, int, int], int, int]]:
    """Yield ((table, row, offset in the row), offset in the file, size in bytes) of an area's numbers."""
    symbols = area.record_offset + RECORD_BYTES
    table_size = symbols + area.symbols_size
    for layout, start, count in (
        (txn_layout.TransactionRecord.layout, area.record_offset, 1),
        (txn_layout.SymbolCount.layout, symbols, area.symbols_size // SYMBOL_BYTES),
        (txn_layout.PartitionTableSize.layout, table_size, 1),
        (txn_layout.PartitionEntry.layout, table_size + SIZE_BYTES, area.partitions_size // ENTRY_BYTES),
    ):
        for row in range(count):
            for spot in _record(layout, start + row * layout.size_bytes, None):
                key = (layout.title, row, spot.offset_bytes - start - row * layout.size_bytes)
                yield key, spot.offset_bytes, spot.size_bytes


def _record(layout: Layout, start: int, counterpart: int | None, *, skipped: str = "") -> Iterator[Spot]:
    """Yield the numbers of one record; `counterpart` is the offset of the record with their counterparts."""
    for spec in layout.fields:
        if spec.wire.name != "bytes" and spec.name != skipped:
            counterpart_start = None if counterpart is None else counterpart + spec.offset_bytes
            yield Spot(start + spec.offset_bytes, spec.wire.size_bytes, counterpart_start)


def _table(layout: Layout, start: int, count: int) -> Iterator[Spot]:
    """Yield the numbers of adjacent records; counterparts are in the next one, those of the last in the first."""
    for row in range(count):
        counterpart = start + (row + 1) % count * layout.size_bytes if count > 1 else None
        yield from _record(layout, start + row * layout.size_bytes, counterpart)


def _blocks(resolved: ResolvedPartition, columns: int) -> Iterator[Spot]:
    header, chunk = pm_layout.RowGroupHeader.layout, pm_layout.ColumnChunk.layout
    content, label = resolved.published.content, resolved.files.pm_label
    chain = decode_chain(content, file=label, end_bytes=resolved.resolved.position.end_bytes)
    offsets = sorted({offset for metadata in chain for offset in metadata.generation.block_offsets})
    for index, offset in enumerate(offsets):
        if len(offsets) == 1:
            yield from _record(header, offset, None)
            yield from _table(chunk, offset + header.size_bytes, columns)
            continue
        counterpart = offsets[index - 1] if index else offsets[1]
        yield from _record(header, offset, counterpart)
        for column in range(columns):
            within = header.size_bytes + column * chunk.size_bytes
            yield from _record(chunk, offset + within, counterpart + within)


def _footer(position: FooterPosition, counterpart: FooterPosition | None) -> Iterator[Spot]:
    yield from _record(
        pm_layout.Footer.layout, position.offset_bytes, counterpart.offset_bytes if counterpart else None
    )
    yield from _table(
        pm_layout.RowGroupEntry.layout, position.offset_bytes + FOOTER_BYTES, position.fixed.row_group_count
    )
    yield from _record(
        pm_layout.Trailer.layout, position.checksum_offset, counterpart.checksum_offset if counterpart else None
    )
