"""Whether `_meta` is read as what docs/format.md says of its bytes, and rejected where it breaks one of its rules.

The files are made here, each of their fields is changed to others, and what they say is worked out a second time.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.roundtrip.metadata.read_files import Rejection, difference, image_of
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.table.metadata_file import TableMetadata, read_metadata_file

PROPERTY = "`_meta` is read as what its bytes say, and rejected where it breaks a rule"
FILE, PATH = "_meta", "table/_meta"
HEADER, COLUMN, LENGTH = struct.Struct("<6i2qBii79x"), struct.Struct("<iqii4xi4x"), struct.Struct("<i")
COUNT_AT, PARTITION_BY_AT, TIMESTAMP_AT, FORMAT_AT, VERSION_AT, WAL_AT, MINOR_FORMAT_AT = 0, 4, 8, 12, 32, 40, 41
TYPE_AT, FLAGS_AT, BLOCK_AT, CAPACITY_AT, REPLACING_AT = 0, 4, 12, 16, 24
FORMAT = 426
DAY, NO_INTERVAL, LAST_INTERVAL, VIEW = 0, 3, 5, 6
VERSION = 3
"""Of the metadata of a sound file."""
INDEXED, DEDUP_KEY = 0, 3
"""Bits of the flags."""
TIMESTAMP, SYMBOL, LONG, NANOSECONDS = 8, 12, 6, 1 << 18
USUAL_CAPACITY = 256
"""Of a column that has no symbols."""
COLUMNS_MANY = 1_800
"""So many that their checksum has more than 16 bits before it is folded."""
CHECKSUM_OF_ZERO = (1 << 16) - 1337
VERSIONS_MAX = 1 << 12
"""Of these, a version that was set back to 0 was one."""
COLUMN_COUNT_MAX, FILE_BYTES_MAX = 100_000, 16 << 20
HIGH, LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
"""A unit of the first must be before one of the second, and no other may be."""
LEAST, MOST = -(1 << 31), (1 << 31) - 1
FIRST_TAG, LAST_TAG = 1, 127


@dataclass(frozen=True, slots=True)
class Record:
    """A column as a file has it; a negative type says that it was dropped."""

    name: str
    type: int
    flags: int = 0
    replacing: int = 0
    capacity: int = 1 << 9


@dataclass(frozen=True, slots=True)
class MetaFile:
    """A `_meta`, which may be said to be longer than it is."""

    name: str
    content: bytes
    size_bytes: int | None = None

    @property
    def kind(self) -> str:
        """What is wrong with it, if anything."""
        expected = _judged(self)
        return "sound" if isinstance(expected, dict) else expected[1]


class _Sound(NamedTuple):
    name: str
    columns: tuple[Record, ...]
    content: bytes


MINOR_VERSIONS = (0, 1)
TABLES: dict[str, tuple[int, tuple[Record, ...]]] = {
    "a time first": (
        0,
        (
            Record("time", TIMESTAMP, 1 << DEDUP_KEY),
            Record("symbol", SYMBOL, 1 << INDEXED | 1 << DEDUP_KEY, capacity=64),
            Record("größe 🌡", LONG),
        ),
    ),
    "a time in nanoseconds": (1, (Record("a", LONG), Record("b", TIMESTAMP | NANOSECONDS), Record("c", TIMESTAMP))),
    "another column in nanoseconds": (2, (Record("a", TIMESTAMP | NANOSECONDS), Record("b", LONG), Record("c", 8))),
    "no time": (-1, (Record("a", TIMESTAMP | NANOSECONDS), Record("b", SYMBOL))),
    "columns that were dropped and added again": (
        1,
        (
            Record("a", -LONG),
            Record("time", TIMESTAMP),
            Record("a", -SYMBOL, 1 << INDEXED),
            Record("a", LONG),
            Record("b", -1),
        ),
    ),
    "columns whose types were changed": (
        0,
        (
            *(Record("time", TIMESTAMP), Record("a", -LONG), Record("b", LONG), Record("a", -5, replacing=2)),
            *(Record("c", -SYMBOL), Record("a", SYMBOL, replacing=4), Record("c", LONG, replacing=5)),
        ),
    ),
}
"""Which column is the designated timestamp, and the columns."""


@functools.cache
def meta_files() -> tuple[MetaFile, ...]:
    """Return all files, always in the same order."""
    sound = [_content(name, minor) for name, minor in itertools.product(TABLES, MINOR_VERSIONS)]
    return distinct((*(each for file in sound for each in (*_changed(file), *_cut(file))), *_large()))


def problem_of(file: MetaFile) -> str | None:
    """Say what is wrong with how a file is read; None if nothing is."""
    image = image_of(PATH, file.content, file.size_bytes)
    return difference(lambda: _facts(read_metadata_file(image, PATH)), FILE, _judged(file))


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that check neither header nor timestamp, and of a flag in another bit."""
    module = "tornproof.impl.table.metadata_file"
    controls: Controls = (
        ("every count is taken", f"{module}:_check_minor_format", lambda *_: None, "because of MINOR_FORMAT"),
        ("every timestamp is taken", f"{module}:_check_timestamp", lambda *_: None, "because of TIMESTAMP_INDEX"),
        ("every type is taken", f"{module}:_check_type", lambda *_: None, "because of TYPE"),
        ("every index is taken", f"{module}:_check_index", lambda *_: None, "because of FLAGS"),
        ("any column is replaced", f"{module}:_check_replaced", lambda *_: None, "because of REPLACING_INDEX"),
        ("every position is free", f"{module}:_check_free", lambda *_: None, "because of REPLACING_INDEX"),
        ("symbols have one capacity", f"{module}:SYMBOL_CAPACITY", USUAL_CAPACITY + 1, "columns is"),
        ("files may have any size", f"{module}:META_LIMIT_BYTES", FILE_BYTES_MAX + 1, "because of size"),
        ("tables may have any number of columns", f"{module}:COLUMN_COUNT_LIMIT", 1 << 20, "_meta: CODE_UNIT_COUNT of"),
        ("no table has columns", f"{module}:COLUMN_COUNT_LIMIT", 0, "it is rejected: "),
    )
    return not_noticed(controls, problem_of, meta_files())


def _facts(metadata: TableMetadata) -> dict[str, Any]:
    return {
        "columns": [
            (each.id, each.name, each.type, each.former_ids, each.is_dedup_key, each.is_indexed, each.symbol_capacity)
            for each in metadata.columns
        ],
        "the interval": int(metadata.partition_by),
        "the designated timestamp": metadata.timestamp_id,
        "the log": metadata.has_wal,
        "the unit": metadata.counts_nanoseconds,
    }


def _judged(file: MetaFile) -> dict[str, Any] | Rejection:
    """Return what a file says, or how it must be rejected."""
    content = file.content
    if (file.size_bytes or 0) > FILE_BYTES_MAX:
        return UnsupportedError, "size", None
    if len(content) < HEADER.size:
        return CorruptError, "`_meta` header", 0
    count, partition_by, timestamp = struct.unpack_from("<3i", content)
    if count < 1 or HEADER.size + count * (COLUMN.size + LENGTH.size) > len(content):
        return CorruptError, "COLUMN_COUNT", COUNT_AT
    if count > COLUMN_COUNT_MAX:
        return UnsupportedError, "COLUMN_COUNT", COUNT_AT
    if content[FORMAT_AT : FORMAT_AT + 4] != struct.pack("<i", FORMAT):
        return UnsupportedError, "FORMAT_VERSION", FORMAT_AT
    if not _is_count_right(content, count):
        return CorruptError, "MINOR_FORMAT", MINOR_FORMAT_AT
    if partition_by == VIEW:
        return UnsupportedError, "PARTITION_BY", PARTITION_BY_AT
    if not 0 <= partition_by <= LAST_INTERVAL:
        return CorruptError, "PARTITION_BY", PARTITION_BY_AT
    if not -1 <= timestamp < count or (timestamp < 0 and partition_by != NO_INTERVAL):
        return CorruptError, "TIMESTAMP_INDEX", TIMESTAMP_AT
    names = _names(content, count)
    if not isinstance(names, list):
        return names
    columns = _columns(content, names)
    if not isinstance(columns, list):
        return columns
    designated = [of for number, _, of, *_ in columns if number == timestamp]
    if timestamp >= 0 and [of & 0xFF for of in designated] != [TIMESTAMP]:
        return CorruptError, "TIMESTAMP_INDEX", TIMESTAMP_AT
    keys = [number for number, _, _, _, is_key, *_ in columns if is_key]
    if keys and timestamp not in keys:
        return CorruptError, f"FLAGS of column {keys[0]}", HEADER.size + keys[0] * COLUMN.size + FLAGS_AT
    return {
        "columns": columns,
        "the interval": partition_by,
        "the designated timestamp": timestamp,
        "the log": content[WAL_AT] != 0,
        "the unit": any(of & NANOSECONDS for of in designated),
    }


def checksum_of(content: bytes) -> int:
    """Return the checksum of the number of columns and the version of the metadata."""
    (count,), (low, high) = struct.unpack_from("<I", content), struct.unpack_from("<2I", content, VERSION_AT)
    first, second = divmod((37 * count + 13 * (low ^ high)) % (1 << 32), 1 << 16)
    return first ^ second or CHECKSUM_OF_ZERO


def _is_count_right(content: bytes, count: int) -> bool:
    """Whether the checksum fits; a version that was set back to 0 has that of another one, which is solved for."""
    checksum, minor = _minor_format(content)
    if not minor or checksum == checksum_of(content):
        return True
    if any(content[VERSION_AT:WAL_AT]):
        return False
    folded = [checksum, 0] if checksum == CHECKSUM_OF_ZERO else [checksum]
    sums = ((high << 16 | high ^ low) - 37 * count for high, low in itertools.product(range(1 << 7), folded))
    return any(of_version % 13 == 0 and 0 < of_version // 13 < VERSIONS_MAX for of_version in sums)


def _minor_format(content: bytes) -> tuple[int, int]:
    checksum, minor = struct.unpack_from("<2H", content, MINOR_FORMAT_AT)
    return checksum, minor


def _names(content: bytes, count: int) -> list[str] | Rejection:
    """Read the names, which lie behind all columns."""
    names, at = list[str](), HEADER.size + count * COLUMN.size
    for number in range(count):
        if at + LENGTH.size > len(content):
            return CorruptError, "`_meta` name length", at
        (unit_count,) = LENGTH.unpack_from(content, at)
        start, end = at + LENGTH.size, at + LENGTH.size + 2 * unit_count
        if unit_count < 1 or end > len(content):
            return CorruptError, f"CODE_UNIT_COUNT of column {number}", at
        units = struct.unpack_from(f"<{unit_count}H", content, start)
        for place, unit in enumerate(units):
            is_second = place > 0 and units[place - 1] in HIGH
            if (unit in LOW) != is_second:
                # Of two halves that do not belong together, the first one is named.
                return CorruptError, f"name of column {number}", start + 2 * (place - is_second)
        if units[-1] in HIGH:
            return CorruptError, f"name of column {number}", end - 2
        names.append(content[start:end].decode("utf-16-le"))
        at = end
    return names


def _columns(content: bytes, names: Sequence[str]) -> list[tuple[Any, ...]] | Rejection:
    """Read the columns that were not dropped; each stands where the first one of those that it replaced stood."""
    places, taken = list[int](), dict[int, tuple[Any, ...]]()
    replaced, dropped = list[tuple[int, ...]](), set[int]()
    for number, name in enumerate(names):
        at = HEADER.size + number * COLUMN.size
        of, flags, block, capacity, replacing = COLUMN.unpack_from(content, at)
        if not FIRST_TAG <= abs(of) % 256 <= LAST_TAG:
            return CorruptError, f"TYPE of column {number}", at + TYPE_AT
        is_symbol, is_indexed = abs(of) % 256 == SYMBOL, flags >> INDEXED & 1 == 1
        if is_indexed and not is_symbol:
            return CorruptError, f"FLAGS of column {number}", at + FLAGS_AT
        if is_indexed and block < 2:
            return CorruptError, f"INDEX_BLOCK_CAPACITY of column {number}", at + BLOCK_AT
        if replacing and replacing - 1 not in dropped:
            return CorruptError, f"REPLACING_INDEX of column {number}", at + REPLACING_AT
        places.append(places[replacing - 1] if replacing else number)
        replaced.append((replacing - 1, *replaced[replacing - 1]) if replacing else ())
        if of < 0:
            dropped.add(number)
            continue
        if places[number] in taken:
            return CorruptError, f"REPLACING_INDEX of column {number}", at + REPLACING_AT
        if name.lower() in [other.lower() for _, other, *_ in taken.values()]:
            return CorruptError, f"name of column {number}", None
        is_key = bool(flags >> DEDUP_KEY & 1)
        of_symbols = capacity if is_symbol else USUAL_CAPACITY
        taken[places[number]] = number, name, of, replaced[number], is_key, is_indexed, of_symbols
    return [taken[place] for place in sorted(taken)]


def _content(name: str, minor: int) -> _Sound:
    """Return a sound file of a minor version, of which the first has no checksum; what is behind belongs to nobody."""
    timestamp, columns = TABLES[name]
    interval, settings = DAY if timestamp >= 0 else NO_INTERVAL, (FORMAT, 7, 500_000, 600_000_000)
    found = HEADER.pack(len(columns), interval, timestamp, *settings, VERSION, 1, 0, 0)
    if minor:
        found = overwritten(found, MINOR_FORMAT_AT, struct.pack("<2H", checksum_of(found), minor))
    found += b"".join(COLUMN.pack(each.type, each.flags, 8, each.capacity, each.replacing) for each in columns)
    for each in columns:
        units = each.name.encode("utf-16-le")
        found += LENGTH.pack(len(units) // 2) + units
    return _Sound(f"{name}, minor version {minor}", columns, found + b"\xff" * 5)


def _changed(file: _Sound) -> Iterator[MetaFile]:
    """Yield a file as it is, and with each field changed to others."""
    name, columns, content = file
    yield MetaFile(name, content)

    def changed(words: str, at: int, number: int, form: str = "<i") -> MetaFile:
        return MetaFile(f"{name}, {words} is {number}", overwritten(content, at, struct.pack(form, number)))

    count = len(columns)
    for number in (-1, 0, 1, count - 1, count + 1, LEAST, MOST):
        yield changed("COLUMN_COUNT", COUNT_AT, number)
    for number in (-1, *range(VIEW + 2), MOST):
        yield changed("PARTITION_BY", PARTITION_BY_AT, number)
    for number in (-2, *range(-1, count + 1), LEAST):
        yield changed("TIMESTAMP_INDEX", TIMESTAMP_AT, number)
    for number in (0, FORMAT - 1, FORMAT + 1, FORMAT | 1 << 16, LEAST):
        yield changed("FORMAT_VERSION", FORMAT_AT, number)
    for number in (-1, VERSION - 1, VERSION + 1, VERSION + (1 << 16), _version_of_zero(count), 1 << 40, (1 << 63) - 1):
        other = changed("METADATA_VERSION", VERSION_AT, number, "<q")
        for said in (0, number % (1 << 16), checksum_of(other.content)):
            words, stored = f"{other.name}, and the checksum {said}", struct.pack("<H", said)
            yield MetaFile(words, overwritten(other.content, MINOR_FORMAT_AT, stored))
        yield other
    set_back = overwritten(content, VERSION_AT, bytes(8))
    for before in (1, 2, VERSIONS_MAX - 1, VERSIONS_MAX, _version_of_zero(count)):
        of_before = checksum_of(overwritten(content, VERSION_AT, struct.pack("<q", before)))
        stored = overwritten(set_back, MINOR_FORMAT_AT, struct.pack("<H", of_before))
        yield MetaFile(f"{name}, METADATA_VERSION was set back from {before}", stored)
    checksum, minor = _minor_format(content)
    for low, high in ((0, 0), (checksum, minor + 1), (checksum ^ 1, minor), (checksum ^ 1 << 15, minor), (checksum, 0)):
        yield changed("MINOR_FORMAT", MINOR_FORMAT_AT, high << 16 | low, "<I")
    for number in (0, 2, 255):
        yield changed("WAL_ENABLED", WAL_AT, number, "<B")
    for column in range(count):
        at, of = HEADER.size + column * COLUMN.size, columns[column].type
        # Of one with a flipped sign, another column is hidden or revived.
        flipped = of + (LEAST if of > 0 else -LEAST)
        others = {-TIMESTAMP, 0, TIMESTAMP, TIMESTAMP | NANOSECONDS, SYMBOL, LAST_TAG, LAST_TAG + 1, 255, 256}
        for number in sorted({LEAST, *others, -LAST_TAG, -LAST_TAG - 1, -of, flipped} - {of}):
            yield changed(f"TYPE of {column}", at + TYPE_AT, number)
        for bit in (0, 1, 2, 3, 4, 8, 63):
            yield changed(f"FLAGS of {column}", at + FLAGS_AT, columns[column].flags ^ 1 << bit, "<Q")
        for number in (-1, *range(count + 2), LEAST, MOST):
            yield changed(f"REPLACING_INDEX of {column}", at + REPLACING_AT, number)
        for number in (LEAST, -1, 0, 1, 2, MOST):
            yield changed(f"INDEX_BLOCK_CAPACITY of {column}", at + BLOCK_AT, number)
        for number in (-1, 0, 1, MOST):
            yield changed(f"SYMBOL_CAPACITY of {column}", at + CAPACITY_AT, number)
    at = HEADER.size + count * COLUMN.size
    for column in range(count):
        (units,) = LENGTH.unpack_from(content, at)
        room = (len(content) - at - LENGTH.size) // 2
        for number in sorted({LEAST, -1, 0, units - 1, units + 1, room, room + 1, MOST} - {units}):
            yield changed(f"CODE_UNIT_COUNT of {column}", at, number)
        for place in range(units):
            for number in (0, 0x41, 0x61, HIGH[0], HIGH[-1], LOW[0], LOW[-1], LOW[-1] + 1):
                yield changed(f"unit {place} of name {column}", at + LENGTH.size + 2 * place, number, "<H")
        at += LENGTH.size + 2 * units


def _version_of_zero(column_count: int) -> int:
    """Return a version with which both halves are equal, so that the checksum would be 0."""
    numbers = (37 * column_count + 13 * version for version in itertools.count(1))
    return next(version for version, number in enumerate(numbers, 1) if number >> 16 == number % (1 << 16))


def _cut(file: _Sound) -> Iterator[MetaFile]:
    """Yield a file that ends earlier: in its header, in a column, in and behind names."""
    name, _, content = file
    for size_bytes in (0, 1, 127, 128, 160, *range(164, len(content), 3)):
        yield MetaFile(f"{name}, {size_bytes} bytes", content[:size_bytes])


def _large() -> Iterator[MetaFile]:
    """Yield files of as many columns, and as large, as is allowed, and more."""
    content = _content("no time", 0).content
    for size_bytes in (FILE_BYTES_MAX, FILE_BYTES_MAX + 1):
        yield MetaFile(f"{size_bytes} bytes", content, size_bytes)
    many = b"".join(COLUMN.pack(LONG, 0, 8, 1 << 9, 0) for _ in range(COLUMNS_MANY))
    names = b"".join(LENGTH.pack(4) + f"{number:04}".encode("utf-16-le") for number in range(COLUMNS_MANY))
    header = overwritten(content[: HEADER.size], COUNT_AT, LENGTH.pack(COLUMNS_MANY))
    for said in (checksum_of(header), (37 * COLUMNS_MANY + 13 * VERSION) % (1 << 16)):
        stored = overwritten(header, MINOR_FORMAT_AT, struct.pack("<2H", said, 1))
        yield MetaFile(f"{COLUMNS_MANY} columns with the checksum {said}", stored + many + names)
    more = COLUMN_COUNT_MAX + 1
    yield MetaFile(f"{more} columns", overwritten(content, COUNT_AT, LENGTH.pack(more)).ljust(128 + 36 * more, b"\0"))
