"""Whether the dictionary of a SYMBOL column is read and judged as docs/format.md has it.

The files are made here for few symbols, and each of their fields is changed to others. What they say, and what is wrong
with them, is worked out here a second time, symbol by symbol.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.corruption.served import ENTRY, SMALLEST, Index
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import TransactionFile
from tornproof.harness.explorers.roundtrip.native.index_judge import (
    FILE_BYTES_MAX,
    LEAST,
    MOST,
    IndexJudge,
    changed_indexes,
)
from tornproof.harness.explorers.roundtrip.native.reported import (
    NOT_LOOKED_AT,
    REFUSED,
    FalteringImage,
    Report,
    report_of,
    words_of,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.symbol_hash import bucket_count, buckets_of, positions_of
from tornproof.impl.table.symbols import SymbolTable, dictionary_paths, mark_null
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Transaction, decode_transaction
from tornproof.impl.verify.table_files import TableFiles

PROPERTY = "a dictionary says what its bytes say, and what is wrong with it is reported"
PATH, TXN = "table", "_txn"
FILES, TABLES = "tornproof.impl.verify.table_files", "tornproof.impl.table.symbols"
ID, SYMBOL_TYPE, LONG_TYPE = 3, 12, 6
OTHER, OTHER_ID = "b", 9
OTHER_SYMBOLS = ("one", "two")
KINDS = "ockv"
"""In this order the files are looked for."""
HEADER_BYTES, OFFSET_BYTES, LENGTH_BYTES, HAS_NULL_AT = 64, 8, 4, 8
SYMBOLS_MAX, CHARACTERS_BYTES_MAX = 1 << 20, 64 << 20
HIGH, LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
"""A unit of the first must be before one of the second, and no other may be."""
NEW = "new"

Files: TypeAlias = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """The files of a dictionary, of which `count` symbols are committed; `number` is behind their names if not -1.

    `symbols` are those that it is known to have; with `others` there is another column before it, and `_txn` counts the
    symbols of `more_columns` more.
    """

    name: str
    files: Files
    count: int
    number: int = -1
    is_default: bool = False
    has_other: bool = False
    more_columns: int = 0
    symbols: tuple[str, ...] | None = None
    capacity: int = 0
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Whether it is known to be sound."""
        return "changed" if self.symbols is None else "sound"

    @property
    def columns(self) -> tuple[tuple[str, int], ...]:
        """The names and numbers of the columns of symbols, as the table has them."""
        return ((OTHER, OTHER_ID), ("s", ID)) if self.has_other else (("s", ID),)

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts of symbols, by the number of their column."""
        return (self.count, *[len(OTHER_SYMBOLS)] * (self.has_other + self.more_columns))[
            : 1 + self.has_other + self.more_columns
        ]

    def file(self, column: str, kind: str) -> str:
        """Return the name of a file."""
        return f"{column}.{kind}" if self.number == -1 or column == OTHER else f"{column}.{kind}.{self.number}"

    @property
    def image(self) -> FalteringImage:
        """The files, with those that a table has beside them."""
        entries = [] if self.number == -1 else [(SMALLEST + (not self.is_default), ID, self.number, 0)]
        if entries and not self.is_default:
            entries.append((SMALLEST, ID, self.number + 1, 0))
        area = b"".join(ENTRY.pack(*each) for each in sorted(entries))
        versions = struct.pack("<5q", 0, 40, len(area), 0, 0) + area
        files = {**self.files, "_cv": versions, "_name": struct.pack("<i", 1) + b"t\0\0"}
        return FalteringImage(
            {f"{PATH}/{file}": content for file, content in files.items()},
            frozenset(f"{PATH}/{file}" for file in self.refused),
            {f"{PATH}/{file}": size_bytes for file, size_bytes in self.sizes_bytes.items()},
        )

    @property
    def metadata(self) -> TableMetadata:
        """What `_meta` says."""
        columns = [TableColumn(id=0, name="time", type=LONG_TYPE)]
        columns += [TableColumn(id=number, name=name, type=SYMBOL_TYPE) for name, number in self.columns]
        return TableMetadata(columns=tuple(columns), partition_by=PartitionBy.DAY, timestamp_id=0)

    @property
    def transaction(self) -> Transaction:
        """What `_txn` says."""
        counts = tuple((each, each) for each in self.counts)
        file = TransactionFile(name="", symbols=counts, record={"column_version": 0, "structure_version": 0})
        return decode_transaction(file.content(), file=TXN)


@functools.cache
def symbol_dictionaries() -> tuple[Dictionary, ...]:
    """Return all dictionaries, always in the same order."""
    return distinct((*_sound(), *_changed_offsets(), *_changed_texts(), *_changed_indexes(), *_other_files()))


def problem_of(case: Dictionary) -> str | None:
    """Say what is wrong with how a dictionary is read and judged; None if nothing is."""
    expected, symbols = _judged(case)
    if case.symbols is not None and (expected or symbols["s"] != case.symbols):
        return f"it is said to have {case.symbols}, and has {symbols}, with {expected}"
    table = Table(storage=case.image, path=PATH, metadata=case.metadata)
    try:
        beside = TableFiles.of(table, case.transaction)
        found = [*map(report_of, beside.problems), *map(report_of, beside.notes)]
    except StorageError:
        found = [REFUSED]
    if found != expected:
        return f"{found or 'nothing'} is reported, and should be {expected or 'nothing'}"
    if expected:
        return None
    read = {name: each.symbols for name, each in (beside.symbols or {}).items()}
    if read != symbols:
        return f"its symbols are read as {read}, and should be {symbols}"
    if case.symbols is None:
        return None
    return _problem_of_use(beside.symbols or {}, case) or _problem_of_buckets(case) or _problem_of_null(case)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of dictionaries in which any offset, any index and any length may be."""
    read, key_of = original_of(f"{FILES}:read_table_symbols"), SymbolTable.key_of

    buckets, count, positions = buckets_of, bucket_count, positions_of

    def turned_round(*of: Any) -> dict[str, SymbolTable]:
        return {name: SymbolTable(each.symbols[::-1]) for name, each in read(*of).items()}

    tables: Controls = tuple(
        (name, f"{TABLES}:SymbolTable", type("Odd", (SymbolTable,), {method: odd}), words)
        for name, method, odd, words in (
            ("keys begin at 1", "key_of", lambda *of, **more: key_of(*of, **more) + 1, "the keys of its symbols are"),
            ("new symbols are the first", "key_of", _key_or_first, "the key of a new one is"),
            ("rows are not named", "key_of", lambda *of, **_: key_of(*of), "a new one is said to be"),
            ("no symbols are new", "new_among", lambda *_: (), "a new one is not found"),
            ("symbols take no bytes", "characters_bytes", 0, "they are said to take"),
        )
    )
    uses: Controls = (
        ("symbols are turned round", f"{FILES}:read_table_symbols", turned_round, "its symbols are read as"),
        ("keys are others", f"{__name__}:buckets_of", lambda *of: buckets(*of) + 1, "the keys of its index are"),
        ("there are more keys", f"{__name__}:bucket_count", lambda *of: count(*of) + 1, "its index has"),
        ("symbols are elsewhere", f"{__name__}:positions_of", lambda *of: positions(*of) + 1, "later symbols are at"),
        ("nulls are noted otherwise", f"{TABLES}:HAS_NULL", b"\2", "a note that rows hold nulls"),
        ("nulls are not noted durably", f"{__name__}:mark_null", _note_null, "a note that rows hold nulls"),
    )
    yield from not_noticed((*tables, *uses), problem_of, [*_sound()])
    controls: Controls = (
        ("any index is right", "tornproof.impl.verify.table_files:check_dictionary", lambda *_: iter(())),
        ("there may be any number of symbols", "tornproof.impl.limits:SYMBOL_COUNT_LIMIT", 1 << 40),
        ("symbols may be of any length", "tornproof.impl.limits:SYMBOL_CHARACTERS_LIMIT_BYTES", 1 << 40),
    )
    yield from not_noticed(controls, problem_of, symbol_dictionaries())


def _note_null(storage: Storage, table: Table, version: Transaction, column: TableColumn) -> None:
    with storage.open_for_writing(dictionary_paths(table, version, column)["o"]) as file:
        file.pwrite(b"\1", HAS_NULL_AT)


def _key_or_first(table: SymbolTable, symbol: str, **_: Any) -> int:
    return table.symbols.index(symbol) if symbol in table.symbols else 0


def _problem_of_use(found: Mapping[str, SymbolTable], case: Dictionary) -> str | None:
    """Say which symbol has another key, or a new one has any."""
    table, symbols = found["s"], case.symbols or ()
    keys = [table.key_of(each) for each in symbols]
    if keys != [*range(len(symbols))]:
        return f"the keys of its symbols are {keys}"
    try:
        return f"the key of a new one is {table.key_of(NEW, column='c', row=7)}"
    except RowsRejectedError as error:
        if words_of(str(error)) != ["7", str(len(symbols))]:
            return f"a new one is said to be {error}"
    if table.new_among([*symbols, NEW, *symbols[:1]]) != (NEW,):
        return "a new one is not found among the others"
    size_bytes = sum(LENGTH_BYTES + 2 * len(_units(each)) for each in symbols)
    return None if table.characters_bytes == size_bytes else f"they are said to take {table.characters_bytes} bytes"


def _problem_of_buckets(case: Dictionary) -> str | None:
    """Say whether its symbols would be looked for elsewhere."""
    symbols, count = case.symbols or (), _bucket_count(case.capacity)
    buckets = [_hash(each) % count for each in symbols]
    if (found := buckets_of(symbols, case.capacity).tolist()) != buckets:
        return f"the keys of its index are {found}, and should be {buckets}"
    if (found_count := bucket_count(case.capacity)) != count:
        return f"its index has {found_count} keys, and should have {count}"
    places = [_position(key) for key in range(3, 3 + len(symbols))]
    found = positions_of(3, len(symbols)).tolist()
    return None if found == places else f"later symbols are at {found}, and should be at {places}"


def _problem_of_null(case: Dictionary) -> str | None:
    """Say whether a note of nulls changes anything else, or is not durable, be it new or that of a killed writer."""
    column = next(each for each in case.metadata.columns if each.id == ID)
    path = f"{PATH}/{case.file('s', 'o')}"
    for noted in (b"\x00", b"\x01"):
        before = {**case.image.files, path: overwritten(case.image.files[path], HAS_NULL_AT, noted)}
        storage = MemoryStorage.of(DiskImage.of_files(before))
        mark_null(storage, Table(storage=storage, path=PATH, metadata=case.metadata), case.transaction, column)
        expected = {**before, path: overwritten(before[path], HAS_NULL_AT, b"\x01")}
        if storage.image().files != expected or storage.counters().sync_count != 1:
            return "a note that rows hold nulls changes something else, or is not durable"
    return None


def _judged(case: Dictionary) -> tuple[list[Report], dict[str, tuple[str, ...]]]:
    """Return what should be reported of a table's dictionaries, and their symbols."""
    missing = [each for name, _ in case.columns for each in _missing(case, name)]
    if missing:
        return missing, {}
    if len(case.counts) != len(case.columns):
        return [(TXN, "SYMBOL_COLUMN_COUNT", None, [str(len(case.columns))], [str(len(case.counts))])], {}
    columns = sorted(case.columns, key=lambda each: each[1])
    symbols = dict[str, tuple[str, ...]]()
    for (name, _), count in zip(columns, case.counts, strict=True):
        judge = _Judge(case, name, count)
        if (read := judge.symbols()) is not None:
            return [read], {}
        symbols[name] = tuple(judge.found)
    wrong = [each for name, _ in columns for each in _of_index(case, name, symbols[name])]
    return sorted(wrong, key=lambda each: each[-1] == NOT_LOOKED_AT), symbols


def _missing(case: Dictionary, name: str) -> Iterator[Report]:
    """Yield which files are not there, and which there are of other versions."""
    for kind in KINDS:
        if (file := case.file(name, kind)) in case.files:
            continue
        others = sorted(each for each in case.files if re.fullmatch(rf"{name}\.{kind}(\.[0-9]+)?", each))
        yield file, "file", None, [], others or ["none"]


class _Judge:
    """Reads the symbols of a column one by one."""

    def __init__(self, case: Dictionary, name: str, count: int) -> None:
        self.case, self.count = case, count
        self.o_file, self.c_file = (case.file(name, kind) for kind in "oc")
        self.o, self.c = case.files[self.o_file], case.files[self.c_file]
        self.is_refused = not {self.o_file, self.c_file}.isdisjoint(case.refused)
        self.found = list[str]()
        self.column = name

    def symbols(self) -> Report | None:
        """Find the symbols, or return what is reported instead."""
        words = (TXN, f"COUNT of symbols of column {self.column!r}", None)
        if self.count < 0:
            return *words, ["0"], [str(self.count)]
        if not self.count:
            return None
        if self.is_refused:
            return REFUSED
        end = HEADER_BYTES + OFFSET_BYTES * (self.count + 1)
        if (short := self._too_short(self.o_file, end)) is not None:
            return short
        if self.count > SYMBOLS_MAX:
            return _as_note((*words, [str(SYMBOLS_MAX)], [str(self.count)]))
        offsets = [each for (each,) in struct.iter_unpack("<q", self.o[HEADER_BYTES:end])]
        return self._wrong_offset(offsets) or next(filter(None, map(self._wrong_symbol, offsets, offsets[1:])), None)

    def _too_short(self, file: str, end: int) -> Report | None:
        size_bytes = self.case.sizes_bytes.get(file, len(self.case.files[file]))
        return (file, "size", None, [str(end), str(self.count)], [str(size_bytes)]) if size_bytes < end else None

    def _wrong_offset(self, offsets: Sequence[int]) -> Report | None:
        least = 0
        for key, offset in enumerate(offsets):
            place = HEADER_BYTES + OFFSET_BYTES * key
            if offset < least or (offset and not key):
                return self.o_file, f"offset {key}", place, [str(least)], [str(offset)]
            least = offset + LENGTH_BYTES
        if offset <= CHARACTERS_BYTES_MAX:
            return None
        limit = (self.o_file, f"offset {key}", place, [str(CHARACTERS_BYTES_MAX)], [str(offset)])
        return self._too_short(self.c_file, offset) or _as_note(limit)

    def _wrong_symbol(self, start: int, end: int) -> Report | None:
        """Find the next symbol, or return what is wrong with it."""
        key, limit = len(self.found), struct.unpack_from("<q", self.o, HEADER_BYTES + OFFSET_BYTES * self.count)[0]
        content = self.c[:limit]
        at = start + LENGTH_BYTES
        if at > len(content):
            return self.c_file, "Symbol length", start, [str(LENGTH_BYTES), str(len(content))], [str(at)]
        (count,) = struct.unpack_from("<i", content, start)
        if 2 * count != end - at or end > len(content):
            words = [f"{(end - at) / 2:g}", "`.o`", str(len(content))]
            return self.c_file, f"length of symbol {key}", start, words, [str(count)]
        units = struct.unpack_from(f"<{count}H", content, at)
        if (wrong := _wrong_unit(units)) is not None:
            return self.c_file, f"symbol {key}", at + 2 * wrong, [], []
        symbol = content[at:end].decode("utf-16-le")
        if symbol in self.found:
            return self.c_file, f"symbol {key}", start, [], words_of(repr(symbol))
        self.found.append(symbol)
        return None


def _wrong_unit(units: Sequence[int]) -> int | None:
    """Return the first unit that is one half of a character without the other."""
    place = 0
    while place < len(units):
        if units[place] in LOW or (units[place] in HIGH and (*units, 0)[place + 1] not in LOW):
            return place
        place += 1 + (units[place] in HIGH)
    return None


def _as_note(words: Report, what: str = "") -> Report:
    """Return what is reported in a note of what is beyond a limit."""
    file, name, place, expected, actual = words
    at = [] if place is None else [str(place)]
    return "", what, None, [*words_of(file), *words_of(name), *at, *expected, *actual], NOT_LOOKED_AT


def _of_index(case: Dictionary, name: str, symbols: Sequence[str]) -> Iterator[Report]:
    """Yield what is wrong with how symbols are found."""
    files = [case.file(name, kind) for kind in "okv"]
    o, k, v = (case.files[file] for file in files)
    if files[0] in case.refused:
        yield REFUSED
    elif len(o) < HEADER_BYTES:
        yield files[0], "Symbol offsets header", 0, [str(HEADER_BYTES), str(len(o))], [str(HEADER_BYTES)]
    elif (capacity := struct.unpack_from("<i", o)[0]) <= 0:
        yield files[0], "SYMBOL_CAPACITY", 0, ["0"], [str(capacity)]
    else:
        for file in files[1:]:
            size_bytes = case.sizes_bytes.get(file, len(case.files[file]))
            if file in case.refused:
                yield REFUSED
                return
            if size_bytes > FILE_BYTES_MAX:
                words = (file, "size", None, [str(FILE_BYTES_MAX)], [str(size_bytes)])
                yield _as_note(words, f"the hash index of column {name!r}")
                return
        judge = IndexJudge(k, v, keys_file=files[1], values_file=files[2])
        yield from _of_positions(judge, f"{name}.o", symbols, _bucket_count(capacity))


def _of_positions(judge: IndexJudge, o_file: str, symbols: Sequence[str], count: int) -> Iterator[Report]:
    """Yield the first position that is wrong, or else the first symbol without one."""
    blocks = judge.blocks()
    if isinstance(blocks, tuple):
        yield blocks
        return
    keys = {_position(key): _hash(symbol) % count for key, symbol in enumerate(symbols)}
    listed = [row for block in blocks for row in block if row[1] < _position(len(symbols))]
    before = (-1, -1)
    for key, position, place in listed:
        if keys.get(position) != key or (before[0] == key and position <= before[1]):
            yield judge.of_value(f"position of key {key}", place, [o_file], position)
            return
        before = key, position
    found = {position for _, position, _ in listed}
    for (position, key), symbol in zip(keys.items(), symbols, strict=True):
        if position not in found:
            file, name, at, _, _ = judge.of_key(key, "VALUE_COUNT", [], 0)
            yield file, name, at, [*words_of(repr(symbol)), f"({position})"], ["missing"]
            return


def _position(key: int) -> int:
    return HEADER_BYTES + OFFSET_BYTES * key


def _units(symbol: str) -> tuple[int, ...]:
    content = symbol.encode("utf-16-le")
    return struct.unpack(f"<{len(content) // 2}H", content)


def _hash(symbol: str) -> int:
    """Return what Java does, without the highest bits, which no number of keys needs."""
    found = 0
    for unit in _units(symbol):
        found = (31 * found + unit) % (1 << 28)
    return found


def _bucket_count(capacity: int) -> int:
    return next(1 << power for power in itertools.count(1) if 1 << power >= capacity // 2)


def _files(
    symbols: Sequence[str], capacity: int, *, block_rows: int = 2, more_bytes: bytes = b"\xff" * 9
) -> dict[str, bytes]:
    """Return a sound dictionary; what is behind and between does not count."""
    stored = [struct.pack("<i", len(_units(each))) + each.encode("utf-16-le") for each in symbols]
    ends = itertools.accumulate(map(len, stored), initial=0)
    head = struct.pack("<i", capacity) + b"\1\xfe\xfd\xfc" + bytes(1) + b"\xfb" * 55
    o, c = head + b"".join(struct.pack("<q", each) for each in ends) + more_bytes, b"".join(stored) + more_bytes
    count = _bucket_count(capacity)
    keys = [_hash(symbol) % count for symbol in symbols]
    rows = [tuple(_position(key) for key, each in enumerate(keys) if each == bucket) for bucket in range(count)]
    k, v = Index(tuple(rows), block_rows, is_reversed=True).files()
    return {"s.o": o, "s.c": c, "s.k": k, "s.v": v}


def _sound() -> Iterator[Dictionary]:
    """Yield dictionaries of few and many symbols, with some of a commit that was not completed."""
    for symbols in (
        *((), ("",), ("a",), ("ab", "", "c"), ("\U0001f600", "\ud7ff\ue000", "\uffff"), ("y" * 300, "z", "zy" * 40)),
        tuple(f"x{number}" for number in range(40)),
    ):
        for capacity in (1, 2, 3, 4, 5, 7, 8, 9, 17, 255, 256, 257):
            for block_rows in (1, 4):
                files = _files(symbols, capacity, block_rows=block_rows)
                for count in sorted({0, 1, len(symbols) - 1, len(symbols)} & {*range(len(symbols) + 1)}):
                    yield Dictionary(
                        name=f"{count} of {symbols[:3]}, capacity {capacity}, blocks of {block_rows}",
                        files=files,
                        count=count,
                        symbols=symbols[:count],
                        capacity=capacity,
                    )


SYMBOLS = ("ab", "", "\U0001f600s", "cd")
CAPACITY = 5
"""Few enough that symbols share a key of the index."""


def _base() -> Dictionary:
    return Dictionary(name="", files=_files((*SYMBOLS, "later"), CAPACITY), count=len(SYMBOLS))


def _changed_offsets() -> Iterator[Dictionary]:
    """Yield other counts, other offsets, another header, and files that end earlier."""
    base = _base()
    for count in (*range(-1, len(SYMBOLS) + 4), SYMBOLS_MAX, SYMBOLS_MAX + 1, -(1 << 31), (1 << 31) - 1):
        yield replace(base, name=f"{count} symbols", count=count)
    for count in (SYMBOLS_MAX + 1, (1 << 31) - 1):
        for step in (-1, 0):
            sizes = {"s.o": _position(count + 1) + step}
            yield replace(base, name=f"{count} symbols, room for {step}", count=count, sizes_bytes=sizes)
    o = base.files["s.o"]
    for key in range(len(SYMBOLS) + 1):
        (usual,) = struct.unpack_from("<q", o, _position(key))
        near = (usual + step for step in (-4, -2, -1, 1, 2, 4))
        for offset in sorted({*near, 0, -1, CHARACTERS_BYTES_MAX, CHARACTERS_BYTES_MAX + 1, LEAST, MOST}):
            files = {**base.files, "s.o": overwritten(o, _position(key), struct.pack("<q", offset))}
            yield replace(base, name=f"{offset} as offset {key}", files=files)
    for step in (-1, 0, 1):
        last = struct.pack("<qq", CHARACTERS_BYTES_MAX, CHARACTERS_BYTES_MAX + LENGTH_BYTES + step)
        files = {**base.files, "s.o": overwritten(o, _position(len(SYMBOLS) - 1), last)}
        yield replace(base, name=f"a symbol behind the limit, and {step} bytes", files=files)
        sizes = {"s.c": CHARACTERS_BYTES_MAX + LENGTH_BYTES}
        yield replace(base, name=f"a symbol behind the limit, and {step} of its bytes", files=files, sizes_bytes=sizes)
    for count in (0, len(SYMBOLS)):
        for capacity in (-1, 0, 1, 2, 8, 9, 1 << 30, -(1 << 31)):
            files = {**base.files, "s.o": overwritten(o, 0, struct.pack("<i", capacity))}
            yield replace(base, name=f"capacity {capacity} of {count} symbols", files=files, count=count)
        for size_bytes in (0, 1, 63, 64, 71, 72, _position(len(SYMBOLS)), _position(len(SYMBOLS) + 1) - 1):
            files = {**base.files, "s.o": o[:size_bytes]}
            yield replace(base, name=f"{size_bytes} bytes of offsets of {count} symbols", files=files, count=count)


def _changed_texts() -> Iterator[Dictionary]:
    """Yield other lengths and units, the same symbol twice, and files that end earlier."""
    base = _base()
    c = base.files["s.c"]
    starts = [each for (each,) in struct.iter_unpack("<q", base.files["s.o"][HEADER_BYTES : _position(len(SYMBOLS))])]
    for key, start in enumerate(starts):
        (usual,) = struct.unpack_from("<i", c, start)
        for length in sorted({usual - 1, usual + 1, 0, -1, (1 << 31) - 1, -(1 << 31)} - {usual}):
            files = {**base.files, "s.c": overwritten(c, start, struct.pack("<i", length))}
            yield replace(base, name=f"{length} as the length of symbol {key}", files=files)
        for unit in range(usual):
            for value in (0, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000):
                at = start + LENGTH_BYTES + 2 * unit
                files = {**base.files, "s.c": overwritten(c, at, struct.pack("<H", value))}
                yield replace(base, name=f"unit {unit} of symbol {key} is {value}", files=files)
    for size_bytes in range(0, len(c), 3):
        yield replace(base, name=f"{size_bytes} bytes of texts", files={**base.files, "s.c": c[:size_bytes]})
    for symbols in (("a1", "a1"), ("", "b", ""), ("a1", "b", "a1", "b")):
        files = _files(symbols, CAPACITY)
        for count in range(len(symbols) + 1):
            yield replace(base, name=f"{count} of {symbols}", files=files, count=count)


def _changed_indexes() -> Iterator[Dictionary]:
    """Yield indexes in which a field or a word is another, and those of other capacities."""
    base = _base()
    for words, files in changed_indexes(base.files, ["s.k", "s.v"]):
        yield replace(base, name=words, files=files)
    o = base.files["s.o"]
    for place in range(0, len(base.files["s.v"]), 8):
        for key in range(len(SYMBOLS) + 2):
            v = overwritten(base.files["s.v"], place, struct.pack("<q", _position(key)))
            yield replace(base, name=f"the position of symbol {key} at {place}", files={**base.files, "s.v": v})
    for capacity in (1, 16, 64):
        other = {**_files((*SYMBOLS, "later"), capacity), "s.o": o}
        yield replace(base, name=f"an index for a capacity of {capacity}", files=other)


def _other_files() -> Iterator[Dictionary]:
    """Yield dictionaries with a number, without a file, of two columns, and with files that cannot be read."""
    base = replace(_base(), symbols=SYMBOLS, capacity=CAPACITY)
    other = {f"{OTHER}{file[1:]}": content for file, content in _files(OTHER_SYMBOLS, CAPACITY).items()}
    both = replace(base, has_other=True, files={**base.files, **other})
    numbered = replace(base, number=7, files={f"{file}.7": content for file, content in base.files.items()})
    sound = {"one": base, "two": both, "a number": numbered, "a usual number": replace(numbered, is_default=True)}
    for words, case in sound.items():
        yield replace(case, name=f"{words}, sound")
        wrong = replace(case, symbols=None)
        for more_columns in (-1, 1, 2):
            yield replace(wrong, name=f"{words}, counts of {more_columns} more", more_columns=more_columns)
        for file in case.files:
            left = {each: content for each, content in case.files.items() if each != file}
            yield replace(wrong, name=f"{words}, without {file}", files=left)
            for instead in (f"{file}.12", f"{file}x", f"{file}.x", f"x{file}", file.rpartition(".")[0], file[:3]):
                files = {**left, **({} if instead == file else {instead: b""})}
                yield replace(wrong, name=f"{words}, {instead} instead of {file}", files=files)
            yield replace(wrong, name=f"{words}, {file} refused", refused=(file,))
            yield replace(wrong, name=f"{words}, {file} empty", files={**case.files, file: b""})
            if ".k" in file or ".v" in file:
                for size_bytes in (FILE_BYTES_MAX, FILE_BYTES_MAX + 1):
                    sizes = {file: size_bytes}
                    yield replace(wrong, name=f"{words}, {size_bytes} bytes in {file}", sizes_bytes=sizes)
