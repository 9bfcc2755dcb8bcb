"""Whether a writer makes bloom filters of the values of every type, and `verify` reports those that miss a value.

Filters are filled here by the bytes in which docs/types.md has values stored, and put in the place of the writer's own.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import xxhash

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.roundtrip.worked_out.parquet.bloom_filters import filter_of, may_be_in
from tornproof.harness.explorers.roundtrip.writing.offered_values import Key, Offered, offered_columns, plain
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import Table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

PROPERTY = "a bloom filter has all values of its chunk, or is reported"
PATH, TIME = "filtered", "ts"
FILTERS = "tornproof.impl.write.partition_change:bitset_of_values"
REPORTED_MAX = "tornproof.impl.verify.verify:PROBLEMS_PER_PARTITION"
FILES = {
    BloomPosition.INLINED: (PM_FILE,),
    BloomPosition.EXTERNAL: (DATA_FILE,),
    BloomPosition.BOTH: (PM_FILE, DATA_FILE),
}
FLOATS = ("FLOAT", "DOUBLE")
RATE, SMALL_BYTES, LARGE_BYTES = 0.01, 32, 2048
OWN_BYTES = (32, 64, 128)
"""As large may a filter be that a writer makes of so few values."""
ROW_COUNT, GROUP_ROWS = 14, 7
VALUE_BYTES_MAX = 100
"""Longer ones would only cost time."""
Chunks: TypeAlias = Sequence[Sequence[bytes | None]]
"""The values of the filtered columns in one row group, as they are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Filters of all columns, where they are, and what each has of the values of all columns; None: the writer's."""

    words: str
    position: BloomPosition
    fill: Callable[[Chunks, int], Sequence[bytes | None]] | None
    size_bytes: int = LARGE_BYTES
    has_checksums: bool = True

    @property
    def name(self) -> str:
        """It in words."""
        pages = "" if self.has_checksums else ", of pages without checksums"
        return f"filters of {self.words} {self.position.value}{pages}"

    @property
    def kind(self) -> str:
        """What they have."""
        return self.words

    def filters(self) -> Iterator[bytes]:
        """Yield all filters in the order in which a writer makes them."""
        assert self.fill is not None, "the writer makes them"
        for chunks in stored_row_groups():
            for column in range(len(chunks)):
                hashes = [xxhash.xxh64_intdigest(each) for each in self.fill(chunks, column) if each is not None]
                yield filter_of(hashes, self.size_bytes)


@functools.cache
def filled() -> tuple[Filled, ...]:
    """Return all filters, always in the same order."""
    fills: dict[str, Callable[[Chunks, int], Sequence[bytes | None]]] = {
        "all values": lambda chunks, column: chunks[column],
        "no values": lambda *_: (),
        "all values but the first": lambda chunks, column: [
            each for each in chunks[column] if each != chunks[column][0]
        ],
        "all values but the last": lambda chunks, column: [
            each for each in chunks[column] if each != chunks[column][-1]
        ],
        "the values of the column before": lambda chunks, column: chunks[column - 1],
    }
    made = [Filled(words=words, position=BloomPosition.INLINED, fill=fill) for words, fill in fills.items()]
    all_values, *_, others = fills
    elsewhere = [
        Filled(words=words, position=position, fill=fills[words], size_bytes=SMALL_BYTES)
        for position in (BloomPosition.EXTERNAL, BloomPosition.BOTH)
        for words in (all_values, others)
    ]
    own = [Filled(words="the writer's own making", position=position, fill=None) for position in BloomPosition]
    unreadable = [
        Filled(
            words="all values, and of no whole blocks",
            position=BloomPosition.INLINED,
            fill=fills[all_values],
            size_bytes=SMALL_BYTES + 1,
            has_checksums=has_checksums,
        )
        for has_checksums in (True, False)
    ]
    return (*own, *made, *elsewhere, *unreadable)


@functools.cache
def filtered_columns() -> tuple[Offered, ...]:
    """Return values of the documented Arrow type, without those that are long, for each type that can have a filter."""
    types = [column for column in offered_columns() if column.type != "BOOLEAN" and "[]" not in column.type]
    return tuple(column.values[0] for column in types)


@functools.cache
def stored_row_groups() -> tuple[Chunks, ...]:
    """Return the values of all columns in each row group."""
    columns = [[None if key is None else plain(each.type, key) for key in keys] for each, keys in _columns()]
    return tuple([keys[first : first + GROUP_ROWS] for keys in columns] for first in range(0, ROW_COUNT, GROUP_ROWS))


def problem_of(case: Filled) -> str | None:
    """Say which filter is not there, is reported without need, or is wrong without a report; None if none is."""
    table = _table(case)
    with replaced(REPORTED_MAX, 1000):
        problems = verify_table(table).all_problems
    reported = Counter((each.field, each.actual) for each in problems)
    wanted = Counter(() if case.fill is None else _wrong(case))
    for place in wanted - reported:
        return f"verify does not report that of {' '.join(place)}"
    needless = reported - wanted
    for each in problems:
        if (each.field, each.actual) in needless:
            return f"verify reports {each}"
    return next(_not_there(case, table), None) if case.fill is None else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a verification without filters, and of one and a writer that hash other bytes."""
    verify, bloom = "tornproof.impl.verify.pages", "tornproof.impl.parquet.bloom"
    controls: Controls = (
        ("no filter is looked at", f"{verify}:filter_of", lambda *_: None),
        ("no value is missing", f"{verify}:missing_values", lambda *_: 0, "verify does not report that of"),
        ("a value is always missing", f"{verify}:missing_values", lambda *_: 1, "verify reports"),
        ("filters are made and looked at with another prime", f"{bloom}:PRIME_3", 1),
    )
    return not_noticed(controls, problem_of, filled())


def _columns() -> Iterator[tuple[Offered, list[Key | None]]]:
    """Yield columns and their rows, with some nulls where there may be some."""
    for number, column in enumerate(filtered_columns()):
        keys = [key for key in column.keys or () if not isinstance(key, (str, bytes)) or len(key) <= VALUE_BYTES_MAX]
        rows: list[Key | None] = [keys[row % len(keys)] for row in range(ROW_COUNT)]
        if column.array.type not in (pa.int8(), pa.int16(), pa.uint16()):
            rows[3 + number % 2 :: 4] = [None] * len(rows[3 + number % 2 :: 4])
        yield column, rows


def _table(case: Filled) -> Table:
    storage = MemoryStorage()
    columns = [*_columns()]
    names = [f"c{number}" for number in range(len(columns))]
    types = {name: each.type for name, (each, _) in zip(names, columns, strict=True)}
    table = new_table(storage, PATH, {TIME: "TIMESTAMP", **types})
    arrays = []
    for each, keys in columns:
        of = each.array.type
        storage_type = pa.int64() if pa.types.is_timestamp(of) else getattr(of, "storage_type", of)
        arrays.append(pa.array(keys, storage_type).cast(of))
    rows = pa.table({TIME: range(FIRST_TIME, FIRST_TIME + ROW_COUNT), **dict(zip(names, arrays, strict=True))})
    blooms = BloomOptions(columns=dict.fromkeys(names, RATE), position=case.position)
    encoding = EncodeOptions(page_checksums=case.has_checksums)
    options = WriterOptions(row_group_row_count_max=GROUP_ROWS, blooms=blooms, encoding=encoding)
    with open_writer_of_copy(storage, PATH, options=options) as writer:
        writer.write(rows)
        if case.fill is None:
            writer.commit()
            return table
        filters = case.filters()
        with replaced(FILTERS, lambda *_: next(filters)):
            writer.commit()
    needed(next(filters, None) is None, "there are fewer row groups than rows need")
    return table


def _wrong(case: Filled) -> Iterator[tuple[str, str]]:
    """Yield, in words of `verify`, which filters do not have all values, and how many they lack, or cannot be read."""
    filters = case.filters()
    if case.size_bytes % SMALL_BYTES:
        yield from (("bloom bitset LENGTH", str(len(each))) for each in filters)
        return
    for ordinal, chunks in enumerate(stored_row_groups()):
        for number, values in enumerate(chunks):
            bitset, there = next(filters), [each for each in values if each is not None]
            of = filtered_columns()[number].type
            missing = sum(
                not any(may_be_in(bitset, xxhash.xxh64_intdigest(as_)) for as_ in _looked_for(of, each))
                for each in there
            )
            if missing:
                field = f"bloom filter of column 'c{number}' of row group {ordinal}"
                yield field, f"{missing} of {len(there)} that are not"


def _looked_for(of: str, value: bytes) -> tuple[bytes, ...]:
    """Return as what a value may be in a filter: servers look for -0.0 as 0.0."""
    is_negative_zero = of in FLOATS and value == bytes(len(value) - 1) + b"\x80"
    return (value, bytes(len(value))) if is_negative_zero else (value,)


def _not_there(case: Filled, table: Table) -> Iterator[str]:
    """Yield the filters that a writer has not made, or made otherwise."""
    partition = the_only(table.transaction().partitions)
    files = table.files_of(partition)
    contents: dict[str, bytes] = {}
    for name in FILES[case.position]:
        with table.storage.open_for_reading(f"{files.path}/{name}") as file:
            contents[name] = file.pread(file.size_bytes(), 0)
    for chunks in stored_row_groups():
        for column, values in zip(filtered_columns(), chunks, strict=True):
            stored = [each for each in values if each is not None]
            hashes = [xxhash.xxh64_intdigest(as_) for each in stored for as_ in _looked_for(column.type, each)]
            # How large a filter is, is nothing that a reader relies on.
            filters = [filter_of(hashes, size_bytes) for size_bytes in OWN_BYTES]
            for name, content in contents.items():
                if not any(each in content for each in filters):
                    yield f"{name} has no filter of a column of the type {column.type}"
