"""Where the bits of words are that have several fields, from the lowest bit up, and where records have their bytes."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.impl.layout import meta, pm, txn
from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import Layout, Record
from tornproof.impl.migrate import json_rules
from tornproof.impl.types import questdb

NO_NAME = "-"
STATISTICS = (
    "MIN_STAT_PRESENT MIN_STAT_INLINED MIN_STAT_VALUE_EXACT MAX_STAT_PRESENT MAX_STAT_INLINED MAX_STAT_VALUE_EXACT"
)
WORDS: Mapping[str, tuple[ModuleType, str]] = {
    "the flags of a column in _meta": (meta, "INDEXED - SYMBOL_CACHE DEDUP_KEY"),
    "the minor format in _meta": (meta, "MINOR_FORMAT_CHECKSUM:16 MINOR_FORMAT_VERSION:16"),
    "the row count and flags of a partition": (
        txn,
        "ROW_COUNT:44 SQUASH_COUNT:16 PARQUET_GENERATED PARQUET_FORMAT READ_ONLY",
    ),
    "the flags of a column in _pm": (pm, "LOCAL_KEY_IS_GLOBAL IS_ASCII FIELD_REPETITION:2 DESCENDING"),
    "the features of a header": (pm, "BLOOM_FILTERS BLOOM_FILTERS_EXTERNAL SORTING_IS_DTS_ASC SQUASH_TRACKER"),
    "the features of a footer": (pm, "SEQ_TXN SCRATCHPAD COVERING_INDEX -:29 COVERING_INDEX_REQUIRED"),
    "the features that a reader may ignore or not": (pm, "OPTIONAL_FEATURES:32 REQUIRED_FEATURES:32"),
    "the flags of statistics": (pm, f"{STATISTICS} DISTINCT_COUNT_PRESENT NULL_COUNT_PRESENT"),
    "the sizes of statistics": (pm, "MIN_STAT_SIZE:4 MAX_STAT_SIZE:4"),
    "a statistic that is elsewhere": (pm, "STAT_REFERENCE_LENGTH:16 STAT_REFERENCE_OFFSET:48"),
    "the type of a column": (questdb, "TAG:8 -:9 DESIGNATED NANOSECOND"),
    "the type of an array": (questdb, "-:8 ELEMENT_TAG:6 DIMENSIONS_MINUS_1:5"),
    "the type of a decimal": (questdb, "-:8 PRECISION:8 -:2 SCALE:8"),
    "the type of a geohash": (questdb, "-:8 GEOHASH_PRECISION:8 GEOHASH_FLAG"),
    "the type of a column in JSON": (json_rules, "-:20 DESIGNATED_DESCENDING"),
}
"""The fields of each word, and how many bits each has where it has more than one."""


def bit_fields() -> Iterator[Question]:
    """Yield the bits of each field, as they are found in a word in which it is set, and those of all fields."""
    for name, (module, spelled) in WORDS.items():
        expected, first = {}, 0
        for each in spelled.split():
            field, _, count = each.partition(":")
            if field != NO_NAME:
                expected[field] = ((1 << int(count or 1)) - 1) << first
            first += int(count or 1)
        yield ask("bit fields", name, expected, _masks, module, tuple(expected))
        all_bits = functools.partial(_known_mask, module, tuple(expected))
        yield Question("bit fields", f"the bits that have a name in {name}", all_bits, sum(expected.values()))

    for places, is_right in (
        (((0, 1), (1, 2)), True),
        (((0, 2), (1, 1)), False),
        (((0, 1), (4, 2), (5, 1)), False),
        (((4, 4),), True),
        (((4, 5),), False),
        (((2, 1), (7, 2)), False),
    ):
        words = ", ".join(f"{size} from bit {start} on" for start, size in places)
        yield ask("bit fields", f"whether a byte has fields of {words}", is_right, _has, places)


def _has(places: Sequence[tuple[int, int]]) -> bool:
    try:
        BitTable("", "", 8, tuple(Bits(str(start), start, size, "") for start, size in places))
    except AssertionError:
        return False
    return True


def _masks(module: ModuleType, fields: tuple[str, ...]) -> dict[str, int]:
    """Return which bits of a word are set where all those of a field are, each of which is read there again."""
    masks = {}
    for name in fields:
        field: Bits = getattr(module, name)
        masks[name] = field.put(0, (1 << field.size_bits) - 1)
        for bit in range(field.size_bits):
            needed(field.get(field.put(0, 1 << bit)) == 1 << bit, f"bit {bit} of {name} is read as another one")
    return masks


def _known_mask(module: ModuleType, fields: tuple[str, ...]) -> int:
    return BitTable("", "", 64, tuple(getattr(module, name) for name in fields)).known_mask


def annotations_of_records() -> Iterator[Question]:
    """Yield records behind other bytes, the bytes that are shown of each, and whether they are inside of a file."""
    records: tuple[type[Record], ...] = (txn.TransactionRecord, txn.PartitionEntry, pm.Footer, meta.MetaColumn)
    for record, start in itertools.product(records, (0, 1, 96)):
        size_bytes = record.layout.size_bytes
        content = bytes(number * 37 % 251 for number in range(start + size_bytes + 9))
        words = f"the bytes of a {record.__name__} at byte {start}"
        yield ask("annotated records", words, True, _is_shown, record.layout, content, start)
    for record, start, more_bytes in itertools.product(records, (-1, 0, 1), (-1, 0, 1)):
        size_bytes = record.layout.size_bytes + more_bytes
        words = f"whether a {record.__name__} at byte {start} of {size_bytes} can be decoded"
        is_inside = start >= 0 and start <= more_bytes
        found = functools.partial(_is_decoded, record, bytes(size_bytes), start)
        yield Question("annotated records", words, found, True if is_inside else "CorruptError")
    for number in (-1, 0, 1, -(1 << 62)):
        content = struct.pack("<4q", number, 0, number, number)
        found = functools.partial(_shown_numbers, txn.PartitionEntry.layout, content)
        yield Question("annotated records", f"the numbers of an entry of {number}", found, [number, 0, number, number])
    # A part of a name, or nothing at all, is the name of no field unless a field has just this name.
    for record in (*records, pm.Header, pm.ColumnDescriptor, meta.MetaHeader):
        names = record.layout.names
        for name in names:
            parts = (part for cut in range(len(name)) for part in (name[:cut], name[cut:]))
            asked = {name.upper(), *parts}
            expected = {each: each if each in names else "KeyError" for each in sorted(asked)}
            words = f"the fields of a {record.__name__} by {name} and parts of that"
            yield ask("annotated records", words, expected, _fields_by, record.layout, tuple(expected))


def _is_decoded(record: type[Record], content: bytes, start: int) -> Any:
    return outcome_of(lambda: isinstance(record.unpack(content, start, file="file"), record))


def _is_shown(layout: Layout, content: bytes, start: int) -> bool:
    shown = [(at, bytes.fromhex(text)) for at, text, *_ in layout.annotate(content, start)]
    return len(shown) > 1 and all(start <= at and content[at : at + len(each)] == each for at, each in shown)


def _fields_by(layout: Layout, names: Sequence[str]) -> dict[str, str]:
    return {name: _field_by(layout, name) for name in names}


def _field_by(layout: Layout, name: str) -> str:
    try:
        return layout.field(name).name
    except KeyError as error:
        return type(error).__name__


def _shown_numbers(layout: Layout, content: bytes) -> list[int]:
    return [int(value) for *_, value in layout.annotate(content, 0)]
