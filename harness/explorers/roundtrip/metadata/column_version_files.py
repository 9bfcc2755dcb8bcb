"""Whether `_cv` is read as what docs/format.md says of its bytes, and rejected where it breaks one of its rules.

The files are made here, and which number and first row a column has in a partition is looked up a second time.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.metadata.read_files import Rejection, difference, image_of
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.table.column_versions import ColumnVersions, read_column_versions

PROPERTY = "`_cv` is read as what its bytes say, and rejected where it breaks a rule"
FILE, PATH = "_cv", "table/_cv"
HEADER, ENTRY = struct.Struct("<5q"), struct.Struct("<4q")
TITLE = "`_cv` header"
FIELDS = "VERSION", "A_OFFSET", "A_SIZE", "B_OFFSET", "B_SIZE"
OTHERS = -(1 << 63)
"""The time that stands for all partitions without an entry."""
DICTIONARY = OTHERS + 1
NO_NUMBER = -1
GAP_BYTES = 24
"""Between header and areas, where nothing counts."""
FILE_BYTES_MAX = 16 << 20
TIMES, COLUMNS, ROW_COUNTS = (-86_400_000_000, 0, 86_400_000_000, 172_800_000_000), (0, 1, 2, 5), (0, 1, 9)

Entry: TypeAlias = tuple[int, int, int, int]
"""The start of a partition, a column, the number behind the names of its files, and its first row or partition."""

ENTRIES: dict[str, tuple[Entry, ...]] = {
    "no entries": (),
    "columns that came later": tuple((OTHERS, column, column + 2, TIMES[column]) for column in (1, 2)),
    "a column that came within a partition": ((OTHERS, 1, 4, TIMES[1]), (TIMES[1], 1, 4, 5)),
    "columns that came before a partition": ((OTHERS, 1, 4, TIMES[1] - 1), (OTHERS, 2, 4, TIMES[1] + 1)),
    "another number in one partition": ((OTHERS, 2, 1, TIMES[0]), (TIMES[2], 2, 7, 0), (TIMES[3], 2, NO_NUMBER, 9)),
    "more first rows than rows, and less than none": ((TIMES[0], 1, 3, 100), (TIMES[1], 1, 3, -100)),
    "dictionaries": ((OTHERS, 1, 3, TIMES[0]), (OTHERS, 2, 5, TIMES[3]), (DICTIONARY, 1, 8, 0), (DICTIONARY, 5, 6, 9)),
    "columns in another order": ((OTHERS, 2, 5, TIMES[3]), (OTHERS, 1, 3, TIMES[0])),
    "partitions in another order": ((OTHERS, 1, 3, TIMES[0]), (TIMES[2], 1, 4, 0), (TIMES[1], 2, 4, 0)),
    "an entry that is there twice": ((OTHERS, 1, 3, TIMES[0]), (TIMES[1], 1, 4, 0), (TIMES[1], 1, 4, 0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnVersionFile:
    """A `_cv` with the numbers of its header, two areas, and the version of a committed record."""

    name: str
    version: int
    header: Sequence[int]
    content: bytes
    size_bytes: int | None = None

    @property
    def kind(self) -> str:
        """What is wrong with it, if anything."""
        expected = _judged(self)
        return expected[1] if isinstance(expected, tuple) else "sound"


@functools.cache
def column_version_files() -> tuple[ColumnVersionFile, ...]:
    """Return all files, always in the same order."""
    return (*_sound(), *_changed(), *_cut())


def problem_of(file: ColumnVersionFile) -> str | None:
    """Say what is wrong with how a file is read; None if nothing is."""
    image = image_of(PATH, file.content, file.size_bytes)
    return difference(lambda: _answers(read_column_versions(image, PATH, version=file.version)), FILE, _judged(file))


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that take another time for that of all partitions, or of dictionaries."""
    module = "tornproof.impl.table.column_versions"
    controls: Controls = (
        (
            "default entries are those of dictionaries",
            f"{module}:DEFAULT_PARTITION",
            DICTIONARY,
            "the number of column",
        ),
        ("dictionaries are not looked up", f"{module}:DICTIONARY", DICTIONARY + 1, "the number of dictionary"),
        ("files may have any size", f"{module}:CV_LIMIT_BYTES", FILE_BYTES_MAX + 1, "because of size"),
        ("files may have no size", f"{module}:CV_LIMIT_BYTES", 0, "it is rejected: "),
    )
    return not_noticed(controls, problem_of, column_version_files())


def _answers(versions: ColumnVersions) -> dict[str, Any]:
    """Return what is said of each column in each partition."""
    found: dict[str, Any] = {}
    for time, column in itertools.product(TIMES, COLUMNS):
        found[f"the number of column {column} at {time}"] = versions.name_txn(time, column)
        for row_count in ROW_COUNTS:
            found[f"the first of {row_count} rows of column {column} at {time}"] = versions.top(time, column, row_count)
    return found | {f"the number of dictionary {column}": versions.dictionary_name_txn(column) for column in COLUMNS}


def _judged(file: ColumnVersionFile) -> dict[str, Any] | Rejection:
    """Return what a file says, or how it must be rejected."""
    if (file.size_bytes or 0) > FILE_BYTES_MAX:
        return UnsupportedError, "size", None
    if len(file.content) < HEADER.size:
        return CorruptError, TITLE, 0
    version, *areas = HEADER.unpack_from(file.content)
    # It is committed before `_txn` is.
    if version not in (file.version, file.version + 1):
        return CorruptError, "VERSION", 0
    first = 2 * (file.version % 2)
    offset, size_bytes = areas[first : first + 2]
    if offset < 0 or size_bytes < 0 or size_bytes % ENTRY.size or offset + size_bytes > len(file.content):
        return CorruptError, FIELDS[first + 2], 8 * (first + 2)
    entries = [*ENTRY.iter_unpack(file.content[offset : offset + size_bytes])]

    for place, (before, after) in enumerate(itertools.pairwise(entries), 1):
        if before[:2] >= after[:2]:
            return CorruptError, "order of the entries", offset + place * ENTRY.size

    def of(time: int, column: int) -> tuple[int, int] | None:
        found = [(number, top) for start, index, number, top in entries if (start, index) == (time, column)]
        return found[0] if found else None

    said: dict[str, Any] = {}
    for time, column in itertools.product((*TIMES, DICTIONARY), COLUMNS):
        own, usual = of(time, column), of(OTHERS, column)
        number = own[0] if own else usual[0] if usual else NO_NUMBER
        if time == DICTIONARY:
            said[f"the number of dictionary {column}"] = number
            continue
        said[f"the number of column {column} at {time}"] = number
        for row_count in ROW_COUNTS:
            top = 0
            if own:
                top = sorted((0, own[1], row_count))[1]
            elif usual and time < usual[1]:
                top = row_count
            said[f"the first of {row_count} rows of column {column} at {time}"] = top
    return said


def _file(name: str, version: int, newest: int, entries: Sequence[Entry], others: Sequence[Entry]) -> ColumnVersionFile:
    """Return a file with the entries of a version, and others in the other area, which comes first in the file."""
    own, other = (b"".join(ENTRY.pack(*each) for each in rows) for rows in (entries, others))
    start = HEADER.size + GAP_BYTES
    slots = (start, len(other)), (start + len(other) + GAP_BYTES, len(own))
    in_order = slots if version % 2 else slots[::-1]
    header = (newest, *itertools.chain.from_iterable(in_order))
    content = HEADER.pack(*header) + b"\xfe" * GAP_BYTES + other + b"\xfd" * GAP_BYTES + own
    return ColumnVersionFile(name=name, version=version, header=header, content=content)


def _sound() -> Iterator[ColumnVersionFile]:
    """Yield files with each of the entries, in both areas, also with a commit that was not completed."""
    new = tuple((OTHERS, column, 99, TIMES[3]) for column in COLUMNS)
    for (words, entries), version, ahead in itertools.product(
        ENTRIES.items(), (0, 1, 6, 7, 1 << 40), (-2, -1, 0, 1, 2)
    ):
        name = f"{words} of version {version}, and {ahead} more"
        yield _file(name, version, version + ahead, entries, new)
    yield replace(_file("the largest file", 0, 0, (), new), size_bytes=FILE_BYTES_MAX)
    yield replace(_file("a larger file", 0, 0, (), new), size_bytes=FILE_BYTES_MAX + 1)


def _changed() -> Iterator[ColumnVersionFile]:
    """Yield files with other places and sizes in their header; those of the other area do not count."""
    for version in (6, 7):
        file = _file("", version, version, ENTRIES["dictionaries"], ENTRIES["no entries"])
        for place, field_name in enumerate(FIELDS):
            usual = file.header[place]
            near = {usual + step for step in (-ENTRY.size, -8, -1, 1, 8, ENTRY.size)}
            for number in sorted((near | {0, -1, -ENTRY.size, len(file.content), OTHERS, -OTHERS - 1}) - {usual}):
                numbers = (*file.header[:place], number, *file.header[place + 1 :])
                content = HEADER.pack(*numbers) + file.content[HEADER.size :]
                name = f"version {version}, {field_name} is {number}"
                yield replace(file, name=name, header=numbers, content=content)


def _cut() -> Iterator[ColumnVersionFile]:
    """Yield files that end earlier."""
    file = _file("", 6, 6, ENTRIES["dictionaries"], ENTRIES["no entries"])
    for size_bytes in (0, 1, HEADER.size - 1, HEADER.size, *range(HEADER.size + 1, len(file.content), 5)):
        yield replace(file, name=f"{size_bytes} bytes", content=file.content[:size_bytes])
