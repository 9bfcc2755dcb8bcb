"""A small table as a server leaves it: indexed symbols, a partition in its native format, columns that came later.

Its files are written here by docs/format.md, so that they share no layout with the code that verifies them.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of, rows_for
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.corruption.every_type import TYPES
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
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
ROW_COUNT = 24
OLDER_COUNT = 5
"""So many rows of the native partition are older than LATE."""
LATE_NAME, RENAMED_NAME = 3, 7
"""The numbers behind the names of their files."""
SYMBOLS: Sequence[str | None] = ("one", "two", None, "three", "one", "one", "four", "two", "one")
NULL_SYMBOL = -(1 << 31)
VARCHAR_INLINED, VARCHAR_NULL, VARCHAR_INLINED_BYTES_MAX = 1, 4, 9
SMALLEST = -(1 << 63)
FIRST_ROW = (FIRST_TIME + DAY_MICROSECONDS, ID[LATE], LATE_NAME, OLDER_COUNT)
"""The entry of `_cv` that says since which row of the second day a column is there."""
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
    files[TXN] = _with_native(files[TXN], FIRST_TIME + DAY_MICROSECONDS)
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
    return new_table(storage, path, dict(itertools.islice(COLUMNS.items(), column_count)))


def _suffix(column: str) -> str:
    """Return what the names of a column's files end with."""
    return {LATE: f".{LATE_NAME}", RENAMED: f".{RENAMED_NAME}"}.get(column, "")


def _rows(table: Table, day: int) -> pa.Table:
    """Return the rows of a day; those before LATE came have no value there."""
    times = [FIRST_TIME + day * DAY_MICROSECONDS + row for row in range(ROW_COUNT)]
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
    at = txn.index(WORD.pack(timestamp))
    _, row_count, name_txn, _ = ENTRY.unpack_from(txn, at)
    return overwritten(txn, at, ENTRY.pack(timestamp, row_count % (1 << ROW_COUNT_BITS), name_txn, -1))


def _with_flags(meta: bytes) -> bytes:
    """Return a `_meta` whose columns INDEXED and LATE have an index."""
    made = bytearray(meta)
    for name in (INDEXED, LATE):
        made[COLUMN_HEADER_BYTES + ID[name] * COLUMN_BYTES + FLAGS_OFFSET_BYTES] |= 1
    return bytes(made)


def _column_versions() -> bytes:
    """Return `_cv`: since when there are the columns that came later, and which numbers the names of files have."""
    second, third = FIRST_TIME + DAY_MICROSECONDS, FIRST_TIME + 2 * DAY_MICROSECONDS
    entries = [(SMALLEST, ID[LATE], LATE_NAME, second), FIRST_ROW]
    entries.append((second, ID[RENAMED], RENAMED_NAME, 0))
    # The last day was converted before they came, so that it is without them, too.
    for column in range(len(FIRST), len(COLUMNS)):
        entries += [(SMALLEST, column, -1, second), (third, column, -1, ROW_COUNT)]
    area, start = b"".join(ENTRY.pack(*each) for each in sorted(entries)), 8 * WORD.size
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
    """Return the files of a column by their kind; nothing looks at values of one size but keys and times: zeros."""
    if tag is TypeTag.TIMESTAMP:
        times = column.cast(pa.int64()).fill_null(SMALLEST).to_pylist()
        return {"d": struct.pack(f"<{len(times)}q", *times)}
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
