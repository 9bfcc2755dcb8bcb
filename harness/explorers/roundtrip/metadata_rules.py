"""Whether the check of a metadata file names what breaks each rule of docs/format.md, and nothing at its limit."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.roundtrip.metadata_draft import (
    CHUNK_BYTES,
    EXTERNAL_BLOOMS,
    FIRST_BYTE,
    GROUP_ROWS,
    INLINED_BLOOMS,
    SORTED_BY_TIMESTAMP,
    Draft,
    DraftChunk,
    DraftColumn,
)
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.chain import decode_metadata, resolve
from tornproof.impl.pm.check import check_metadata

PROPERTY = "the check of a metadata file names each broken rule, and nothing else"
FILE = "_pm"
TIMESTAMP, WHOLE, LIST, REAL = range(4)
"""The columns of a draft: a required one, one of other writers, one of lists, and one with a given type."""
INT64, INT32, DOUBLE = 2, 1, 5
GROUPS = range(3)
DESCENDING, KNOWN_ENCODINGS = 16, 63
BLOCK, BLOOM = "block_offset", "bloom reference"
BLOCK_BYTES, BITSET_BYTES = 8 + 4 * 64, 40
"""What a block and a filter take, with what comes before the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change of a sound file, and the fields that are wrong then, one for each problem; none if it stays sound."""

    name: str
    change: Callable[[Draft], None]
    field: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pair of a minimum and a maximum of a type, the lesser one first, as Parquet stores them."""

    name: str
    type: int
    physical: int
    low: bytes
    high: bytes
    fixed_bytes: int = 0
    is_ordered: bool = True


def _bounds() -> tuple[Bounds, ...]:
    pack = struct.pack
    return (
        Bounds("BYTE", 2, INT32, pack("<i", -5), pack("<i", 3)),
        Bounds("INT", 5, INT32, pack("<i", -(1 << 31)), pack("<i", 256)),
        Bounds("LONG", 6, INT64, pack("<q", -1), pack("<q", 1 << 40)),
        Bounds("CHAR", 4, INT32, pack("<i", 7), pack("<i", 0xFFFF)),
        Bounds("IPv4", 25, INT32, pack("<I", 1 << 30), pack("<I", 1 << 31)),
        Bounds("BOOLEAN", 1, 0, b"\0", b"\1"),
        Bounds("FLOAT", 9, 4, pack("<f", -2.5), pack("<f", -0.5)),
        Bounds("DOUBLE", 10, DOUBLE, pack("<d", -1e300), pack("<d", 1e-300)),
        Bounds("VARCHAR", 26, 6, b"a", b"a" * 9),
        Bounds("BINARY", 18, 6, b"\x7f\xff", b"\x80"),
        Bounds("UUID", 19, 7, b"\x01" + bytes(15), b"\x80" + bytes(15), 16),
        Bounds("DECIMAL64", 31, 7, pack(">q", -(1 << 40)), pack(">q", 1), 8),
        Bounds("DECIMAL of other writers", 31, 6, b"\xff", b"\x01\x00"),
        Bounds("a fixed length without a type", -1, 7, b"\1\2", b"\3\4", 2, False),
        Bounds("INT96", 8, 3, pack("<q", 5), pack("<q", 9), 0, False),
    )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all changes."""
    return (*_of_columns(), *_of_footers(), *_of_blocks(), *_of_filters(), *_of_chunks(), *_of_order(), *_of_bounds())


@errors_as_problems
def problem_of(rule: Rule) -> str | None:
    """Say what is wrong with the answer of the check; None if nothing is."""
    draft = _sound()
    rule.change(draft)
    return _problem_in(draft, rule.field)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of an answer that is wrong in either way."""
    broken = _draft(unused_bytes=_sound().footer_offset + 1)
    for rule in (
        Rule(name="a broken rule of which nothing is expected", change=broken),
        Rule(name="a broken rule of which another field is expected", change=broken, field="num_values"),
        Rule(name="a sound file of which a field is expected", change=_draft(), field="num_values"),
    ):
        if problem_of(rule) is None:
            yield f"{rule.name}: not noticed"


def _problem_in(draft: Draft, field: str) -> str | None:
    content = draft.encoded()
    try:
        position = resolve(content, draft.token, file=FILE).position
        metadata = decode_metadata(content, position, file=FILE)
        problems = list(check_metadata(content, metadata, file=FILE))
    except CorruptError as error:
        problems = [error.problem]
    found = ", ".join(sorted(problem.field.partition(" of ")[0].lower() for problem in problems))
    return None if found == field else f"{found or 'nothing'} is reported, instead of {field or 'nothing'}"


def _sound() -> Draft:
    """Return a file that breaks no rule, whose chunks follow one another."""
    columns = [
        DraftColumn(name="time", id=0, type=8, physical=INT64, max_def=0, flags=0),
        DraftColumn(name="whole", id=-1, type=5, physical=INT32),
        DraftColumn(name="list", id=2, type=-1, physical=DOUBLE, max_rep=1, max_def=2, flags=8),
        DraftColumn(name="real", id=3, type=10, physical=DOUBLE),
    ]
    groups = []
    for group in GROUPS:
        starts = [FIRST_BYTE + CHUNK_BYTES * (group * len(columns) + index) for index in range(len(columns))]
        groups.append([DraftChunk(start=start, nulls=0) for start in starts])
        groups[-1][TIMESTAMP].low, groups[-1][TIMESTAMP].high = _times(group * 100, group * 100 + 50)
    return Draft(columns=columns, groups=groups, footer_offset=FIRST_BYTE + CHUNK_BYTES * len(GROUPS) * len(columns))


def _times(low: int, high: int) -> tuple[bytes, bytes]:
    return struct.pack("<q", low), struct.pack("<q", high)


def _set(of: Callable[[Draft], object], **values: object) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        for name, value in values.items():
            setattr(of(draft), name, value)

    return change


def _draft(**values: object) -> Callable[[Draft], None]:
    return _set(lambda draft: draft, **values)


def _column(index: int, **values: object) -> Callable[[Draft], None]:
    return _set(lambda draft: draft.columns[index], **values)


def _chunk(group: int, index: int, **values: object) -> Callable[[Draft], None]:
    return _set(lambda draft: draft.groups[group][index], **values)


def _all(*changes: Callable[[Draft], None]) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        for each in changes:
            each(draft)

    return change


def _of_columns() -> Iterator[Rule]:
    explicit = _draft(flags=0, sorting=(TIMESTAMP, REAL))
    for name, change, field in (
        ("nothing that is changed", _draft(), ""),
        ("sorting columns that are listed", explicit, ""),
        ("a second sorting column that descends", _all(explicit, _column(REAL, flags=4 | DESCENDING)), ""),
        ("a designated timestamp that comes second", _draft(flags=0, sorting=(REAL, 0)), "designated_timestamp"),
        ("a designated timestamp that is not sorted by", _draft(flags=0), "designated_timestamp"),
        ("no designated timestamp", _draft(flags=0, timestamp=-1), ""),
        ("sorting columns and no timestamp", _draft(flags=0, timestamp=-1, sorting=(REAL,)), ""),
        ("a designated timestamp that descends", _all(explicit, _column(0, flags=DESCENDING)), "flags"),
        ("a designated DATE", _column(TIMESTAMP, type=7), ""),
        ("a designated timestamp of other writers", _column(TIMESTAMP, type=-1), ""),
        ("a designated LONG", _column(TIMESTAMP, type=6), "type"),
        ("a designated VARCHAR", _column(TIMESTAMP, type=26), "type"),
        ("a fixed length without bytes", _column(REAL, type=-1, physical=7), "fixed_byte_len"),
        ("a fixed length", _column(REAL, type=-1, physical=7, fixed_bytes=3), ""),
        ("bytes of a type that has its own width", _column(REAL, fixed_bytes=8), "fixed_byte_len"),
        ("as many levels of repetition as of definition", _column(LIST, max_rep=2), ""),
        ("more levels of repetition than of definition", _column(LIST, max_rep=3), "max_rep_level"),
    ):
        yield Rule(name=name, change=change, field=field)


def _of_footers() -> Iterator[Rule]:
    limit, empty = _sound().footer_offset, _draft(groups=[], place=[], rows=[])
    for name, change, field in (
        ("a file without row groups", _all(empty, _draft(footer_offset=FIRST_BYTE)), ""),
        ("a footer within the magic", _all(empty, _draft(footer_offset=FIRST_BYTE - 1)), "parquet_footer_offset"),
        ("unused bytes up to the footer", _draft(unused_bytes=limit), ""),
        ("unused bytes and one of the footer", _draft(unused_bytes=limit + 1), "unused_bytes"),
    ):
        yield Rule(name=name, change=change, field=field)


def _of_blocks() -> Iterator[Rule]:
    long = _chunk(0, REAL, low=b"\1" * 16, high=b"\2" * 16)
    texts = _all(_column(REAL, type=26, physical=6), long)
    for name, change, field in (
        ("blocks in another order", _draft(place=[2, 0, 1]), ""),
        ("texts behind a block", texts, ""),
        ("blocks in another order, with texts", _all(texts, _draft(place=[1, 0, 2])), ""),
    ):
        yield Rule(name=name, change=change, field=field)


def _of_filters() -> Iterator[Rule]:
    inlined = SORTED_BY_TIMESTAMP | INLINED_BLOOMS
    external, limit = SORTED_BY_TIMESTAMP | EXTERNAL_BLOOMS, _sound().footer_offset
    own = dict.fromkeys(GROUPS, (0, 0))
    apart_bytes = BLOCK_BYTES + BITSET_BYTES
    for name, bitsets, blooms, field in (
        ("filters of all row groups", (0, 1, 2), own, ""),
        ("a filter of one row group", (1,), {1: (0, 0)}, ""),
        ("a filter that nothing refers to", (0, 1, 2), {0: (0, 0), 2: (0, 0)}, ""),
        ("the filter of the row group before", (0, 1, 2), {**own, 1: (-apart_bytes, 0)}, f"{BLOOM}, {BLOOM}"),
        ("a filter in the block before", (0, 1, 2), {0: (0, 0), 2: (-apart_bytes, 0)}, BLOOM),
        ("the filter of the row group behind", (0, 1, 2), {**own, 1: (apart_bytes, 0)}, f"{BLOCK}, {BLOOM}"),
        ("a filter in the block behind", (0, 1, 2), {0: (apart_bytes, 0), 2: (0, 0)}, BLOCK),
    ):
        change = _draft(flags=inlined, bitsets=bitsets, blooms=blooms)
        yield Rule(name=name, change=change, field=field)
    for name, offset, length, field in (
        ("begins after the magic", FIRST_BYTE, 32, ""),
        ("begins in the magic", FIRST_BYTE - 1, 32, BLOOM),
        ("ends at the footer", limit - 32, 32, ""),
        ("ends in the footer", limit - 31, 32, BLOOM),
        ("is longer than all numbers", FIRST_BYTE, (1 << 64) - 32, BLOOM),
    ):
        for group in GROUPS:
            blooms = {group: (offset, length)}
            yield Rule(
                name=f"a filter of row group {group} in data.parquet that {name}",
                change=_draft(flags=external, blooms=blooms),
                field=field,
            )


def _of_chunks() -> Iterator[Rule]:
    limit, last = _sound().footer_offset, GROUPS[-1]
    for group in GROUPS:
        of = f"of row group {group}"
        for name, index, values, field in (
            ("a value less", WHOLE, {"values": GROUP_ROWS - 1}, "num_values"),
            ("a value more", REAL, {"values": GROUP_ROWS + 1}, "num_values"),
            ("more values in lists than rows", LIST, {"values": GROUP_ROWS + 5}, ""),
            ("fewer values in lists than rows", LIST, {"values": GROUP_ROWS - 5}, ""),
            ("nothing but nulls", REAL, {"nulls": GROUP_ROWS}, ""),
            ("more nulls than values", REAL, {"nulls": GROUP_ROWS + 1}, "null_count"),
            ("a null in a required column", TIMESTAMP, {"nulls": 1}, "null_count"),
            ("nulls that are not counted", REAL, {"nulls": None}, ""),
            ("values that all differ", REAL, {"distinct": GROUP_ROWS}, ""),
            ("more values that differ than there are", REAL, {"distinct": GROUP_ROWS + 1}, "distinct_count"),
            ("all encodings that are known", WHOLE, {"encodings": KNOWN_ENCODINGS}, ""),
            ("an encoding that nobody knows", WHOLE, {"encodings": 1 | 64}, "encodings"),
            ("the last bit of encodings", REAL, {"encodings": 1 | 128}, "encodings"),
            ("a byte before its chunk", WHOLE, {"size_bytes": CHUNK_BYTES + 1}, "byte_range_start"),
            ("no bytes, and values", WHOLE, {"size_bytes": 0}, ""),
        ):
            yield Rule(name=f"{name} {of}", change=_chunk(group, index, **values), field=field)
        nothing = [_chunk(group, index, values=0, nulls=0, start=0, size_bytes=0) for index in range(4)]

        def without_rows(draft: Draft, group: int = group) -> None:
            draft.rows[group] = 0

        yield Rule(name=f"no rows, and no bytes, {of}", change=_all(without_rows, *nothing))
        flat = ", ".join(["num_values"] * 3)
        yield Rule(name=f"one row less in the block {of}", change=_rows(group, GROUP_ROWS - 1), field=flat)
    for name, change, field in (
        ("a chunk within the magic", _chunk(0, 0, start=FIRST_BYTE - 1), "byte_range_start"),
        ("a chunk at the end", _chunk(last, REAL, start=limit - 1, size_bytes=1), ""),
        ("a chunk in the footer", _chunk(last, REAL, start=limit, size_bytes=1), "total_compressed"),
        ("two chunks in the same place", _chunk(last, REAL, start=FIRST_BYTE), "byte_range_start"),
        ("chunks in another order", _all(_chunk(0, 1, start=204), _chunk(0, 2, start=104)), ""),
        ("a chunk of no bytes elsewhere", _chunk(1, LIST, size_bytes=0, start=FIRST_BYTE + 1), ""),
        (
            "a chunk that reaches over two",
            _chunk(0, 0, size_bytes=3 * CHUNK_BYTES),
            "byte_range_start, byte_range_start",
        ),
        ("an empty chunk elsewhere", _chunk(1, LIST, values=0, nulls=0, start=FIRST_BYTE), ""),
    ):
        yield Rule(name=name, change=change, field=field)


def _rows(group: int, count: int) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        draft.rows[group] = count

    return change


def _of_order() -> Iterator[Rule]:
    explicit = _draft(flags=0, sorting=(TIMESTAMP,))

    def times(group: int, low: int, high: int) -> Callable[[Draft], None]:
        first, last = _times(low, high)
        return _chunk(group, TIMESTAMP, low=first, high=last)

    unknown = _chunk(1, TIMESTAMP, low=None, high=None)
    half = _chunk(1, TIMESTAMP, high=None)
    for name, change, field in (
        ("a row group that begins when the one before ends", times(1, 50, 60), ""),
        ("a row group that begins before the one before ends", times(1, 49, 60), "min_stat"),
        ("the last row group before the one before", times(2, 149, 300), "min_stat"),
        ("the last row group before all others", times(2, -5, -1), "min_stat"),
        ("a row group without times", unknown, ""),
        (
            "the last row group before the first one, without times between",
            _all(unknown, times(2, 49, 300)),
            "min_stat",
        ),
        ("the last row group after the first one, without times between", _all(unknown, times(2, 50, 300)), ""),
        ("the last row group before the first one, with one time between", _all(half, times(2, 49, 300)), "min_stat"),
        ("row groups in any order where sorting columns are listed", _all(explicit, times(2, 0, 1)), ""),
    ):
        yield Rule(name=name, change=change, field=field)


def _of_bounds() -> Iterator[Rule]:
    for each in _bounds():
        column = _column(REAL, type=each.type, physical=each.physical, fixed_bytes=each.fixed_bytes)
        for group in GROUPS:
            of = f"of {each.name} in row group {group}"
            for name, low, high, is_sound in (
                ("bounds", each.low, each.high, True),
                ("bounds that are one value", each.high, each.high, True),
                ("bounds in the wrong order", each.high, each.low, not each.is_ordered),
                ("a minimum alone", each.high, None, True),
                ("a maximum alone", None, each.low, True),
            ):
                field = "" if is_sound else "min_stat"
                change = _all(column, _chunk(group, REAL, low=low, high=high))
                yield Rule(name=f"{name} {of}", change=change, field=field)
            if each.physical != 6:
                longer = _all(column, _chunk(group, REAL, low=each.low, high=each.high + b"\0"))
                yield Rule(name=f"a maximum with a byte more {of}", change=longer, field="min_stat")
    nan, least = struct.pack("<d", float("nan")), struct.pack("<d", 1.0)
    yield Rule(name="a minimum that is no number", change=_chunk(0, REAL, low=nan, high=least))
    signed = [struct.pack("<i", value) for value in (0, -1, -2, 5, 3)]
    zero, less, least_of_all, five, three = signed
    for name, writer_index, low, high, field in (
        ("that are in order as unsigned numbers, of other writers", -1, zero, less, ""),
        ("that are in order as unsigned numbers, of a table", 0, zero, less, "min_stat"),
        ("in the wrong order below 0, of other writers", -1, less, least_of_all, "min_stat"),
        ("in the wrong order above 0, of other writers", -1, five, three, "min_stat"),
        ("in the wrong order down to 0, of other writers", -1, five, zero, "min_stat"),
        ("from a negative number to a greater one, of other writers", -1, less, five, ""),
    ):
        change = _all(_column(WHOLE, id=writer_index), _chunk(1, WHOLE, low=low, high=high))
        yield Rule(name=f"bounds {name}", change=change, field=field)
