"""Whether `verify` says of the index of a SYMBOL column what docs/format.md does, and of nothing else.

The files are made here for few rows, and each of their fields and words is changed to others. What is wrong with them
is worked out here a second time, row by row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.explorers.corruption import served
from tornproof.harness.explorers.corruption.served import Index
from tornproof.harness.explorers.roundtrip.native.index_judge import FILE_BYTES_MAX, IndexJudge, Row, changed_indexes
from tornproof.harness.explorers.roundtrip.native.native_columns import (
    DIRECTORY,
    PATH,
    TIMESTAMP,
    column_versions,
    native_partition,
    partition_image,
)
from tornproof.harness.explorers.roundtrip.native.reported import NOT_LOOKED_AT, REFUSED, Report, report_of, words_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import Problem, StorageError
from tornproof.impl.read.decoding import SYNCHRONOUS
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.partition import PartitionFiles, resolve_partition
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.indexes import Indexes, Keys, NotComparedError, parquet_keys
from tornproof.impl.verify.table_files import TableFiles

PROPERTY = "what is wrong with the index of symbols is reported, row by row, and nothing else"
INDEX, INDEXES = "tornproof.impl.table.symbol_index", "tornproof.impl.verify.indexes"
NAME, ID, SYMBOL_TYPE = "s", 3, 12
SYMBOLS = 3
SYMBOL_NAMES = tuple(f"s{key}" for key in range(SYMBOLS))
ROWS_MAX = FILE_BYTES_MAX // 8
MORE_PIECES = (3, 5)
"""So many rows are compared at a time, too, where it does not matter which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRows:
    """The symbol key of each row, -1 for null, and the files of an index; the first `top` rows are older.

    `instead` is what there is instead of keys, `unread` cannot be read of the table, and the index may be compared some
    `times`; others are as in a partition.
    """

    name: str
    keys: tuple[int, ...]
    files: Mapping[str, bytes]
    top: int = 0
    number: int = -1
    times: int = 1
    row_count: int | None = None
    instead: Problem | NotComparedError | None = None
    unread: str = ""
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    is_sound: bool | None = None

    @property
    def kind(self) -> str:
        """Whether it is known to be sound."""
        return "sound" if self.is_sound else "changed"

    @property
    def image(self) -> DiskImage:
        """The files."""
        return partition_image(self.files, self.refused, self.sizes_bytes)

    @property
    def rows(self) -> int:
        """The rows of the partition."""
        return len(self.keys) if self.row_count is None else self.row_count

    def compared(self, image: DiskImage) -> tuple[int, list[Report]]:
        """Return how many of its indexes in an image are compared, and what is reported of them."""
        versions = None if self.unread == "versions" else column_versions([(TIMESTAMP, ID, self.number, self.top)])
        symbols = None if self.unread == "symbols" else {NAME: SymbolTable(SYMBOL_NAMES)}
        column = TableColumn(id=ID, name=NAME, type=SYMBOL_TYPE, is_indexed=True)
        other = TableColumn(id=ID, name="other", type=SYMBOL_TYPE)
        beside = TableFiles(columns=(other, *(column,) * self.times), versions=versions, symbols=symbols)
        files = PartitionFiles(storage=image, path=PATH, name=DIRECTORY)
        try:
            found = Indexes.of(beside).compare(files, native_partition(self.rows), lambda *_: self._keys())
        except StorageError:
            return 0, [REFUSED]
        return found.compared, [*map(report_of, found.problems), *map(report_of, found.notes)]

    def _keys(self) -> Keys | Problem:
        if isinstance(self.instead, NotComparedError):
            raise self.instead
        return np.array(self.keys, np.int32) if self.instead is None else self.instead


@dataclass(frozen=True, slots=True)
class DecodedSymbols:
    """Row groups of symbols, and those of the table.

    With a `column` they are those of a day of a server's table, whose data may be so many zeros instead.
    """

    groups: tuple[tuple[str | None, ...], ...]
    symbols: tuple[str, ...]
    day: int = 0
    column: str = ""
    zero_bytes: int = 0

    kind = "decoded"

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.groups} of {self.symbols}, {self.column} of day {self.day}, {self.zero_bytes} zeros instead"


@functools.cache
def symbol_indexes() -> tuple[IndexedRows | DecodedSymbols, ...]:
    """Return all indexes, always in the same order."""
    return distinct((*_sound(), *_changed(), *_other_files(), *_other_tables(), *_decoded()))


def problem_of(case: IndexedRows | DecodedSymbols) -> str | None:
    """Say what is wrong with what is reported, of all rows in one piece and in several; None if nothing is."""
    if isinstance(case, DecodedSymbols):
        return _problem_of_symbols(case)
    whole, split = (_judged(case, is_split=is_split) for is_split in (False, True))
    if case.is_sound is not None and case.is_sound is bool(whole or split):
        return f"it is said to be {case.is_sound}, and {whole} is wrong"
    image = case.image
    is_of_rows = whole == split and (not whole or whole[0][1].startswith("row of"))
    for piece_rows, told_once in ((0, whole), (1, split), *((rows, whole) for rows in MORE_PIECES if is_of_rows)):
        found = _compared_in_pieces(case, image, piece_rows) if piece_rows else case.compared(image)
        is_compared = told_once != [REFUSED] and all(each[-1] != NOT_LOOKED_AT for each in told_once)
        expected = (case.times * is_compared, told_once * case.times)
        if found != expected:
            return f"{found} is reported of {piece_rows or 'all'} rows at a time, and should be {expected}"
    return None


def _compared_in_pieces(case: IndexedRows, image: DiskImage, piece_rows: int) -> tuple[int, list[Report]]:
    with replaced(f"{INDEX}:PIECE_ROWS", piece_rows):
        return case.compared(image)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of comparisons of no rows, of files of any size, and with nulls of older rows."""
    controls: Controls = (
        ("no row differs", f"{INDEXES}:_difference", lambda *_: None),
        ("files of any size are read", f"{INDEX}:INDEX_LIMIT_BYTES", 1 << 40),
        ("nulls of older rows must be there", f"{INDEXES}:OLDER_ROW", 0),
    )
    keys: Controls = (("keys are not read", f"{__name__}:parquet_keys", lambda *_: np.array([7]), "the keys are [7]"),)
    yield from not_noticed(controls, problem_of, symbol_indexes())
    yield from not_noticed(keys, problem_of, [*_decoded()])


def _judged(case: IndexedRows, *, is_split: bool) -> list[Report]:
    """Return what should be reported of an index; rows are compared in blocks if it is split, else together."""
    if case.unread:
        return [_note()]
    if case.rows > ROWS_MAX:
        return [_note(str(ROWS_MAX))]
    if isinstance(case.instead, NotComparedError):
        return [_note(*case.instead.args)]
    if case.instead is not None:
        return [report_of(case.instead)]
    if min(case.top, case.rows) == case.rows:
        return []
    for kind in "kv":
        if (wrong := _file(case, kind)) is not None:
            return wrong
    names = [_name(case, kind) for kind in "kv"]
    keys_file, values_file = (f"{DIRECTORY}/{name}" for name in names)
    judge = IndexJudge(*(case.files[name] for name in names), keys_file=keys_file, values_file=values_file)
    found = judge.blocks()
    if isinstance(found, tuple):
        return [found]
    groups = found if is_split else [[row for block in found for row in block]]
    wrong_row = _wrong_row(case, judge, groups) or _missing_row(case, judge, groups)
    return [wrong_row] if wrong_row else []


def _note(*words: str) -> Report:
    return DIRECTORY, f"the index of column {NAME!r}", None, [*words], NOT_LOOKED_AT


def _name(case: IndexedRows, kind: str) -> str:
    return f"{NAME}.{kind}" if case.number == -1 else f"{NAME}.{kind}.{case.number}"


def _file(case: IndexedRows, kind: str) -> list[Report] | None:
    """Return what is reported instead of comparing if a file is not there or cannot be read, else None."""
    file = _name(case, kind)
    if file in case.refused or any(each.startswith(f"{file}/") for each in case.files):
        return [REFUSED]
    if file in case.files:
        size_bytes = case.sizes_bytes.get(file, len(case.files[file]))
        too_large = [_note(f"{DIRECTORY}/{file}", str(FILE_BYTES_MAX), str(size_bytes))]
        return too_large if size_bytes > FILE_BYTES_MAX else None
    if max(case.keys, default=-1) < 0:
        return []
    others = sorted(each for each in case.files if each.startswith(("s.k", "s.v", "s.pk", "s.pv")))
    return [_note(*others)] if len(others) > 1 else [(f"{DIRECTORY}/{file}", "file", None, [], ["none"])]


def _wrong_row(case: IndexedRows, judge: IndexJudge, groups: list[list[Row]]) -> Report | None:
    """Return the first row that does not follow, or has another key."""
    before = (-1, -1)
    for group in groups:
        for key, row, place in group:
            least = before[1] if before[0] == key else -1
            if row <= least:
                return judge.of_value(f"row of key {key}", place, [least], row)
            before = key, row
        for key, row, place in group:
            if row < len(case.keys) and case.keys[row] + 1 != key:
                has = _named(case.keys[row] + 1)
                return judge.of_value(f"row of key {key}", place, _named(key), row, *has)
    return None


def _missing_row(case: IndexedRows, judge: IndexJudge, groups: list[list[Row]]) -> Report | None:
    """Return the first key of which not all rows are there; nulls of older rows need not be."""
    found = [(key, row) for group in groups for key, row, _ in group if row < len(case.keys)]
    wanted = [(key + 1, row) for row, key in enumerate(case.keys)]
    for key in range(max(judge.key_count, max(case.keys) + 2)):
        counts = [sum(each == key and (key > 0 or row >= case.top) for each, row in rows) for rows in (wanted, found)]
        if counts[0] != counts[1] and key >= judge.key_count:
            return judge.of_header("KEY_COUNT", [key, *_named(key)], judge.key_count)
        if counts[0] != counts[1]:
            return judge.of_key(key, "VALUE_COUNT", [counts[0], *_named(key)], counts[1])
    return None


def _named(key: int) -> list[str]:
    """Return what is reported of a key of the index."""
    if key == 0:
        return ["null"]
    return [repr(SYMBOL_NAMES[key - 1])] if key <= SYMBOLS else ["unknown", str(key - 1)]


def _index_files(
    keys: Sequence[int],
    block_rows: int,
    *,
    top: int = 0,
    more: Sequence[tuple[int, int]] = (),
    is_reversed: bool = False,
) -> dict[str, bytes]:
    """Return a sound index of rows; `more` keys and rows are of commits that were not completed, or of older rows."""
    listed = [(key + 1, row) for row, key in enumerate(keys) if key >= 0 or row >= top]
    listed = sorted([*listed, *more])
    rows = [tuple(row for each, row in listed if each == key) for key in range(max(listed, default=(0, 0))[0] + 1)]
    k, v = Index(tuple(rows), block_rows, is_reversed).files()
    return {"s.k": k, "s.v": v}


def _sound() -> Iterator[IndexedRows]:
    """Yield indexes that lead to each row."""
    for keys in (
        *((), (-1,), (0,), (2,), (-1, -1), (0, 0, 0, 0, 0), (2, 2, -1, -1, 0)),
        (0, 1, 2, -1, 0, 1, 2, -1, 0, 0, 0, 1),
        (-1,) * 5 + (0, 1, 1, 1, 1, 1, -1),
    ):
        for block_rows in (1, 2, 3, 64):
            for is_reversed in (False, True):
                files = _index_files(keys, block_rows, is_reversed=is_reversed)
                words = f"{keys} in blocks of {block_rows}, reversed: {is_reversed}"
                sound = IndexedRows(name=words, keys=keys, files=files, is_sound=True)
                yield sound
                count = len(keys)
                uncommitted = [(key, row) for key in (0, 1, 4, 9) for row in (count, count + 3)]
                yield replace(
                    sound, name=f"{words}, and rows to come", files=_index_files(keys, block_rows, more=uncommitted)
                )
                longer = {file: content + b"\xee" * 41 for file, content in files.items()}
                yield replace(sound, name=f"{words}, and bytes behind", files=longer)
                for top in sorted({1, 2, count - 1, count, count + 1} & {*range(1, count + 2)}):
                    made = _index_files(keys, block_rows, top=top, is_reversed=is_reversed)
                    yield replace(sound, name=f"{words}, {top} older with symbols", top=top, files=made)
                    nulls = (-1,) * min(top, count) + keys[top:]
                    for older in ((), [(0, row) for row in range(0, top, 2) if row < count]):
                        made = _index_files(nulls, block_rows, top=top, more=older, is_reversed=is_reversed)
                        name = f"{words}, {top} older with {len(older)}"
                        yield replace(sound, name=name, keys=nulls, top=top, files=made)


def _bases() -> Iterator[IndexedRows]:
    keys = (0, 1, 2, -1, 0, 1, 2, -1, 0, 0, 0, 1)
    yield IndexedRows(name="blocks of 2", keys=keys, files=_index_files(keys, 2, is_reversed=True))
    yield IndexedRows(name="blocks of 1", keys=keys[:6], files=_index_files(keys[:6], 1))
    older, more = (-1, -1, 1, 1, -1, 1, 1, 1), [(0, 1), (2, 8), (2, 9), (5, 8)]
    files = _index_files(older, 3, top=2, more=more)
    yield IndexedRows(name="blocks of 3, with older rows", keys=older, top=2, files=files)
    renamed = {f"{file}.7": content for file, content in _index_files(keys, 4).items()}
    yield IndexedRows(name="files with a number", keys=keys, files=renamed, number=7)


def _changed() -> Iterator[IndexedRows]:
    """Yield indexes in which one field or word is another, or some bytes are not there."""
    for base in _bases():
        for words, files in changed_indexes(base.files, [*base.files]):
            yield replace(base, name=f"{base.name}, {words}", files=files)


def _other_files() -> Iterator[IndexedRows]:
    """Yield indexes without a file, with others, or with files that are too large or cannot be read."""
    for base in _bases():
        count = len(base.keys)
        nulls = replace(base, keys=(-1,) * count, name=f"{base.name}, all rows without symbols")
        first = replace(base, keys=(0,) * count, name=f"{base.name}, all rows with the first symbol")
        for case in (base, nulls, first):
            for gone in ([0], [1], [0, 1]):
                files = {
                    file: content for number, (file, content) in enumerate(base.files.items()) if number not in gone
                }
                name = f"{case.name}, without {gone}"
                for others in ((), ("s.pk",), ("s.pk", "s.pv"), ("s.k.9", "s.v.9"), ("x.k", "s.d", "as.v")):
                    yield replace(case, name=f"{name}, with {others}", files={**files, **dict.fromkeys(others, b"")})
        for file in base.files:
            yield replace(base, name=f"{base.name}, {file} refused", refused=(file,))
            files = {**base.files, f"{file}/x": base.files[file]}
            yield replace(
                base,
                name=f"{base.name}, {file} is a directory",
                files={each: files[each] for each in files if each != file},
            )
            for size_bytes in (FILE_BYTES_MAX, FILE_BYTES_MAX + 1):
                sizes = {file: size_bytes}
                yield replace(base, name=f"{base.name}, {size_bytes} bytes in {file}", sizes_bytes=sizes)


def _other_tables() -> Iterator[IndexedRows]:
    """Yield partitions with too many rows, with rows that cannot be read, and of tables that cannot be read."""
    base = next(_bases())
    yield replace(base, name="two indexes", times=2, is_sound=True)
    yield replace(base, name="two wrong indexes", times=2, files={**base.files, f"{NAME}.k": b""})
    problem = Problem(f"{DIRECTORY}/x", "row 5", 7, "1 to 2", "3")
    for unread in ("versions", "symbols"):
        yield replace(base, name=f"{unread} that cannot be read", unread=unread)
    for times in (1, 2):
        name = f"{times} times rows that cannot be compared"
        yield replace(base, name=name, instead=NotComparedError("5.5"), times=times)
    for more in (0, 1):
        yield replace(base, name=f"the most rows, and {more}", row_count=ROWS_MAX + more, instead=problem)


def _decoded() -> Iterator[DecodedSymbols]:
    """Yield symbols in several row groups, of which some are not those of the table."""
    for groups in (
        *((), ((),), (("s0",),), ((None,), (None, None)), (("s0", "s1"), ("s2", None, "s0"))),
        (("s0", None), (), ("s1", "s0", "s2", "s2")),
    ):
        for symbols in (SYMBOL_NAMES, SYMBOL_NAMES[::-1], SYMBOL_NAMES[:2], SYMBOL_NAMES[1:], ()):
            yield DecodedSymbols(groups, symbols)
    for day in (0, 2):
        rows = [served.SYMBOLS[(2 * row + day) % len(served.SYMBOLS)] for row in range(served.ROW_COUNT)]
        late = rows if day else [None] * len(rows)
        symbols = tuple(sorted({each for each in rows if each}))
        for column, values in ((served.INDEXED, rows), (served.LATE, late)):
            for of, zero_bytes in ((symbols, 0), (symbols[:-1], 0), (symbols, 1 << 10)):
                yield DecodedSymbols((tuple(values),), of, day, column, zero_bytes)


def _problem_of_symbols(case: DecodedSymbols) -> str | None:
    """Say what is wrong with the keys of decoded symbols."""
    image = served.served_image()
    table = open_table(image, served.PATH)
    partition = table.transaction().partitions[case.day]
    resolved = resolve_partition(table.files_of(partition), partition)
    path = f"{resolved.files.path}/data.parquet"
    if case.zero_bytes:
        files = structs.replace(resolved.files, storage=image.with_file(path, bytes(case.zero_bytes)))
        resolved = structs.replace(resolved, files=files)
    column = TableColumn(id=served.ID[case.column or served.INDEXED], name=NAME, type=SYMBOL_TYPE)
    values = [pa.array(each, pa.string()) for each in case.groups]
    with nullcontext() if case.column else replaced(f"{INDEXES}:_values", lambda *_: iter(values)):
        try:
            keys = parquet_keys(resolved, SYNCHRONOUS, column, SymbolTable(case.symbols))
        except NotComparedError:
            keys = None
    found = report_of(keys) if isinstance(keys, Problem) else keys if keys is None else keys.tolist()
    expected = _keys_of(case, f"{resolved.files.name}/data.parquet")
    return None if found == expected else f"the keys are {found}, and should be {expected}"


def _keys_of(case: DecodedSymbols, file: str) -> list[int] | Report | None:
    """Return the key of each row, or what is reported of the first symbol that has none."""
    rows = [value for group in case.groups for value in group]
    if case.zero_bytes and any(rows):
        return None
    for row, value in enumerate(rows):
        if value is not None and value not in case.symbols:
            return file, f"column {NAME!r}, row {row}", None, [str(len(case.symbols))], words_of(repr(value))
    return [-1 if value is None else case.symbols.index(value) for value in rows]
