"""Files that another writer could have made, with right checksums: each breaks one rule of the format, or uses one.

The rules are those of docs/format.md. What breaks one must be rejected; where the format leaves a writer free, the same
rows must be read.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tornproof.harness.explorers.corruption.plan import Crafted, Kind
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.layout.txn import PARQUET_FORMAT, BaseHeader, PartitionEntry, TransactionRecord
from tornproof.impl.pm.chain import CHECKSUM_START
from tornproof.impl.pm.footer import (
    CHECKSUM_BYTES,
    FOOTER_BYTES,
    FOOTER_LENGTH_BYTES,
    GENERATION_END_MINIMUM,
    FooterPosition,
)
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import ENTRY_BYTES, RECORD_BYTES, area_of
from tornproof.impl.verify.verify import check_thrift_footer

UNKNOWN_OPTIONAL_BITS = (3, 16, 31)
UNKNOWN_REQUIRED_BITS = (33, 40, 63)
UNKNOWN_SECTION = bytes(range(1, 25))
GARBAGE = b"\xa5" * 64
PAGE_BYTES = 4096
FAR_BYTES = 1 << 20
MORE_FOLLOWS = 128
"""The bit that is set in all bytes of a number but the last."""
SLOT_BYTES = 12
"""The offset of a record, and two sizes."""
_TXN = "_txn"

Case: TypeAlias = tuple[Kind, str, bytes]
"""Whether it breaks a rule or is allowed, what was made, and the whole content of the file."""


def crafted(file: str, content: bytes, cases: Iterator[Case]) -> Iterator[Crafted]:
    """Yield each case that is not the file as it is, as the part of the file that it replaces."""
    for kind, description, made in cases:
        if made == content:
            continue
        start = _common(content, made)
        behind = min(_common(content[::-1], made[::-1]), len(content) - start, len(made) - start)
        removed_bytes = len(content) - behind - start
        yield Crafted(kind, file, start, removed_bytes, made[start : len(made) - behind], f"{file}: {description}")


def pm_cases(resolved: ResolvedPartition) -> Iterator[Case]:
    """Yield what a writer could have made of a `_pm`, by its committed generation; orphans after it are left out."""
    position = resolved.resolved.position
    made = _Made(
        before=resolved.published.content[: position.offset_bytes],
        position=position,
        rest=resolved.published.content[position.offset_bytes + FOOTER_BYTES : position.checksum_offset],
        header=layout.Header.unpack(resolved.published.content, 0, file=resolved.files.pm_label),
    )
    yield from _features(made)
    yield from _chains(made)
    yield from _sizes(made)
    yield from _sections(made)
    yield from _entries(made)
    yield from _headers(made)
    yield from _chunks(made)


def data_cases(content: bytes, resolved: ResolvedPartition) -> Iterator[Case]:
    """Yield what a writer leaves after the token of a `data.parquet`, and footers with pages outside of their chunk."""
    token = resolved.partition.token
    for name, tail in (("nothing", b""), ("garbage", GARBAGE), ("an end of a file", GARBAGE + MAGIC)):
        yield Kind.ALLOWED, f"{name} after the token", content[:token] + tail
    yield Kind.BROKEN, "no magic before the token", overwritten(content, token - len(MAGIC), bytes(len(MAGIC)))
    yield from page_offset_cases(content, resolved)


def page_offset_cases(content: bytes, resolved: ResolvedPartition) -> Iterator[Case]:
    """Yield Thrift footers in which the first page of a chunk is elsewhere, in as many bytes as before.

    They are those of the last chunk with a dictionary, and of the last one without, whose numbers are long.
    """
    footer, _ = check_thrift_footer(resolved)
    chunks = [chunk for group in footer.row_groups[:1] for chunk in group.chunks] if footer else []
    for has_dictionary in (True, False):
        for chunk in [each for each in chunks if bool(each.dictionary_page_offset) is has_dictionary][-1:]:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            end = start + chunk.total_compressed_size
            offsets = {"data_page_offset": chunk.data_page_offset, "dictionary_page_offset": start}
            for name in list(offsets)[: 1 + has_dictionary]:
                found = _field_at(content, chunk.offset_bytes, offsets[name])
                outside = {each for each in (start - 1, len(MAGIC), end, end + 1) if not start <= each < end}
                for wrong in sorted(outside) if found else ():
                    if len(_number(wrong)) == len(_number(offsets[name])):
                        made = overwritten(content, found, _number(wrong))
                        yield Kind.BROKEN, f"{name} of a chunk from {start} to {end} is {wrong}", made


def _field_at(content: bytes, start: int, value: int) -> int:
    """Return the position of the first 64-bit field with a value in a struct of Thrift; 0 if there is none.

    The byte before it is the field's type and its distance from the field before, which is one or two.
    """
    found = re.compile(b"[\x16\x26]" + re.escape(_number(value))).search(content, start)
    return found.start() + 1 if found else 0


def _number(value: int) -> bytes:
    """Return a number of 0 or more in Thrift's compact form."""
    left, encoded = value << 1, bytearray()
    while left >= MORE_FOLLOWS:
        encoded.append(left % MORE_FOLLOWS | MORE_FOLLOWS)
        left //= MORE_FOLLOWS
    return bytes([*encoded, left])


def txn_cases(content: bytes) -> Iterator[Case]:
    """Yield what a writer at work leaves in the other area of a `_txn`, and records that contradict themselves."""
    base = BaseHeader.unpack(content, 0, file=_TXN)
    live, other = area_of(base, base.version), area_of(base, base.version + 1)
    for name, value in (("zeros", bytes(SLOT_BYTES)), ("ones", b"\xff" * SLOT_BYTES)):
        made = overwritten(content, other.slot_offset_bytes, value)
        yield Kind.ALLOWED, f"{name} in the slot of the other area", made
    yield Kind.ALLOWED, "a page of garbage at the end", content + b"\xa5" * PAGE_BYTES
    apart = other.record_offset >= live.record_offset + live.size_bytes or (
        BaseHeader.layout.size_bytes <= other.record_offset <= live.record_offset - RECORD_BYTES
    )
    if apart and other.record_offset + RECORD_BYTES <= len(content):
        yield (
            Kind.ALLOWED,
            "garbage in the other record",
            overwritten(content, other.record_offset, b"\xa5" * RECORD_BYTES),
        )
    yield from _versions(content, base)
    record = TransactionRecord.unpack(content, live.record_offset, file=_TXN)
    starts = range(
        live.record_offset + live.size_bytes - live.partitions_size, live.record_offset + live.size_bytes, ENTRY_BYTES
    )
    entries = [PartitionEntry.unpack(content, start, file=_TXN) for start in starts]
    is_parquet = [bool(PARQUET_FORMAT.get(entry.row_count_and_flags)) for entry in entries]
    # Nothing else tells the rows of a native partition.
    for field in ("txn", "fixed_row_count", *(["transient_row_count"] if is_parquet[-1:] == [True] else ())):
        for step in (-1, 1):
            changed = record.changed(**{field: getattr(record, field) + step})
            yield Kind.BROKEN, f"{step:+} in {field}", overwritten(content, live.record_offset, changed.pack())
    for start, entry, has_rows in zip(starts, entries[:-1], is_parquet, strict=False):
        if has_rows:
            for step in (-1, 1):
                more = entry.changed(row_count_and_flags=entry.row_count_and_flags + step).pack()
                total = record.changed(fixed_row_count=record.fixed_row_count + step).pack()
                wrong = overwritten(overwritten(content, start, more), live.record_offset, total)
                yield Kind.BROKEN, f"{step:+} rows in the entry at {start}, and in all", wrong
    size_offset = live.record_offset + RECORD_BYTES + live.symbols_size
    for size_bytes in (0, live.partitions_size - 8, live.partitions_size + ENTRY_BYTES, -1, FAR_BYTES):
        if size_bytes != live.partitions_size:
            wrong = overwritten(content, size_offset, struct.pack("<i", size_bytes))
            yield Kind.BROKEN, f"the partition table is said to have {size_bytes} bytes", wrong
    if len(entries) > 1:
        again = entries[1].changed(timestamp=entries[0].timestamp).pack()
        yield Kind.BROKEN, "two partitions begin at the same time", overwritten(content, starts[1], again)


def _versions(content: bytes, base: BaseHeader) -> Iterator[Case]:
    """Yield versions whose area has the record of another one; only the next version may be there already."""
    live, other = area_of(base, base.version), area_of(base, base.version + 1)
    slot, other_slot = (content[each.slot_offset_bytes :][:SLOT_BYTES] for each in (live, other))
    found = None
    if BaseHeader.layout.size_bytes <= other.record_offset <= len(content) - RECORD_BYTES:
        found = TransactionRecord.unpack(content, other.record_offset, file=_TXN).txn
    for step in (-1, 1):
        if found != base.version + step:
            wrong = _with_version(content, base.version + step)
            yield Kind.BROKEN, f"version {step:+}, whose record is not there", wrong
    for step in (-4, -2, 2, 4):
        wrong = _with_version(content, base.version + step)
        yield Kind.BROKEN, f"version {step:+} with a record of the version", wrong
    shared = overwritten(content, other.slot_offset_bytes, slot)
    for step in (-1, 1):
        wrong = _with_version(shared, base.version + step)
        yield Kind.BROKEN, f"version {step:+} with the record of the version in both slots", wrong
    if found != base.version:
        exchanged = overwritten(content, live.slot_offset_bytes, other_slot)
        yield Kind.BROKEN, "the record of the other area in the version's slot", exchanged
    if found is not None and found < base.version:
        record = TransactionRecord.unpack(content, other.record_offset, file=_TXN).changed(txn=base.version)
        wrong = overwritten(_with_version(content, base.version - 1), other.record_offset, record.pack())
        yield Kind.BROKEN, "the version before, with a record that says it is of the version", wrong


def _with_version(content: bytes, version: int) -> bytes:
    return overwritten(content, 0, struct.pack("<q", version))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The parts of a `_pm` that ends with its committed generation; `rest` are the footer's entries and sections."""

    before: bytes
    position: FooterPosition
    rest: bytes
    header: layout.Header

    @property
    def fixed(self) -> layout.Footer:
        return self.position.fixed

    @property
    def flags(self) -> int:
        return self.fixed.footer_feature_flags

    @property
    def whole(self) -> bytes:
        return self.with_footer(self.fixed, self.rest)

    def with_footer(
        self,
        fixed: layout.Footer,
        rest: bytes,
        *,
        before: bytes | None = None,
        length_bytes: int | None = None,
        checksum_change: int = 0,
    ) -> bytes:
        """Return the file that ends with a footer, with the size and the checksum that belong to it."""
        body = (self.before if before is None else before) + fixed.pack() + rest
        checksum = zlib.crc32(body[CHECKSUM_START:]) ^ checksum_change
        if length_bytes is None:
            length_bytes = FOOTER_BYTES + len(rest) + CHECKSUM_BYTES
        return _published(body + layout.Trailer(checksum=checksum, footer_length=length_bytes).pack())

    def with_newer(self, rest: bytes | None = None, *, older: bytes | None = None, **changes: int) -> bytes:
        """Return the file with one more generation, which by default repeats the committed one."""
        older = self.whole if older is None else older
        checksum_change = changes.pop("checksum_change", 0)
        fixed = self.fixed.changed(**{"prev_parquet_meta_file_size": len(older)} | changes)
        rest = self.rest if rest is None else rest
        return self.with_footer(fixed, rest, before=older, checksum_change=checksum_change)

    def with_before(self, offset_bytes: int, value: bytes) -> bytes:
        """Return the file with some bytes before the footer replaced."""
        return self.with_footer(self.fixed, self.rest, before=overwritten(self.before, offset_bytes, value))


def _features(made: _Made) -> Iterator[Case]:
    for bit in UNKNOWN_OPTIONAL_BITS:
        fixed = made.fixed.changed(footer_feature_flags=made.flags | 1 << bit)
        yield (
            Kind.ALLOWED,
            f"optional feature {bit} of the footer, without a section",
            made.with_footer(fixed, made.rest),
        )
        whole = made.with_footer(fixed, made.rest + UNKNOWN_SECTION)
        yield Kind.ALLOWED, f"optional feature {bit} of the footer, with a section", whole
    for bit in UNKNOWN_REQUIRED_BITS:
        fixed = made.fixed.changed(footer_feature_flags=made.flags | 1 << bit)
        yield Kind.REQUIRED, f"required feature {bit} of the footer", made.with_footer(fixed, made.rest)
        header = made.header.changed(feature_flags=made.header.feature_flags | 1 << bit)
        yield Kind.REQUIRED, f"required feature {bit} of the header", made.with_before(0, header.pack())
        newest = made.with_newer(older=made.with_footer(fixed, made.rest))
        yield Kind.ALLOWED, f"required feature {bit} of a generation that is not read", newest


def _chains(made: _Made) -> Iterator[Case]:
    end = len(made.whole)
    later = made.fixed.parquet_footer_offset + len(GARBAGE)
    orphan = made.with_newer(parquet_footer_offset=later)
    yield Kind.ALLOWED, "an orphan", orphan
    yield Kind.ALLOWED, "two orphans", made.with_newer(older=orphan, parquet_footer_offset=later + len(GARBAGE))
    skips = made.with_newer(older=orphan, prev_parquet_meta_file_size=end)
    yield Kind.ALLOWED, "a generation that restates the committed one and skips an orphan", skips
    yield (
        Kind.ALLOWED,
        "an orphan with a wrong checksum",
        made.with_newer(parquet_footer_offset=later, checksum_change=1),
    )
    wanting = made.flags | 1 << UNKNOWN_REQUIRED_BITS[0]
    yield (
        Kind.ALLOWED,
        "an orphan that requires an unknown feature",
        made.with_newer(parquet_footer_offset=later, footer_feature_flags=wanting),
    )
    yield Kind.ALLOWED, "a generation that restates the committed one", made.with_newer()
    yield Kind.ALLOWED, "bytes after the published size", made.whole + GARBAGE
    unused_bytes = made.fixed.unused_bytes
    for step in (-1, 1):
        if 0 <= unused_bytes + step <= made.fixed.parquet_footer_offset:
            newest = made.with_newer(unused_bytes=unused_bytes + step)
            yield Kind.BROKEN, f"two generations of one token, one with {step:+} unused bytes", newest
    if made.fixed.parquet_footer_offset > len(GARBAGE):
        earlier = made.fixed.parquet_footer_offset - len(GARBAGE)
        yield (
            Kind.BROKEN,
            "a generation whose token is less than that of the one before",
            made.with_newer(parquet_footer_offset=earlier),
        )
    start = made.position.offset_bytes
    for prev in (end, start + 1, end + FAR_BYTES, GENERATION_END_MINIMUM - 1, 8, (1 << 64) - 1):
        fixed = made.fixed.changed(prev_parquet_meta_file_size=prev)
        yield Kind.BROKEN, f"the generation before is said to end at byte {prev}", made.with_footer(fixed, made.rest)


def _sizes(made: _Made) -> Iterator[Case]:
    whole = made.whole
    longest = len(whole) - FOOTER_LENGTH_BYTES - layout.Header.layout.size_bytes
    for length_bytes in (0, FOOTER_BYTES + CHECKSUM_BYTES - 1, longest + 1, len(whole), FAR_BYTES, (1 << 32) - 1):
        wrong = made.with_footer(made.fixed, made.rest, length_bytes=length_bytes)
        yield Kind.BROKEN, f"the footer is said to have {length_bytes} bytes", wrong
    for bit in (0, 31):
        wrong = made.with_footer(made.fixed, made.rest, checksum_change=1 << bit)
        yield Kind.BROKEN, f"a checksum with another bit {bit}", wrong
    if not made.flags:
        yield (
            Kind.BROKEN,
            "a footer that is longer than its flags say",
            made.with_footer(made.fixed, made.rest + bytes(8)),
        )
    for size_bytes in (0, GENERATION_END_MINIMUM - 1, len(whole) - 8, len(whole) + 8, (1 << 64) - 1):
        yield Kind.BROKEN, f"the published size is {size_bytes}", struct.pack("<Q", size_bytes) + whole[8:]


def _sections(made: _Made) -> Iterator[Case]:
    for name, bit, allowed, broken in (
        ("sequencer transaction", layout.SEQ_TXN, struct.pack("<q", 7), (b"", bytes(7))),
        (
            "scratchpad",
            layout.SCRATCHPAD,
            struct.pack("<III", 1, 9, 4) + b"note",
            (b"", struct.pack("<I", 0), struct.pack("<III", 1, 9, FAR_BYTES), struct.pack("<III", (1 << 32) - 1, 9, 0)),
        ),
    ):
        if made.flags:
            # What other sections there are would have to come before or after it.
            continue
        fixed = made.fixed.changed(footer_feature_flags=bit.mask)
        yield Kind.ALLOWED, f"a {name}", made.with_footer(fixed, made.rest + allowed)
        for section in broken:
            wrong = made.with_footer(fixed, made.rest + section)
            yield Kind.BROKEN, f"a {name} of {len(section)} bytes, {section[:12].hex() or 'none'}", wrong


def _entries(made: _Made) -> Iterator[Case]:
    count = made.fixed.row_group_count
    for wrong in (count + 1, 1 << 31, (1 << 32) - 1):
        fixed = made.fixed.changed(row_group_count=wrong)
        yield Kind.BROKEN, f"{wrong} row groups", made.with_footer(fixed, made.rest)
    blocks = {
        "in the header": 0,
        "behind its footer": (made.position.offset_bytes >> layout.BLOCK_OFFSET_SHIFT) + 1,
        "behind the file": (1 << 32) - 1,
    }
    if count > 1:
        (blocks["of another row group"],) = struct.unpack_from("<I", made.rest, 4)
    for name, block in blocks.items() if count else ():
        rest = overwritten(made.rest, 0, struct.pack("<I", block))
        yield Kind.BROKEN, f"the first row group's block is {name}", made.with_footer(made.fixed, rest)


def _headers(made: _Made) -> Iterator[Case]:
    header = made.header
    wrong = {
        "reserved": 1,
        "designated_timestamp": header.column_count,
        "sorting_column_count": header.column_count + FAR_BYTES,
        "column_count": header.column_count + FAR_BYTES,
    }
    if not layout.BLOOM_FILTERS.get(header.feature_flags):
        wrong["feature_flags"] = header.feature_flags | layout.BLOOM_FILTERS_EXTERNAL.mask
    for field, value in wrong.items():
        yield (
            Kind.BROKEN,
            f"{field} of the header is {value}",
            made.with_before(0, header.changed(**{field: value}).pack()),
        )
    at = layout.Header.layout.size_bytes
    column = layout.ColumnDescriptor.unpack(made.before, at, file="_pm")
    for field, value in {
        "name_offset": len(made.whole) + FAR_BYTES,
        "name_length": FAR_BYTES,
        "reserved": 1,
        "physical_type": 99,
        "max_rep_level": column.max_def_level + 1,
    }.items():
        changed = column.changed(**{field: value}).pack()
        yield Kind.BROKEN, f"{field} of the first column is {value}", made.with_before(at, changed)


def _chunks(made: _Made) -> Iterator[Case]:
    if not made.fixed.row_group_count or not made.header.column_count:
        return
    (entry,) = struct.unpack_from("<I", made.rest, 0)
    at = (entry << layout.BLOCK_OFFSET_SHIFT) + layout.RowGroupHeader.layout.size_bytes
    block = layout.RowGroupHeader.unpack(made.before, at - layout.RowGroupHeader.layout.size_bytes, file="_pm")
    for step in (-1, 1):
        changed = block.changed(num_rows=block.num_rows + step).pack()
        yield Kind.BROKEN, f"the first row group has {step:+} rows", made.with_before(at - len(changed), changed)
    chunk = layout.ColumnChunk.unpack(made.before, at, file="_pm")
    token = made.position.token
    for field, value in {
        "codec": 99,
        "encodings": 0,
        "reserved": 1,
        "num_values": chunk.num_values + 1,
        "byte_range_start": token,
        "total_compressed": token + 1,
        "null_count": chunk.num_values + 1,
    }.items():
        changed = chunk.changed(**{field: value}).pack()
        yield Kind.BROKEN, f"{field} of the first column chunk is {value}", made.with_before(at, changed)
    huge = chunk.changed(total_compressed=(1 << 64) - 1).pack()
    yield Kind.BROKEN, "the first column chunk has 2^64 - 1 bytes", made.with_before(at, huge)


def _published(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content[8:]


def overwritten(content: bytes, offset_bytes: int, value: bytes) -> bytes:
    """Return the content with other bytes from an offset on."""
    return content[:offset_bytes] + value + content[offset_bytes + len(value) :]


def _common(left: bytes, right: bytes) -> int:
    """Return how many bytes are equal at the beginning."""
    size = min(len(left), len(right))
    unequal = np.flatnonzero(np.frombuffer(left, np.uint8, size) != np.frombuffer(right, np.uint8, size))
    return int(unequal[0]) if unequal.size else size
