"""Whether `verify` says of the column files of a native partition what docs/format.md does, and of nothing else.

The files are made here, of every type, with rows of any size, and with each position and key changed to others. What is
wrong with them is worked out here a second time, row by row.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.explorers.corruption.served import SMALLEST, WIDTHS_BYTES
from tornproof.harness.explorers.roundtrip.metadata.usual_records import partition_of
from tornproof.harness.explorers.roundtrip.native.reported import (
    NOT_LOOKED_AT,
    REFUSED,
    FalteringImage,
    Report,
    report_of,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import Problem, StorageError
from tornproof.impl.layout.cv import ColumnVersion
from tornproof.impl.table.column_versions import ColumnVersions
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.indexes import NotComparedError
from tornproof.impl.verify.native import PIECE_BYTES, check_native_columns, native_keys

PROPERTY = "what is wrong with the files of a native partition is reported, row by row, and nothing else"
DIRECTORY, PATH, TXN = "2024-05-02", "table/2024-05-02", "table/_txn"
TIMESTAMP = 1_714_608_000_000_000
NAME, ID = "c", 3
TAGS = {
    **{"BOOLEAN": 1, "BYTE": 2, "SHORT": 3, "CHAR": 4, "INT": 5, "LONG": 6, "DATE": 7, "TIMESTAMP": 8, "FLOAT": 9},
    **{"DOUBLE": 10, "STRING": 11, "SYMBOL": 12, "LONG256": 13, "GEOBYTE": 14, "GEOSHORT": 15, "GEOINT": 16},
    **{"GEOLONG": 17, "BINARY": 18, "UUID": 19, "LONG128": 24, "IPV4": 25, "VARCHAR": 26, "ARRAY": 27, "DECIMAL8": 28},
    **{"DECIMAL16": 29, "DECIMAL32": 30, "DECIMAL64": 31, "DECIMAL128": 32, "DECIMAL256": 33},
}
UNKNOWN = (0, 20, 21, 22, 23, 34, 255)
STRING, SYMBOL, BINARY, VARCHAR, ARRAY = (TAGS[of] for of in ("STRING", "SYMBOL", "BINARY", "VARCHAR", "ARRAY"))
NULL_KEY = -(1 << 31)
NOT_STORED = (1, 4)
"""The bits of a text that is in its position, and of none."""
OFFSET_BYTES = 6
CONTENT_BYTES_MAX = 64 << 30
FEW_BYTES = 16
"""So many at a time are read, too, so that there are several pieces of few rows."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeColumns:
    """A partition with its files, and the `entries` of `_cv`; what is below it if it `is_there`, else in its place.

    `symbols` is None if the dictionary cannot be read; `sizes_bytes` are what files say, and `refused` cannot be read.
    """

    name: str
    tags: tuple[int, ...]
    row_count: int
    files: Mapping[str, bytes]
    entries: tuple[tuple[int, int, int, int], ...] = ()
    symbols: int | None = 3
    names: tuple[str, ...] = (NAME, "e", "f")
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    is_sound: bool | None = None
    is_there: bool = True

    @property
    def kind(self) -> str:
        """The types, and whether it is known to be sound."""
        return f"{self.tags} {'sound' if self.is_sound else 'changed'}"

    @property
    def image(self) -> DiskImage:
        """The files."""
        if not self.is_there:
            return DiskImage.of_files({PATH + file: content for file, content in self.files.items()})
        return partition_image(self.files, self.refused, self.sizes_bytes)

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns, whose numbers ascend by 2."""
        return tuple(
            TableColumn(id=ID + 2 * number, name=name, type=tag | 5 << 8)
            for number, (tag, name) in enumerate(zip(self.tags, self.names, strict=False))
        )

    @property
    def versions(self) -> ColumnVersions:
        """What `_cv` says."""
        return column_versions(self.entries)


@functools.cache
def native_columns() -> tuple[NativeColumns, ...]:
    """Return all partitions, always in the same order."""
    return distinct((*_sized(), *_of_symbols(), *_of_offsets(), *_of_texts(), *_of_arrays(), *_of_versions(), *_odd()))


def _sized() -> Iterator[NativeColumns]:
    """Yield columns of every type with files of other sizes, or without."""
    for of, tag in TAGS.items():
        for rows, top in ((1, 0), (3, 0), (9, 2)):
            entries = ((TIMESTAMP, ID, -1, top),) if top else ()
            files = _files(tag, rows - top)
            sound = NativeColumns(
                name=f"{rows} rows of {of}, {top} older", tags=(tag,), row_count=rows, files=files, entries=entries
            )
            yield replace(sound, is_sound=True)
            for file, content in files.items():
                for size_bytes in (0, 1, len(content) - 1, len(content) + 1, len(content) + 40):
                    other = content.ljust(size_bytes, b"\xab")[:size_bytes]
                    words = f"{sound.name}, {size_bytes} bytes in {file}"
                    yield replace(sound, name=words, files={**files, file: other})
                others = {each: files[each] for each in files if each != file}
                for number, instead in enumerate(({}, {f"{file}.7": content}, {f"{file}/x": b""}, {f"{file}x.d": b""})):
                    words = f"{sound.name}, without {file} ({number})"
                    yield replace(sound, name=words, files={**others, **instead})
        yield replace(sound, name=f"{rows} rows of {of}, and no file", files={f"x{NAME}.d": b"", "d": b""})
    for tag in UNKNOWN:
        yield NativeColumns(name=f"the type {tag}", tags=(tag,), row_count=2, files={f"{NAME}.d": bytes(80)})


def _files(tag: int, row_count: int) -> dict[str, bytes]:
    """Return sound files of so many rows."""
    name = next(each for each in TAGS if TAGS[each] == tag)
    if name in WIDTHS_BYTES:
        return {f"{NAME}.d": bytes(WIDTHS_BYTES[name] * row_count)}
    data = bytes(10 * row_count)
    if tag == VARCHAR:
        positions = b"".join(_text(10 * row, 10) for row in range(row_count))
    elif tag == ARRAY:
        positions = b"".join(_array(10 * row, 10) for row in range(row_count))
    else:
        positions = b"".join(struct.pack("<q", 10 * row) for row in range(row_count + 1))
    return {f"{NAME}.d": data, f"{NAME}.i": positions}


def _text(start: int, size: int, flags: int = 2) -> bytes:
    """Return the position of a text; the six bytes before its start are its first ones."""
    return struct.pack("<I", size << 4 | flags) + b"\xfe" * 6 + start.to_bytes(OFFSET_BYTES, "little")


def _array(start: int, size: int) -> bytes:
    """Return the position of an array, with other bits beside start and size."""
    return start.to_bytes(OFFSET_BYTES, "little") + b"\xcd\xab" + struct.pack("<iI", size, 0x8000_0001)


def _of_symbols() -> Iterator[NativeColumns]:
    """Yield keys that are those of symbols, or not, in each row."""
    for rows, top in ((1, 0), (6, 0), (7, 2)):
        for symbols in (None, 0, 1, 3):
            usual = [(row % (symbols or 3)) if symbols else NULL_KEY for row in range(rows - top)]
            for row, _ in enumerate(usual):
                for key in (0, 1, (symbols or 3) - 1, symbols or 3, -1, -2, NULL_KEY, NULL_KEY + 1, -NULL_KEY - 1):
                    keys = [*usual[:row], key, *usual[row + 1 :]]
                    # The last one is of a commit that was not completed.
                    content = struct.pack(f"<{len(keys) + 1}i", *keys, -7)
                    yield NativeColumns(
                        name=f"{rows} keys of {symbols} symbols, {top} older, {key} at {row}",
                        tags=(SYMBOL,),
                        row_count=rows,
                        entries=((TIMESTAMP, ID, -1, top),),
                        files={f"{NAME}.d": content},
                        symbols=symbols,
                    )


def _of_positions(
    tag: int, rows: int, usual: Sequence[bytes], others: Mapping[str, Sequence[bytes]], data_bytes: int
) -> Iterator[NativeColumns]:
    """Yield partitions with each of the other positions instead of each usual one."""
    for at in range(len(usual)):
        for words, positions in others.items():
            for number, position in enumerate(positions):
                top = 5 * (number % 2)
                made = [*usual[:at], position, *usual[at + 1 :]]
                yield NativeColumns(
                    name=f"{rows} positions of type {tag}, {words} at {at} ({number})",
                    tags=(tag,),
                    row_count=rows + top,
                    entries=((TIMESTAMP, ID, -1, top),),
                    files={f"{NAME}.d": bytes(data_bytes), f"{NAME}.i": b"".join(made) + b"\xff" * 9},
                )


def _of_offsets() -> Iterator[NativeColumns]:
    """Yield offsets of texts and bytes, up to and beyond those before and behind, and the end."""
    for tag in (STRING, BINARY):
        for rows in (1, 2, 4):
            last = 6 * rows
            usual = [struct.pack("<q", 6 * row) for row in range(rows + 1)]
            numbers = {*range(-2, last + 3), 1 << 31, 1 << 32, LEAST, LEAST + 1, MOST}
            others = {str(number): [struct.pack("<q", number)] for number in sorted(numbers)}
            yield from _of_positions(tag, rows, usual, others, last)
            yield from _of_positions(tag, rows, usual, {"the same": [usual[0]]}, last + 3)


def _of_texts() -> Iterator[NativeColumns]:
    """Yield positions of texts that are in them, elsewhere, or beyond the end."""
    data_bytes = (1 << 16) + 30
    starts = (0, 1, data_bytes - 20, data_bytes - 19, data_bytes, data_bytes + 1, 1 << 32, 1 << 47, (1 << 48) - 1)
    sizes = (0, 1, 19, 20, 21, data_bytes, data_bytes + 1, (1 << 28) - 1)
    others = {
        f"{size} bytes, flags {flags}": [_text(start, size, flags) for start in starts]
        for size in sizes
        for flags in ((0, 1, 2, 4, 8, 15) if size == 20 else (10,))
    }
    yield from _of_positions(VARCHAR, 3, [_text(16 * row, 16) for row in range(3)], others, data_bytes)
    none = {f"{size} bytes, flags {flags}": [_text(0, size, flags)] for size in (0, 1, 9) for flags in (0, 1, 3, 4)}
    yield from _of_positions(VARCHAR, 2, [_text(0, 9, 1), _text(0, 0, 4)], none, 0)


def _of_arrays() -> Iterator[NativeColumns]:
    """Yield positions of arrays within the data, beyond, and of less than nothing."""
    data_bytes = 300
    starts = (0, 1, data_bytes - 20, data_bytes - 19, data_bytes, data_bytes + 1, 1 << 32, (1 << 48) - 1)
    sizes = (0, 1, 20, 21, data_bytes, data_bytes + 1, -1, (1 << 31) - 1, -(1 << 31))
    others = {f"{size} bytes": [_array(start, size) for start in starts] for size in sizes}
    yield from _of_positions(ARRAY, 3, [_array(16 * row, 16) for row in range(3)], others, data_bytes)
    yield from _of_positions(ARRAY, 2, [_array(0, 0)] * 2, {"none": [_array(0, 0), _array(5, 0), _array(0, 1)]}, 0)


def _of_versions() -> Iterator[NativeColumns]:
    """Yield columns that came later or not, whose files have a number or not."""
    rows = 4
    for tag in (TAGS["LONG"], SYMBOL, STRING):
        for number in (-1, 0, 9):
            for entries in (
                *((each,) for top in (-5, 0, 1, rows - 1, rows, 1 << 62) for each in [(TIMESTAMP, ID, number, top)]),
                *(((SMALLEST, ID, number, TIMESTAMP + since),) for since in (-1, 0, 1)),
                ((SMALLEST, ID, 8, TIMESTAMP + 1), (TIMESTAMP, ID, number, 1)),
                ((TIMESTAMP, ID + 1, number, 1), (TIMESTAMP + 1, ID, number, 1), (SMALLEST + 1, ID, number, 1)),
            ):
                for stored in (rows, rows - 1, 1, 0):
                    for suffix in ("", f".{number}"):
                        yield NativeColumns(
                            name=f"{stored} stored values of type {tag}, by {entries}, in {suffix or 'usual'} files",
                            tags=(tag,),
                            row_count=rows,
                            entries=entries,
                            files={f"{file}{suffix}": content for file, content in _files(tag, stored).items()},
                        )


def _odd() -> Iterator[NativeColumns]:
    """Yield partitions without a directory, with several columns, and with files that are huge or cannot be read."""
    for rows in (1, 2):
        for words, files in (("nothing", {}), ("a file", {"": b"?"})):
            yield NativeColumns(
                name=f"{words} instead of the directory of {rows} rows",
                tags=(SYMBOL, STRING),
                row_count=rows,
                files=files,
                is_there=False,
            )
    several = (TAGS["INT"], 255, VARCHAR)
    yield NativeColumns(name="several columns, and no file", tags=several, row_count=2, files={})
    yield NativeColumns(
        name="several columns, of which the first and the last are wrong",
        tags=several,
        row_count=2,
        files={f"{NAME}.d": bytes(7), "f.d": bytes(15), "f.i": _text(0, 15) + _text(0, 16)},
    )
    yield NativeColumns(
        name="several columns, of which the first is newer than all rows",
        tags=several,
        row_count=2,
        files={},
        entries=((TIMESTAMP, ID, -1, 2),),
    )
    yield NativeColumns(name="a column in a directory", tags=(SYMBOL,), row_count=1, files={}, names=("a/b",))
    for tag in (SYMBOL, STRING, VARCHAR):
        files = _files(tag, 3)
        sound = NativeColumns(name="", tags=(tag,), row_count=3, files=files)
        for file in ("", *files):
            yield replace(sound, name=f"{file or 'a directory'} of type {tag} that is refused", refused=(file,))
        last = [*files][-1]
        cut = {**files, last: files[last][:-1]}
        sizes = {last: len(files[last])}
        yield replace(sound, name=f"{last} of type {tag} that is cut", files=cut, sizes_bytes=sizes)
    for tag, file, width in ((SYMBOL, f"{NAME}.d", 4), (VARCHAR, f"{NAME}.i", 16)):
        for more in (0, 1):
            yield NativeColumns(
                name=f"the largest file of type {tag}, and {more} rows",
                tags=(tag,),
                row_count=CONTENT_BYTES_MAX // width + more,
                files={f"{NAME}.d": b"", file: b"\xf0" * PIECE_BYTES},
                sizes_bytes={file: CONTENT_BYTES_MAX + width * more},
            )


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of checks by other widths, by another null, and by texts that are none."""
    native = "tornproof.impl.verify.native"
    narrow = {**dict.fromkeys(original_of(f"{native}:WIDTHS_BYTES"), 1), SYMBOL: WIDTHS_BYTES["SYMBOL"]}
    controls: Controls = (
        ("every value but a key has one byte", f"{native}:WIDTHS_BYTES", narrow),
        ("null is the key before the first", f"{native}:NULL_SYMBOL", -1),
        ("texts that are none are looked for", f"{native}:VARCHAR_NULL", 0),
    )
    keys: Controls = (("keys are not read", f"{__name__}:native_keys", lambda *_: np.array([7]), "the keys are [7]"),)
    yield from not_noticed(controls, problem_of, native_columns())
    yield from not_noticed(keys, problem_of, [*_of_symbols()])


def column_versions(entries: Iterable[tuple[int, int, int, int]]) -> ColumnVersions:
    """Return what `_cv` says with these entries."""
    names = ("partition_timestamp", "column_index", "name_txn", "column_top")
    return ColumnVersions({each[:2]: ColumnVersion(**dict(zip(names, each, strict=True))) for each in entries})


def native_partition(row_count: int) -> Partition:
    """Return what `_txn` says of a native partition of so many rows."""
    return partition_of(row_count, timestamp=TIMESTAMP, entry_offset_bytes=200, row_count_offset_bytes=208)


def partition_image(
    files: Mapping[str, bytes], refused: Sequence[str] = (), sizes_bytes: Mapping[str, int] | None = None
) -> DiskImage:
    """Return a partition with its files, of which some cannot be read, or are said to have other sizes."""
    return FalteringImage(
        {f"{PATH}/{file}": content for file, content in files.items()} | {TXN: b""},
        frozenset(f"{PATH}/{file}".rstrip("/") for file in refused),
        {f"{PATH}/{file}": size_bytes for file, size_bytes in (sizes_bytes or {}).items()},
        frozenset({PATH}),
    )


class _NotLookedAt(Exception):  # noqa: N818
    """Why a column is not judged: the names and numbers in the note on it."""


def problem_of(case: NativeColumns) -> str | None:
    """Say what is wrong with what is reported, of sizes alone and of all, in one piece and in several."""
    for is_quick in (True, False):
        expected = _judged(case, is_quick=is_quick)
        if case.is_sound is not None and case.is_sound is bool(expected):
            return f"it is said to be {case.is_sound}, and {expected} is wrong"
        for found in (_reported(case, is_quick=is_quick), _reported_in_pieces(case, is_quick=is_quick)):
            if found != expected:
                return f"{found or 'nothing'} is reported, and should be {expected or 'nothing'}"
    return next((problem for column in case.columns if (problem := _problem_of_keys(case, column))), None)


def _reported(case: NativeColumns, *, is_quick: bool) -> list[Report]:
    symbols = None if case.symbols is None else dict.fromkeys(case.names, _symbols(case.symbols))
    files = PartitionFiles(storage=case.image, path=PATH, name=DIRECTORY)
    try:
        reported = check_native_columns(
            files, native_partition(case.row_count), case.columns, case.versions, symbols, quick=is_quick
        )
        return [report_of(each) for each in reported]
    except StorageError:
        return [REFUSED]


def _reported_in_pieces(case: NativeColumns, *, is_quick: bool) -> list[Report]:
    with replaced("tornproof.impl.verify.native:PIECE_BYTES", FEW_BYTES):
        return _reported(case, is_quick=is_quick)


def _problem_of_keys(case: NativeColumns, column: TableColumn) -> str | None:
    """Say whether the keys of a column are not those of its rows."""
    if column.type & 0xFF != SYMBOL or not case.is_there or "/" in column.name:
        return None
    files = PartitionFiles(storage=case.image, path=PATH, name=DIRECTORY)
    try:
        keys = native_keys(files, native_partition(case.row_count), case.versions, column, _symbols(0))
    except NotComparedError:
        found = None
    else:
        if isinstance(keys, Problem):
            return f"the keys are rejected: {keys}"
        found = keys.tolist()
    expected = _keys(case, column)
    return None if found == expected else f"the keys are {found}, and should be {expected}"


@functools.cache
def _symbols(count: int) -> SymbolTable:
    return SymbolTable(tuple(f"s{key}" for key in range(count)))


def _judged(case: NativeColumns, *, is_quick: bool) -> list[Report]:
    """Return what should be reported of a partition."""
    if not case.is_there:
        what = [] if case.files else ["none"]
        return [(DIRECTORY, "directory", None, ["directory", str(case.row_count)], what)]
    if case.refused == ("",):
        return [REFUSED]
    found = list[Report]()
    for column in case.columns:
        try:
            found += _of_column(case, column, is_quick=is_quick)
        except _NotLookedAt as error:
            found.append((DIRECTORY, f"column {column.name!r}", None, [*error.args], NOT_LOOKED_AT))
        except PermissionError:
            return [REFUSED]
    return found


def _of_column(case: NativeColumns, column: TableColumn, *, is_quick: bool) -> list[Report]:
    top, tag = _top(case, column), column.type & 0xFF
    row_count = case.row_count - top
    if not row_count:
        return []
    widths = {TAGS[name]: width for name, width in WIDTHS_BYTES.items()}
    least = {"d": row_count * widths.get(tag, 0)}
    if tag in (STRING, BINARY):
        least["i"] = 8 * row_count + 8
    elif tag in (VARCHAR, ARRAY):
        least["i"] = 16 * row_count
    elif tag not in widths:
        raise _NotLookedAt
    if "/" in column.name:
        raise _NotLookedAt
    wrong = [each for kind, least_bytes in least.items() if (each := _of_file(case, column, kind, least_bytes))]
    if wrong or is_quick:
        return wrong
    if tag == SYMBOL and case.symbols is not None:
        return [*itertools.islice(_of_rows(case, column, "d", 4, least["d"]), 1)]
    if "i" in least:
        width_bytes = 8 if tag in (STRING, BINARY) else 16
        return [*itertools.islice(_of_rows(case, column, "i", width_bytes, least["i"]), 1)]
    return []


def _of_file(case: NativeColumns, column: TableColumn, kind: str, least_bytes: int) -> Report | None:
    """Return what is wrong with a file of a column."""
    file = _file(case, column, kind)
    there = sorted({each.partition("/")[0] for each in case.files})
    if file not in there:
        similar = [each for each in there if each.startswith(f"{column.name}.{kind}")]
        return f"{DIRECTORY}/{file}", "file", None, [], similar or ["none"]
    if file in case.refused:
        raise PermissionError
    if file not in case.files:
        return f"{DIRECTORY}/{file}", "file", None, [], ["directory"]
    size_bytes = case.sizes_bytes.get(file, len(case.files[file]))
    if size_bytes < least_bytes:
        rows = case.row_count - _top(case, column)
        return f"{DIRECTORY}/{file}", "size", None, [str(least_bytes), str(rows)], [str(size_bytes)]
    return None


def _of_rows(
    case: NativeColumns, column: TableColumn, kind: str, width_bytes: int, size_bytes: int
) -> Iterator[Report]:
    """Yield which rows have wrong keys or positions."""
    file, top = _file(case, column, kind), _top(case, column)
    if size_bytes > CONTENT_BYTES_MAX:
        raise _NotLookedAt(file, str(CONTENT_BYTES_MAX))
    content, end = case.files[file], 0
    data_file = _file(case, column, "d")
    data_bytes = case.sizes_bytes.get(data_file, len(case.files[data_file]))
    for row in range(size_bytes // width_bytes):
        entry = content[row * width_bytes : (row + 1) * width_bytes]
        if len(entry) < width_bytes:
            raise _NotLookedAt(file)
        place = (f"{DIRECTORY}/{file}", f"{'key' if kind == 'd' else 'position'} of row {top + row}", row * width_bytes)
        if kind == "d":
            key = int.from_bytes(entry, "little", signed=True)
            if key != NULL_KEY and key not in range(case.symbols or 0):
                yield *place, ["null", str(case.symbols)], [str(key)]
            continue
        start, end = _position(column.type & 0xFF, entry, end)
        if not 0 <= start <= end <= data_bytes:
            yield *place, [str(max(start, 0)), str(data_bytes), f"{DIRECTORY}/{data_file}"], [str(end)]


def _position(tag: int, entry: bytes, before: int) -> tuple[int, int]:
    """Return where the data of a row begins and ends."""
    if tag in (STRING, BINARY):
        return before, int.from_bytes(entry, "little", signed=True)
    if tag == VARCHAR:
        head = int.from_bytes(entry[:4], "little")
        if any(head & bit for bit in NOT_STORED):
            return 0, 0
        start = int.from_bytes(entry[-OFFSET_BYTES:], "little")
        return start, start + head // 16
    length = int.from_bytes(entry[8:12], "little", signed=True)
    start = int.from_bytes(entry[:OFFSET_BYTES], "little") if length else 0
    return start, start + length


def _keys(case: NativeColumns, column: TableColumn) -> list[int] | None:
    """Return the symbol key of each row, or None if they cannot be read."""
    top, file = _top(case, column), _file(case, column, "d")
    row_count = case.row_count - top
    content = case.files.get(file, b"")[: 4 * row_count]
    if row_count and (file not in case.files or file in case.refused or len(content) < 4 * row_count):
        return None
    return [-1] * top + [max(key, -1) for (key,) in struct.iter_unpack("<i", content)]


def _entry(case: NativeColumns, column: TableColumn, timestamp: int) -> tuple[int, int] | None:
    return next((each[2:] for each in case.entries if each[:2] == (timestamp, column.id)), None)


def _top(case: NativeColumns, column: TableColumn) -> int:
    """Return how many rows are older than a column."""
    own, since = _entry(case, column, TIMESTAMP), _entry(case, column, SMALLEST)
    if own:
        return sorted((0, own[1], case.row_count))[1]
    return case.row_count if since and since[1] > TIMESTAMP else 0


def _file(case: NativeColumns, column: TableColumn, kind: str) -> str:
    number, _ = _entry(case, column, TIMESTAMP) or _entry(case, column, SMALLEST) or (-1, 0)
    return f"{column.name}.{kind}" if number == -1 else f"{column.name}.{kind}.{number}"
