"""A small table as a server leaves it: indexed symbols, a partition in its native format, columns that came later.

Its files are written here by docs/format.md, so that they share no layout with the code that verifies them. Each case
changes one file: what breaks a rule of the format must be reported, what the format leaves free must not be.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of, rows_for
from tornproof.harness.explorers.corruption.crafted import GARBAGE, Case, crafted
from tornproof.harness.explorers.corruption.every_type import TYPES
from tornproof.harness.explorers.corruption.plan import Again, Kind
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag, tag_of

PATH = "served"
INDEXED, LATE, PLAIN, RENAMED = "indexed", "late", "plain", "renamed"
"""Symbols with an index, others that came while the second day was written, without an index; texts in other files."""
FIRST = {"time": "TIMESTAMP", **dict.fromkeys((INDEXED, LATE, PLAIN), "SYMBOL"), RENAMED: "VARCHAR"}
COLUMNS = FIRST | {f"c{number}": of for number, of in enumerate(TYPES) if of != "SYMBOL"}
ID = {name: number for number, name in enumerate(COLUMNS)}
DAY_MICROSECONDS = 86_400_000_000
FIRST_DAY = 19_723 * DAY_MICROSECONDS
ROW_COUNT = 24
OLDER_COUNT = 5
"""So many rows of the native partition are older than LATE."""
LATE_NAME, RENAMED_NAME = 3, 7
"""The numbers behind the names of their files."""
SUFFIXES = {LATE: f".{LATE_NAME}", RENAMED: f".{RENAMED_NAME}"}
SYMBOLS: Sequence[str | None] = ("one", "two", None, "three", "one", "one", "four", "two", "one")
NULL_SYMBOL = -(1 << 31)
VARCHAR_INLINED, VARCHAR_NULL, VARCHAR_INLINED_BYTES_MAX = 1, 4, 9
FAR = 1 << 20
ROWS_TRIED = 6
SMALLEST = -(1 << 63)
ROW_COUNT_BITS = 44
SIGNATURE, SEQUENCE = 250, 5
TXN, CV, NAME, META = "_txn", "_cv", "_name", "_meta"
COLUMN_HEADER_BYTES, COLUMN_BYTES, FLAGS_OFFSET_BYTES = 128, 32, 4
HEADER = struct.Struct("<Bqqiiiqq19x")
KEY = struct.Struct("<qqqq")
ENTRY = struct.Struct("<qqqq")
WORD = struct.Struct("<q")
SIZE = struct.Struct("<i")
VARCHAR = struct.Struct("<I6sHI")
ARRAY = struct.Struct("<qii")
WIDTHS_BYTES = {
    **dict.fromkeys(("BOOLEAN", "BYTE", "GEOBYTE", "DECIMAL8"), 1),
    **dict.fromkeys(("SHORT", "CHAR", "GEOSHORT", "DECIMAL16"), 2),
    **dict.fromkeys(("INT", "FLOAT", "SYMBOL", "GEOINT", "IPV4", "DECIMAL32"), 4),
    **dict.fromkeys(("LONG", "DATE", "TIMESTAMP", "DOUBLE", "GEOLONG", "DECIMAL64"), 8),
    **dict.fromkeys(("UUID", "LONG128", "DECIMAL128"), 16),
    **dict.fromkeys(("LONG256", "DECIMAL256"), 32),
}
"""Bytes of a value in `.d`, of the types whose values all have the same size."""


@dataclass(frozen=True, slots=True)
class Index:
    """The rows of each key, of which 0 is null; a writer may choose how many a block has, and how blocks lie."""

    rows: tuple[tuple[int, ...], ...]
    rows_in_block: int
    is_reversed: bool

    def files(self) -> tuple[bytes, bytes]:
        """Return the contents of `.k` and `.v`."""
        chains = [
            [rows[start : start + self.rows_in_block] for start in range(0, len(rows), self.rows_in_block)]
            for rows in self.rows
        ]
        places = [(key, number) for key, chain in enumerate(chains) for number in range(len(chain))]
        block_bytes = (self.rows_in_block + 2) * WORD.size
        order = places[::-1] if self.is_reversed else places
        at = {place: number * block_bytes for number, place in enumerate(order)}
        values = bytearray(len(places) * block_bytes)
        keys = bytearray(HEADER.size)
        for key, chain in enumerate(chains):
            for number, rows in enumerate(chain):
                links = (at.get((key, number - 1), 0), at.get((key, number + 1), 0))
                words = (*rows, *[0] * (self.rows_in_block - len(rows)), *links)
                struct.pack_into(f"<{len(words)}q", values, at[key, number], *words)
            ends = (at.get((key, 0), 0), at.get((key, len(chain) - 1), 0))
            keys += KEY.pack(len(self.rows[key]), *ends, len(self.rows[key]))
        last = max((row for rows in self.rows for row in rows), default=-1)
        header = (SIGNATURE, SEQUENCE, len(values), self.rows_in_block, len(self.rows), 0, SEQUENCE, last)
        HEADER.pack_into(keys, 0, *header)
        return bytes(keys), bytes(values)


@functools.cache
def served_image() -> DiskImage:
    """Return the table at PATH: of three days, the second is in the native format, and only it has all columns."""
    storage = MemoryStorage()
    table, wide = _created(storage, PATH, len(FIRST)), _created(storage, f"{PATH}/{PATH}", len(COLUMNS))
    days = [_rows(table, day) for day in range(3)]
    with open_writer_of_copy(storage, PATH) as writer:
        writer.write(pa.concat_tables(days))
        writer.commit()
    directories = [table.directory_of(partition) for partition in table.transaction().partitions]
    files = {path.removeprefix(f"{PATH}/"): content for path, content in storage.image().files.items()}
    files[META] = _with_flags(files[f"{PATH}/{META}"])
    files[TXN] = _with_native(files[TXN], FIRST_DAY + DAY_MICROSECONDS)
    files[CV] = _column_versions()
    for file in [file for file in files if file.startswith((f"{directories[1]}/", f"{PATH}/"))]:
        del files[file]
    for kind in "cokv":
        files[f"{LATE}.{kind}.{LATE_NAME}"] = files.pop(f"{LATE}.{kind}")
    symbols = {name: _symbols_in(files[f"{name}.c{_suffix(name)}"]) for name in (INDEXED, LATE, PLAIN)}
    rows = [*days[1].columns, *_rows(wide, 1).columns[len(FIRST) :]]
    for (name, of), values in zip(COLUMNS.items(), rows, strict=True):
        top = OLDER_COUNT if name == LATE else 0
        tag = tag_of(type_code(of) or 0)
        assert tag is not None
        for kind, content in _native(tag, values[top:], symbols.get(name, ())).items():
            files[f"{directories[1]}/{name}.{kind}{_suffix(name)}"] = content
    for day, directory in enumerate(directories):
        for name in (INDEXED, LATE)[: 1 + (day > 0)]:
            index = _index(days[day][name].to_pylist(), symbols[name], day)
            for kind, content in zip("kv", index.files(), strict=True):
                files[f"{directory}/{name}.{kind}{_suffix(name)}"] = content
    return DiskImage({f"{PATH}/{file}": content for file, content in files.items()}, storage.image().directories)


def _created(storage: MemoryStorage, path: str, column_count: int) -> Table:
    columns = [NewColumn(name=name, type=type_code(of) or 0) for name, of in COLUMNS.items()][:column_count]
    return create_table(storage, path, columns, timestamp=columns[0].name, partition_by=PartitionBy.DAY)


def _suffix(column: str) -> str:
    """Return what the names of a column's files end with."""
    return {LATE: f".{LATE_NAME}", RENAMED: f".{RENAMED_NAME}"}.get(column, "")


def _rows(table: Table, day: int) -> pa.Table:
    """Return the rows of a day; those before LATE came have no value there."""
    times = [FIRST_DAY + day * DAY_MICROSECONDS + row for row in range(ROW_COUNT)]
    rows = rows_for(table, times, seed=1 + day * ROW_COUNT)
    symbols = [SYMBOLS[(row * 2 + day) % len(SYMBOLS)] for row in range(ROW_COUNT)]
    older = (ROW_COUNT, OLDER_COUNT, 0)[day]
    for name, values in ((INDEXED, symbols), (LATE, [*[None] * older, *symbols[older:]]), (PLAIN, symbols)):
        of = rows.schema.field(ID[name])
        rows = rows.set_column(ID[name], of, array_of(values, of.type))
    return rows


def _symbols_in(dictionary: bytes) -> list[str]:
    """Return the symbols of a `.c`: the number of UTF-16 units before each."""
    found, at = list[str](), 0
    while at < len(dictionary) and (count := SIZE.unpack_from(dictionary, at)[0]):
        found.append(dictionary[at + SIZE.size :][: 2 * count].decode("utf-16-le"))
        at += SIZE.size + 2 * count
    return found


def _with_native(txn: bytes, timestamp: int) -> bytes:
    """Return a `_txn` in which the partition that begins at a time is not in Parquet."""
    at = txn.index(ENTRY.pack(timestamp, 0, 0, 0)[: WORD.size])
    _, row_count, name_txn, _ = ENTRY.unpack_from(txn, at)
    entry = ENTRY.pack(timestamp, row_count % (1 << ROW_COUNT_BITS), name_txn, -1)
    return txn[:at] + entry + txn[at + len(entry) :]


def _with_flags(meta: bytes) -> bytes:
    """Return a `_meta` whose columns INDEXED and LATE have an index."""
    made = bytearray(meta)
    for name in (INDEXED, LATE):
        made[COLUMN_HEADER_BYTES + ID[name] * COLUMN_BYTES + FLAGS_OFFSET_BYTES] |= 1
    return bytes(made)


def _column_versions() -> bytes:
    """Return `_cv`: since when there are the columns that came later, and which numbers the names of files have."""
    second, third = FIRST_DAY + DAY_MICROSECONDS, FIRST_DAY + 2 * DAY_MICROSECONDS
    entries = [(SMALLEST, ID[LATE], LATE_NAME, second), (second, ID[LATE], LATE_NAME, OLDER_COUNT)]
    entries.append((second, ID[RENAMED], RENAMED_NAME, 0))
    # The last day was converted before they came, so that it is without them, too.
    for column in range(len(FIRST), len(COLUMNS)):
        entries += [(SMALLEST, column, -1, second), (third, column, -1, ROW_COUNT)]
    area, start = b"".join(ENTRY.pack(*each) for each in entries), 8 * WORD.size
    return struct.pack("<qqqqq", 0, start, len(area), start + len(area), 0).ljust(start, b"\0") + area


def _index(values: Sequence[str | None], symbols: Sequence[str], day: int) -> Index:
    """Return the index of a day's rows; each day's has its own blocks, and the last one rows of no commit yet."""
    rows = [[row for row, value in enumerate(values) if value == of] for of in (None, *symbols)]
    if day == 1:
        rows[0] = [row for row in rows[0] if row >= OLDER_COUNT]
    if day == 2:
        rows[1] += [ROW_COUNT, ROW_COUNT + 2]
    return Index(tuple(map(tuple, rows)), rows_in_block=(1, 4, 2)[day], is_reversed=day == 1)


def _native(tag: TypeTag, column: pa.ChunkedArray, symbols: Sequence[str]) -> dict[str, bytes]:
    """Return the files of a column by their kind; nothing looks at values of one size, which are zeros, but keys."""
    if tag is not TypeTag.SYMBOL and tag.name in WIDTHS_BYTES:
        return {"d": bytes(WIDTHS_BYTES[tag.name] * len(column))}
    values: Sequence[Any] = column.to_pylist()
    if tag is TypeTag.SYMBOL:
        keys = [NULL_SYMBOL if value is None else symbols.index(value) for value in values]
        return {"d": struct.pack(f"<{len(keys)}i", *keys)}
    if tag is TypeTag.VARCHAR:
        return _varchars([None if value is None else value.encode() for value in values])
    if tag is TypeTag.ARRAY:
        return _arrays(values)
    stored = [_prefixed(value, is_text=tag is TypeTag.STRING) for value in values]
    ends = itertools.accumulate(map(len, stored), initial=0)
    return {"d": b"".join(stored), "i": b"".join(map(WORD.pack, ends))}


def _prefixed(value: str | bytes | None, *, is_text: bool) -> bytes:
    """Return a value behind its length, which is -1 for null: of texts in UTF-16 units."""
    length = SIZE if is_text else WORD
    if value is None:
        return length.pack(-1)
    content = value.encode("utf-16-le") if isinstance(value, str) else value
    return length.pack(len(content) // (2 if is_text else 1)) + content


def _varchars(values: Sequence[bytes | None]) -> dict[str, bytes]:
    positions, stored = bytearray(), bytearray()
    for value in values:
        at = len(stored)
        if value is None:
            positions += VARCHAR.pack(VARCHAR_NULL, b"", 0, 0)
        elif len(value) <= VARCHAR_INLINED_BYTES_MAX:
            positions += bytes([len(value) << 4 | VARCHAR_INLINED]) + value.ljust(VARCHAR_INLINED_BYTES_MAX, b"\0")
            positions += at.to_bytes(6, "little")
        else:
            positions += VARCHAR.pack(len(value) << 4, value[:6], at & 0xFFFF, at >> 16)
            stored += value
    return {"d": bytes(stored), "i": bytes(positions)}


def _arrays(values: Sequence[Any]) -> dict[str, bytes]:
    positions, stored = bytearray(), bytearray()
    for value in values:
        content = b"" if value is None else repr(value).encode()
        positions += ARRAY.pack(len(stored), len(content), 0)
        stored += content
    return {"d": bytes(stored), "i": bytes(positions)}


def served_files() -> dict[str, bytes]:
    """Return the content of the files that are changed, by their names in the table."""
    return {file: served_image().files[f"{PATH}/{file}"] for file in _cases()}


def served_damages(file: str) -> Iterator[Again]:
    """Yield the changes of a file."""
    return (Again(Kind.SERVED, each) for each in crafted(file, served_files()[file], _cases()[file]))


def _cases() -> dict[str, Iterator[Case]]:
    image = served_image()
    contents = {path.removeprefix(f"{PATH}/"): content for path, content in image.files.items()}
    found = {CV: _of_versions(contents[CV]), NAME: _of_name(contents[NAME])}
    days = sorted({file.partition("/")[0] for file in contents if "/" in file})
    for file, content in sorted(contents.items()):
        directory, _, name = file.rpartition("/")
        column, _, rest = name.partition(".")
        twin = contents.get(f"{directory}/{column}.{'kd'[rest[:1] == 'i']}{rest[1:]}".lstrip("/"), b"")
        match rest[:1]:
            case "k" if _is_tried(directory, column, days):
                found[file] = _of_keys(content)
            case "v" if _is_tried(directory, column, days):
                found[file] = _of_rows(twin, content, ROW_COUNT if directory else FAR)
            case "i":
                found[file] = _of_positions(COLUMNS[column], content, len(twin))
            case "d" if directory and not name.startswith("data."):
                found[file] = _of_values(column, content, f"{file.replace('.d', '.i', 1)}" in contents)
    return found


def _is_tried(directory: str, column: str, days: Sequence[str]) -> bool:
    """Whether an index is changed: that of a dictionary, and of each day one, which has blocks of its own."""
    return column == (LATE if directory == days[1] else INDEXED if directory else PLAIN)


def _with(content: bytes, offset_bytes: int, value: bytes) -> bytes:
    return content[:offset_bytes] + value + content[offset_bytes + len(value) :]


def _of_versions(content: bytes) -> Iterator[Case]:
    """Yield `_cv` of other versions, and with other positions of the area in use."""
    words = struct.unpack_from("<5q", content)
    for name, position, value, kind in (
        ("of two commits later", 0, 2, Kind.BROKEN),
        ("of the commit before", 0, -1, Kind.BROKEN),
        ("of the next commit", 0, 1, Kind.ALLOWED),
        ("whose entries begin before the file", 1, -8, Kind.BROKEN),
        ("whose entries end behind the file", 1, len(content), Kind.BROKEN),
        ("with a part of an entry", 2, words[2] - 8, Kind.BROKEN),
        ("with fewer entries than none", 2, -ENTRY.size, Kind.BROKEN),
        ("with another area that is not in use", 3, -1, Kind.ALLOWED),
    ):
        yield kind, name, _with(content, position * WORD.size, WORD.pack(value))
    yield Kind.ALLOWED, "with something behind it", content + GARBAGE
    yield Kind.BROKEN, "cut in its entries", content[: words[1] + ENTRY.size - 1]
    # There are so many rows in the files of a column that is there since this row.
    top = words[1] + ENTRY.size + 3 * WORD.size
    yield Kind.BROKEN, "with a column that came a row earlier", _with(content, top, WORD.pack(OLDER_COUNT - 1))


def _of_name(content: bytes) -> Iterator[Case]:
    for units in (0, -1, len(content)):
        yield Kind.BROKEN, f"a name of {units} units", SIZE.pack(units) + content[SIZE.size :]
    yield Kind.BROKEN, "a cut length", content[: SIZE.size - 1]
    yield Kind.ALLOWED, "something behind the name", content + GARBAGE


def _of_keys(content: bytes) -> Iterator[Case]:
    """Yield a `.k` whose header or keys contradict each other or `.v`, or with what nobody looks at."""
    signature, sequence, size_bytes, rows_in_block, key_count, unused, check, last = HEADER.unpack_from(content)
    header = (signature, sequence, size_bytes, rows_in_block, key_count, unused, check, last)
    for kind, name, position, value in (
        (Kind.BROKEN, "another signature", 0, signature - 1),
        (Kind.BROKEN, "a write that was not completed", 6, check + 1),
        (Kind.BROKEN, "a block less than there are", 2, size_bytes - 8),
        (Kind.BROKEN, "more bytes in use than there are", 2, FAR),
        (Kind.BROKEN, "less than no bytes in use", 2, -1),
        (Kind.BROKEN, "blocks without rows", 3, 0),
        (Kind.BROKEN, "blocks of fewer rows than none", 3, -1),
        (Kind.BROKEN, "larger blocks", 3, rows_in_block + 1),
        (Kind.BROKEN, "more keys than there are", 4, FAR),
        (Kind.BROKEN, "fewer keys than none", 4, -1),
        (Kind.ALLOWED, "bytes that nobody uses", 5, -1),
    ):
        yield kind, name, HEADER.pack(*header[:position], value, *header[position + 1 :]) + content[HEADER.size :]
    written = HEADER.pack(signature, sequence + 1, *header[2:6], check + 1, last)
    yield Kind.ALLOWED, "one more write", written + content[HEADER.size :]
    keys = [KEY.unpack_from(content, HEADER.size + key * KEY.size) for key in range(key_count)]
    used = [key for key, (count, *_) in enumerate(keys) if count]
    fewer = HEADER.pack(*header[:4], used[-1], *header[5:])
    yield Kind.BROKEN, "without the last key with rows", fewer + content[HEADER.size :]
    end = HEADER.size + key_count * KEY.size
    more = HEADER.pack(*header[:4], key_count + 1, *header[5:])
    yield Kind.ALLOWED, "one more key without rows", more + content[HEADER.size : end] + bytes(KEY.size)
    yield Kind.ALLOWED, "something behind the keys", content[:end] + GARBAGE
    yield Kind.BROKEN, "cut in the last key", content[: HEADER.size + (used[-1] + 1) * KEY.size - 1]
    yield Kind.BROKEN, "cut in the header", content[: HEADER.size - 1]
    block_bytes = (rows_in_block + 2) * WORD.size
    for key in _ends_of(used):
        count, first, last_block, _ = keys[key]
        for name, values in (
            ("a row less", (count - 1, first, last_block, count - 1)),
            ("a row more", (count + 1, first, last_block, count + 1)),
            ("a row less, of which the check does not know", (count - 1, first, last_block, count)),
            ("another check", (count, first, last_block, count + 1)),
            ("a first block in another one", (count, first + WORD.size, last_block, count)),
            ("a first block before the file", (count, -block_bytes, last_block, count)),
            ("a first block behind the file", (count, size_bytes, last_block, count)),
            ("a last block that is another one", (count, first, last_block + block_bytes, count)),
            ("fewer rows than none", (-1, first, last_block, -1)),
        ):
            made = _with(content, HEADER.size + key * KEY.size, KEY.pack(*values))
            yield Kind.BROKEN, f"key {key} has {name}", made
    for key in _ends_of([key for key, (count, *_) in enumerate(keys) if not count]):
        made = _with(content, HEADER.size + key * KEY.size, KEY.pack(0, -1, FAR, 0))
        yield Kind.ALLOWED, f"key {key} without rows has blocks", made


def _ends_of(found: Sequence[int]) -> Sequence[int]:
    """Return the first, the middle and the last."""
    return sorted({found[0], found[len(found) // 2], found[-1]}) if found else ()


def _of_rows(keys: bytes, content: bytes, row_count: int) -> Iterator[Case]:
    """Yield a `.v` with other rows or links, or with what nobody looks at; rows from `row_count` on do not count."""
    _, _, size_bytes, rows_in_block, key_count, *_ = HEADER.unpack_from(keys)
    yield Kind.ALLOWED, "something behind the blocks", content[:size_bytes] + GARBAGE
    yield Kind.BROKEN, "cut in the last block", content[: size_bytes - 1]
    counts = [KEY.unpack_from(keys, HEADER.size + key * KEY.size)[:2] for key in range(key_count)]
    for key in _ends_of([key for key, (count, _) in enumerate(counts) if count]):
        count, start = counts[key]
        is_first = True
        while count > 0:
            used, links = min(count, rows_in_block), start + rows_in_block * WORD.size
            count -= used
            yield from _of_block(content, start, used, row_count)
            if count == 0:
                made = _with(content, start + (used - 1) * WORD.size, WORD.pack(FAR))
                yield Kind.BROKEN, f"a row of no commit yet as the last one of key {key}", made
            if used < rows_in_block:
                made = _with(content, start + used * WORD.size, WORD.pack(-1))
                yield Kind.ALLOWED, f"an unused row in the block at {start}", made
            for is_end, at in ((is_first, links), (count == 0, links + WORD.size)):
                kind = Kind.ALLOWED if is_end else Kind.BROKEN
                yield kind, f"a link at {at} that leads elsewhere", _with(content, at, WORD.pack(FAR))
            start, is_first = WORD.unpack_from(content, links + WORD.size)[0], False


def _of_block(content: bytes, start: int, count: int, row_count: int) -> Iterator[Case]:
    rows = struct.unpack_from(f"<{count}q", content, start)
    inside = [number for number, row in enumerate(rows) if row < row_count]
    for number in inside:
        for wrong in (rows[number] - 1, rows[number] + 1):
            made = _with(content, start + number * WORD.size, WORD.pack(wrong))
            yield Kind.BROKEN, f"row {wrong} instead of {rows[number]} in the block at {start}", made
    if len(inside) > 1:
        made = _with(content, start, WORD.pack(rows[1]) + WORD.pack(rows[0]))
        yield Kind.BROKEN, f"rows {rows[1]} and {rows[0]} in this order", made


def _of_positions(type_name: str, content: bytes, data_bytes: int) -> Iterator[Case]:
    """Yield positions in `.d` that are outside of it, or before the ones before them."""
    yield Kind.BROKEN, "a byte less than the positions take", content[:-1]
    yield Kind.ALLOWED, "something behind the positions", content + GARBAGE
    if type_name in ("STRING", "BINARY"):
        ends = [each for (each,) in WORD.iter_unpack(content)]
        last = len(ends) - 1
        for number, wrong in (
            (last, data_bytes + 1),
            (last, ends[-2] - 1),
            (last // 2, ends[last // 2 - 1] - 1),
            (1, -1),
        ):
            yield Kind.BROKEN, f"end {number} is {wrong}", _with(content, number * WORD.size, WORD.pack(wrong))
        yield Kind.ALLOWED, "a longer first value", _with(content, WORD.size, WORD.pack(ends[2]))
        return
    for row in range(ROWS_TRIED):
        at = row * VARCHAR.size
        entry = _varchar_at(content, at) if type_name == "VARCHAR" else _array_at(content, at)
        start, size_bytes = entry.start, entry.size_bytes
        if entry.is_stored:
            for name, *values in (
                ("ends behind the file", data_bytes - size_bytes + 1, size_bytes),
                ("is too long", start, data_bytes - start + 1),
                ("begins behind the file", FAR << 20, size_bytes),
            ):
                yield Kind.BROKEN, f"row {row} {name}", _with(content, at, entry.packed(*values))
            made = _with(content, at, entry.packed(0, size_bytes))
            yield Kind.ALLOWED, f"row {row} is at the start of the file", made
        elif entry.is_null:
            made = _with(content, at, entry.packed(FAR << 20, size_bytes))
            yield Kind.ALLOWED, f"row {row} is null and has a position", made


class _Entry(NamedTuple):
    """Where a value is in `.d`, or that it is null or in the entry itself; `packed` makes one of a start and a size."""

    is_stored: bool
    is_null: bool
    start: int
    size_bytes: int
    packed: Callable[[int, int], bytes]


def _varchar_at(content: bytes, at: int) -> _Entry:
    head, prefix, low, high = VARCHAR.unpack_from(content, at)

    def packed(start: int, size_bytes: int) -> bytes:
        return VARCHAR.pack(size_bytes << 4 | head & 15, prefix, start & 0xFFFF, start >> 16)

    is_null = bool(head & VARCHAR_NULL)
    return _Entry(not is_null and not head & VARCHAR_INLINED, is_null, high << 16 | low, head >> 4, packed)


def _array_at(content: bytes, at: int) -> _Entry:
    start, size_bytes, rest = ARRAY.unpack_from(content, at)
    return _Entry(
        size_bytes != 0, size_bytes == 0, start, size_bytes, lambda start, size: ARRAY.pack(start, size, rest)
    )


def _of_values(column: str, content: bytes, has_positions: bool) -> Iterator[Case]:
    """Yield a `.d` of another size, and with other keys of symbols."""
    if content:
        yield Kind.BROKEN, "a byte less than the values take", content[:-1]
    if COLUMNS[column] != "SYMBOL":
        if has_positions:
            yield Kind.ALLOWED, "something behind the values", content + GARBAGE
        return
    is_indexed = column != PLAIN
    for at in (0, len(content) - SIZE.size):
        (key,) = SIZE.unpack_from(content, at)
        for name, wrong in (("that nobody knows", FAR), ("below none", -1), ("below none", NULL_SYMBOL + 1)):
            yield Kind.BROKEN, f"a key {name} at {at}", _with(content, at, SIZE.pack(wrong))
        other = NULL_SYMBOL if key != NULL_SYMBOL else 0
        # Of an indexed column, a lookup of either symbol would be wrong.
        yield (
            Kind.BROKEN if is_indexed else Kind.ALLOWED,
            f"another key at {at}",
            _with(content, at, SIZE.pack(other)),
        )
