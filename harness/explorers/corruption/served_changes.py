"""Changes of one file of a server's table: what breaks a rule must be reported, what is left free must not be."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tornproof.harness.explorers.corruption.crafted import GARBAGE, Case, crafted, overwritten
from tornproof.harness.explorers.corruption.plan import Again, Kind
from tornproof.harness.explorers.corruption.served import (
    ARRAY,
    COLUMNS,
    CV,
    ENTRY,
    FIRST_ROW,
    HEADER,
    INDEXED,
    KEY,
    LATE,
    NAME,
    NULL_SYMBOL,
    OLDER_COUNT,
    PATH,
    PLAIN,
    ROW_COUNT,
    SIZE,
    VARCHAR,
    VARCHAR_INLINED,
    VARCHAR_NULL,
    WORD,
    served_image,
)

FAR = 1 << 20
ROWS_TRIED = 6


def served_files() -> dict[str, bytes]:
    """Return the content of the files that are changed, by their names in the table."""
    return {file: served_image().files[f"{PATH}/{file}"] for file in _cases()}


def served_damages(file: str) -> Iterator[Again]:
    """Yield the changes of a file."""
    return (Again(Kind.SERVED, each) for each in crafted(file, served_image().files[f"{PATH}/{file}"], _cases()[file]))


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
    """Whether an index is changed: that of the first dictionary, and of each day one, which has blocks of its own."""
    return column == (LATE if directory == days[1] else INDEXED)


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
        yield kind, name, overwritten(content, position * WORD.size, WORD.pack(value))
    yield Kind.ALLOWED, "with something behind it", content + GARBAGE
    entries = content[words[1] : words[1] + words[2]]
    turned = entries[ENTRY.size : 2 * ENTRY.size] + entries[: ENTRY.size]
    yield Kind.BROKEN, "with two entries in another order", overwritten(content, words[1], turned)
    yield Kind.BROKEN, "cut in its entries", content[: words[1] + ENTRY.size - 1]
    # There are so many rows in the files of a column that is there since this row.
    top = content.index(ENTRY.pack(*FIRST_ROW)) + 3 * WORD.size
    yield Kind.BROKEN, "with a column that came a row earlier", overwritten(content, top, WORD.pack(OLDER_COUNT - 1))


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
            made = overwritten(content, HEADER.size + key * KEY.size, KEY.pack(*values))
            yield Kind.BROKEN, f"key {key} has {name}", made
    for key in _ends_of([key for key, (count, *_) in enumerate(keys) if not count]):
        made = overwritten(content, HEADER.size + key * KEY.size, KEY.pack(0, -1, FAR, 0))
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
                made = overwritten(content, start + (used - 1) * WORD.size, WORD.pack(FAR))
                yield Kind.BROKEN, f"a row of no commit yet as the last one of key {key}", made
            if used < rows_in_block:
                made = overwritten(content, start + used * WORD.size, WORD.pack(-1))
                yield Kind.ALLOWED, f"an unused row in the block at {start}", made
            for is_end, at in ((is_first, links), (count == 0, links + WORD.size)):
                kind = Kind.ALLOWED if is_end else Kind.BROKEN
                yield kind, f"a link at {at} that leads elsewhere", overwritten(content, at, WORD.pack(FAR))
            start, is_first = WORD.unpack_from(content, links + WORD.size)[0], False


def _of_block(content: bytes, start: int, count: int, row_count: int) -> Iterator[Case]:
    rows = struct.unpack_from(f"<{count}q", content, start)
    inside = [number for number, row in enumerate(rows) if row < row_count]
    for number in inside:
        for wrong in (rows[number] - 1, rows[number] + 1):
            made = overwritten(content, start + number * WORD.size, WORD.pack(wrong))
            yield Kind.BROKEN, f"row {wrong} instead of {rows[number]} in the block at {start}", made
    if len(inside) > 1:
        made = overwritten(content, start, WORD.pack(rows[1]) + WORD.pack(rows[0]))
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
            yield Kind.BROKEN, f"end {number} is {wrong}", overwritten(content, number * WORD.size, WORD.pack(wrong))
        yield Kind.ALLOWED, "a longer first value", overwritten(content, WORD.size, WORD.pack(ends[2]))
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
                yield Kind.BROKEN, f"row {row} {name}", overwritten(content, at, entry.packed(*values))
            made = overwritten(content, at, entry.packed(0, size_bytes))
            yield Kind.ALLOWED, f"row {row} is at the start of the file", made
        elif entry.is_null:
            made = overwritten(content, at, entry.packed(FAR << 20, size_bytes))
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
            yield Kind.BROKEN, f"a key {name} at {at}", overwritten(content, at, SIZE.pack(wrong))
        other = NULL_SYMBOL if key != NULL_SYMBOL else 0
        # Of an indexed column, a lookup of either symbol would be wrong.
        yield (
            Kind.BROKEN if is_indexed else Kind.ALLOWED,
            f"another key at {at}",
            overwritten(content, at, SIZE.pack(other)),
        )
