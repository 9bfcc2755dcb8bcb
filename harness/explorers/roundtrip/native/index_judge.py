"""The index of symbols by docs/format.md, read field by field, and with each field and word changed to others."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.corruption.served import HEADER, KEY, SIGNATURE, WORD
from tornproof.harness.explorers.roundtrip.native.reported import Report

LEAST, MOST, MOST_INT = -(1 << 63), (1 << 63) - 1, (1 << 31) - 1
FILE_BYTES_MAX = 128 << 20
HEADER_FIELDS = {
    **{"SIGNATURE": (0, "B"), "SEQUENCE": (1, "q"), "VALUE_MEM_SIZE": (9, "q"), "BLOCK_VALUE_COUNT": (17, "i")},
    **{"KEY_COUNT": (21, "i"), "UNUSED": (25, "i"), "SEQUENCE_CHECK": (29, "q"), "MAX_VALUE": (37, "q")},
}
"""The fields of `.k`, by offset and form."""
KEY_FIELDS = {"VALUE_COUNT": 0, "FIRST_VALUE_BLOCK_OFFSET": 8, "LAST_VALUE_BLOCK_OFFSET": 16, "COUNT_CHECK": 24}

Row: TypeAlias = tuple[int, int, int]
"""A key, a row that has it, and where in `.v` that is said."""


class IndexJudge:
    """Looks at the files of an index, field by field."""

    def __init__(self, k: bytes, v: bytes, *, keys_file: str, values_file: str) -> None:
        """Take the contents of both files, and their names."""
        self.k, self.v, self.keys_file, self.values_file = k, v, keys_file, values_file
        self.key_count = self.block_rows = self.used_bytes = 0
        self.entries = list[tuple[int, int, int, int]]()

    def blocks(self) -> list[list[Row]] | Report:
        """Return the rows of each block by key, or what is wrong with the files."""
        found = list[list[Row]]()
        wrong = self._header() or self._counts()
        return wrong or next(filter(None, (self._chain(key, found) for key in range(self.key_count))), found)

    def _header(self) -> Report | None:
        """Return what is wrong with the header."""
        if len(self.k) < HEADER.size:
            sizes = [str(HEADER.size), str(len(self.k))]
            return self.keys_file, "Symbol index header", 0, sizes, [str(HEADER.size)]
        signature, sequence, used_bytes, block_rows, key_count, _, check, _ = HEADER.unpack_from(self.k)
        room = (len(self.k) - HEADER.size) // KEY.size
        rules: tuple[tuple[str, bool, list[object], int], ...] = (
            ("SIGNATURE", signature == SIGNATURE, [SIGNATURE], signature),
            ("SEQUENCE_CHECK", check == sequence, [sequence], check),
            ("KEY_COUNT", 0 <= key_count <= room, [0, room], key_count),
            ("BLOCK_VALUE_COUNT", block_rows >= 1, [1], block_rows),
            ("VALUE_MEM_SIZE", 0 <= used_bytes <= len(self.v), [0, len(self.v), self.values_file], used_bytes),
        )
        for name, is_right, words, actual in rules:
            if not is_right:
                return self.of_header(name, words, actual)
        self.key_count, self.block_rows, self.used_bytes = key_count, block_rows, used_bytes
        self.entries = [KEY.unpack_from(self.k, HEADER.size + KEY.size * key) for key in range(key_count)]
        return None

    def _counts(self) -> Report | None:
        """Return what is wrong with the numbers of rows."""
        room = self.used_bytes // WORD.size
        for key, (count, *_) in enumerate(self.entries):
            if count not in range(room + 1):
                return self.of_key(key, "VALUE_COUNT", [0, room], count)
        for key, (count, _, _, check) in enumerate(self.entries):
            if check != count:
                return self.of_key(key, "COUNT_CHECK", [count], check)
        block_count = sum(len(range(0, count, self.block_rows)) for count, *_ in self.entries)
        if block_count * self.block_bytes > self.used_bytes:
            return self.of_header("VALUE_MEM_SIZE", [block_count, self.block_bytes], self.used_bytes)
        return None

    def _chain(self, key: int, found: list[list[Row]]) -> Report | None:
        """Add the rows of each block of a key, or return what is wrong with the chain."""
        (count, at, last, _), before = self.entries[key], None
        while count > 0:
            block = range(at, at + self.block_bytes, WORD.size)
            if at < 0 or block.stop > self.used_bytes or at % self.block_bytes:
                words = [self.block_bytes, self.used_bytes]
                if before is None:
                    return self.of_key(key, "FIRST_VALUE_BLOCK_OFFSET", words, at)
                return self.of_value(f"next block of key {key}", before + self.block_bytes - WORD.size, words, at)
            *rows, previous, following = (WORD.unpack_from(self.v, place)[0] for place in block)
            if before not in (None, previous):
                return self.of_value(f"previous block of key {key}", block[-2], [before], previous)
            found.append([(key, row, place) for row, place in zip(rows[:count], block, strict=False)])
            count -= len(rows)
            at, before = following, at
        return self.of_key(key, "LAST_VALUE_BLOCK_OFFSET", [before], last) if before not in (None, last) else None

    @property
    def block_bytes(self) -> int:
        """The size of a block with its links."""
        return (self.block_rows + 2) * WORD.size

    def of_header(self, name: str, words: Sequence[object], actual: int) -> Report:
        """Return what is reported of a field of the header."""
        return self.keys_file, name, HEADER_FIELDS[name][0], [*map(str, words)], [str(actual)]

    def of_key(self, key: int, name: str, words: Sequence[object], actual: int) -> Report:
        """Return what is reported of a field of a key."""
        place = HEADER.size + KEY.size * key + KEY_FIELDS[name]
        return self.keys_file, f"{name} of key {key}", place, [*map(str, words)], [str(actual)]

    def of_value(self, name: str, place: int, words: Sequence[object], *actual: object) -> Report:
        """Return what is reported of a word of `.v`."""
        return self.values_file, name, place, [*map(str, words)], [*map(str, actual)]


def changed_indexes(files: Mapping[str, bytes], kinds: Sequence[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield files of which one field or word is another, or some bytes are not there; `kinds` are `.k` and `.v`."""
    k, v = kinds
    _, _, used_bytes, block_rows, key_count, *_ = HEADER.unpack_from(files[k])
    steps = (-(block_rows + 2) * WORD.size, -8, -1, 1, 8, (block_rows + 2) * WORD.size)
    places = [(k, at, form, name) for name, (at, form) in HEADER_FIELDS.items()]
    for key in range(key_count):
        at = HEADER.size + KEY.size * key
        places += [(k, at + offset, "q", f"{name} of key {key}") for name, offset in KEY_FIELDS.items()]
        places.append((k, at, "q", f"both counts of key {key}"))
    places += [(v, at, "q", f"the word at {at}") for at in range(0, len(files[v]), WORD.size)]
    for file, at, form, words in places:
        (usual,) = struct.unpack_from(f"<{form}", files[file], at)
        rooms = range(used_bytes // WORD.size, used_bytes // WORD.size + 2) if words.startswith("both") else ()
        for value in (*_values(form, usual, steps), *rooms):
            packed = struct.pack(f"<{form}", value)
            content = overwritten(files[file], at, packed)
            if words.startswith("both"):
                content = overwritten(content, at + KEY_FIELDS["COUNT_CHECK"], packed)
            yield f"{value} as {words}", {**files, file: content}
    for file in kinds:
        content = files[file]
        for size_bytes in sorted({0, 1, 63, 64, 65, 95, 96, *(max(0, len(content) + step) for step in steps[:3])}):
            yield f"{size_bytes} bytes of {file}", {**files, file: content[:size_bytes]}


def _values(form: str, usual: int, steps: Sequence[int]) -> list[int]:
    """Return other values of a field."""
    if form == "B":
        return [0, usual - 1, usual + 1]
    extremes = (-1, 0, 1, -MOST_INT - 1, MOST_INT) if form == "i" else (-1, 0, 1, LEAST, MOST, 1 << 32, -(1 << 32))
    return sorted({*extremes, *(usual + step for step in steps)} - {usual})
