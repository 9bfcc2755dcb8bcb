"""Whether the check of a metadata file names what breaks each rule of docs/format.md, and nothing at its limit."""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    BITSET,
    CHUNK_BYTES,
    CHUNK_FIELDS,
    COLUMN_FIELDS,
    DESCENDING,
    ENTRY_FIELDS,
    EXTERNAL_BLOOMS,
    FIRST_BYTE,
    FOOTER_FIELDS,
    GROUP_ROWS,
    HEADER_BYTES,
    HEADER_FIELDS,
    INLINED_BLOOMS,
    SLOT_BYTES,
    SORTED_BY_TIMESTAMP,
    THRIFT_BYTES,
    WORD_BYTES,
    Draft,
    DraftChunk,
    DraftColumn,
    chunk_start,
)
from tornproof.harness.explorers.roundtrip.metadata.views import view_problems
from tornproof.impl.errors import Problem, ProblemError
from tornproof.impl.pm.chain import Metadata, decode_metadata, resolve
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.statistics import proven_bounds
from tornproof.impl.pm.view import MetadataView

PROPERTY = "the check of a metadata file names each broken rule, and nothing else"
FILE = "_pm"
CHECK, VIEW = f"{__name__}:check_metadata", "tornproof.harness.explorers.roundtrip.metadata.views:open_view"
ENCODE = "tornproof.harness.explorers.roundtrip.metadata.generations:encode_file"
TIMESTAMP, WHOLE, LIST, REAL = range(4)
"""The columns of a draft: a required one, one of other writers, one of lists, and one with a given type."""
INT64, INT32, DOUBLE = 2, 1, 5
ARRAY_OF_DOUBLES = 27 | 10 << 8
GROUPS = range(3)
KNOWN_ENCODINGS = 63
NOT_KEPT = (
    "a filter of one byte",
    "a filter that nothing refers to",
    "a long bound of no bytes",
    "blocks in another order",
    "bounds that are said not to be there",
)
"""What the encoder leaves out, or lays out in its own order; all else must be the same bytes when encoded again."""
COUNTERS = (0, 1, -1, 7, 1 << 40)
WITHOUT_SECTION: dict[str, Any] = {"footer_flags": 0, "sections": b""}
TRANSACTION: dict[str, Any] = {"footer_flags": 1, "sections": struct.pack("<q", 7)}
NOTED: dict[str, Any] = {"footer_flags": 2, "sections": struct.pack("<III", 1, 9, 0)}
"""What a footer has besides its entries."""
INTEGERS = {"INT": (5, INT32, "<i"), "LONG": (6, INT64, "<q")}
NUMBER = r"\d+"
BITSET_LENGTH = "bloom bitset length"
BLOCK, BLOOM = "block_offset", "bloom reference"
BLOCK_BYTES, BITSET_BYTES = chunk_start(0, 4), 40
"""What a block and a filter take, with what comes before the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change of a sound file, and the fields that are wrong then, one for each problem; none if it stays sound."""

    name: str
    change: Callable[[Draft], None]
    field: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pair of a minimum and a maximum of a type, the lesser one first, as Parquet stores them.

    `values` are what they say of the values that are read, None if nothing; without `has_maximum`, the minimum alone
    says it.
    """

    name: str
    type: int
    physical: int
    low: bytes
    high: bytes
    values: tuple[object, object] | None
    fixed_bytes: int = 0
    is_ordered: bool = True
    has_maximum: bool = True


@functools.cache
def bounds_of_types() -> tuple[Bounds, ...]:
    """Return bounds of each type that compares in its own way."""
    pack, large = struct.pack, 1 << 40
    least, most = b"\x01" + bytes(15), b"\x80" + bytes(15)
    return (
        Bounds("BYTE", 2, INT32, pack("<i", -5), pack("<i", 3), (-5, 3)),
        Bounds("INT", 5, INT32, pack("<i", -(1 << 31)), pack("<i", 256), (-(1 << 31), 256)),
        Bounds("LONG", 6, INT64, pack("<q", -1), pack("<q", large), (-1, large)),
        Bounds("DATE", 7, INT64, pack("<q", -1), pack("<q", large), (-1, large)),
        Bounds("DATE of days", 7, INT32, pack("<i", -1), pack("<i", 2), (-86_400_000, 172_800_000)),
        Bounds("CHAR", 4, INT32, pack("<i", 7), pack("<i", 0xFFFF), (7, 0xFFFF)),
        Bounds("low IPv4", 25, INT32, pack("<I", 1), pack("<I", 1 << 30), (1, 1 << 30)),
        Bounds("high IPv4", 25, INT32, pack("<I", 1 << 31), pack("<I", (1 << 32) - 2), (1 << 31, (1 << 32) - 2)),
        # Earlier servers compared them as signed numbers.
        Bounds("IPv4", 25, INT32, pack("<I", 1 << 30), pack("<I", 1 << 31), (1 << 30, 1 << 31), is_ordered=False),
        Bounds("BOOLEAN", 1, 0, b"\0", b"\1", (0, 1)),
        Bounds("FLOAT", 9, 4, pack("<f", -2.5), pack("<f", -0.5), (-2.5, -0.5)),
        Bounds("DOUBLE", 10, DOUBLE, pack("<d", -1e300), pack("<d", 1e-300), (-1e300, 1e-300)),
        Bounds("VARCHAR", 26, 6, b"a", b"a" * 9, (b"a", b"a" * 9)),
        # Maxima of BINARY are below some values in files of many releases.
        Bounds("BINARY", 18, 6, b"\x7f\xff", b"\x80", (b"\x7f\xff", b"\x80"), is_ordered=False, has_maximum=False),
        Bounds("UUID", 19, 7, least, most, (least, most), 16),
        Bounds("DECIMAL64", 31, 7, pack(">q", -large), pack(">q", 1), (-large, 1), 8),
        Bounds("DECIMAL of other writers", 31, 6, b"\xff", b"\x01\x00", None),
        Bounds("a fixed length without a type", -1, 7, b"\1\2", b"\3\4", None, 2, False),
        Bounds("INT96", 8, 3, pack("<q", 5), pack("<q", 9), None, 0, False),
        Bounds("an array", ARRAY_OF_DOUBLES, 6, b"a", b"b", None),
    )


def proven(each: Bounds, low: bytes | None, high: bytes | None) -> tuple[object, object]:
    """Return what the implementation makes of bounds of that type."""
    draft = _sound()
    _all(_typed(each), _chunk(0, REAL, low=low, high=high))(draft)
    metadata = _decoded(draft.encoded(), draft.token)
    return proven_bounds(metadata.header.columns[REAL], metadata.blocks[0].chunks[REAL])


def _decoded(content: bytes, token: int) -> Metadata:
    return decode_metadata(content, resolve(content, token, file=FILE).position, file=FILE)


def _typed(each: Bounds) -> Callable[[Draft], None]:
    return _column(REAL, type=each.type, physical=each.physical, fixed_bytes=each.fixed_bytes)


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all changes."""
    return (
        *_of_records(),
        *_of_columns(),
        *_of_footers(),
        *_of_blocks(),
        *_of_generations(),
        *_of_filters(),
        *_of_chunks(),
        *_of_order(),
        *_of_bounds(),
    )


@errors_as_problems
def problem_of(rule: Rule) -> str | None:
    """Say what is wrong with the answer of the check; None if nothing is."""
    draft, field = _sound(), rule.field
    rule.change(draft)
    content = draft.encoded()
    try:
        metadata = _decoded(content, draft.token)
        problems = list(check_metadata(content, metadata, file=FILE))
    except ProblemError as error:
        problems = [error.problem]
    found = ", ".join(sorted(problem.field.partition(" of ")[0].lower() for problem in problems))
    if not found and not rule.name.startswith(NOT_KEPT) and reencode_generations(content, file=FILE).mismatches:
        return "it is encoded in another way"
    if not found and (seen := [problem for _, problem in view_problems(content, file=FILE)]):
        return f"seen in parts, {seen[0]}"
    if found != field:
        return f"{found or 'nothing'} is reported, instead of {field or 'nothing'}"
    return next(filter(None, (_misplaced(problem, draft) for problem in problems)), None)


def _misplaced(problem: Problem, draft: Draft) -> str | None:
    """Say where a field is that is said to be elsewhere; None if it is there, or no single place is known."""
    name, _, of = problem.field.partition(" of ")
    column = re.search(r"column (?:'(\w+)'|(\d+))", of)
    group = re.search(r"row group (\d+)", of)
    names = [each.name for each in draft.columns]
    index = NUMBER if column is None else str(names.index(column[1]) if column[1] else column[2])
    places = {
        "header": HEADER_FIELDS,
        f"column {index}": COLUMN_FIELDS,
        rf"chunk {group[1] if group else NUMBER} {index}": CHUNK_FIELDS,
        f"entry {group[1] if group else NUMBER}": ENTRY_FIELDS,
        "footer": FOOTER_FIELDS,
    }
    known = [
        draft.at[place] + fields[name.lower()]
        for pattern, fields in places.items()
        for place in draft.at
        if re.fullmatch(pattern, place) and name.lower() in fields
    ]
    is_there = not known or problem.offset_bytes in known
    return None if is_there else f"{problem.field} is said to be at byte {problem.offset_bytes}, and is at {known}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of an answer that is wrong in either way, and of what is said of a sound file."""
    check, encode, view = (original_of(each) for each in (CHECK, ENCODE, VIEW))

    def turned(*of: Any, **more: Any) -> MetadataView:
        opened: MetadataView = view(*of, **more)
        return structs.replace(opened, block_offsets=opened.block_offsets[::-1])

    controls: Controls = (
        ("an encoder stops too early", ENCODE, lambda *of: encode(*of)[:-1], "it is encoded in another way"),
        ("a view has row groups in the opposite order", VIEW, turned, "seen in parts, chunk"),
        ("fields are elsewhere", CHECK, lambda *of, **more: map(_moved, check(*of, **more)), "is said to be at byte"),
    )
    views: Controls = tuple(
        (name, VIEW, _with(view, method, odd), f"seen in parts, {words}")
        for name, method, odd, words in (
            ("row groups have no rows", "row_counts", np.zeros(len(GROUPS)), "row groups have other numbers of rows"),
            ("all columns are the first", "find_column", lambda *_: TIMESTAMP, "column 'whole' is found at another"),
            ("columns are not decoded", "column", lambda *_: None, "column 'time' is another one"),
            ("no row group is read", "row_groups_between", lambda *_: [], "of times from 0 to 1, row groups [] are"),
        )
    )
    unchecked = "tornproof.impl.pm.view:check_checksum"
    checksums: Controls = (
        ("checksums are not compared", unchecked, lambda *_, **__: None, "seen in parts, after it was read, a wrong"),
    )
    yield from not_noticed((*controls, *views, *checksums), problem_of, (*_of_columns(), *_of_footers()))
    broken = _draft(unused_bytes=_sound().footer_offset + 1)
    for rule in (
        Rule(name="a broken rule of which nothing is expected", change=broken),
        Rule(name="a broken rule of which another field is expected", change=broken, field="num_values"),
        Rule(name="a sound file of which a field is expected", change=_draft(), field="num_values"),
    ):
        if problem_of(rule) is None:
            yield f"{rule.name}: not noticed"


def _with(view_of: Callable[..., MetadataView], method: str, odd: object) -> Callable[..., MetadataView]:
    """Return what opens views in which a method is another one."""
    kind = type("Odd", (MetadataView,), {method: odd}, frozen=True, kw_only=True)
    return lambda *of, **more: kind(**structs.asdict(view_of(*of, **more)))


def _moved(problem: Problem) -> Problem:
    return structs.replace(problem, offset_bytes=(problem.offset_bytes or 0) + 1)


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


def _patched(place: str, offset: int, form: str, value: int) -> Callable[[Draft], None]:
    return lambda draft: draft.patches.append((place, offset, f"<{form}", value))


def _of_records() -> Iterator[Rule]:
    """Yield what no record may say, and what it just may."""
    inlined = _draft(flags=SORTED_BY_TIMESTAMP | INLINED_BLOOMS, bitsets=(1,), blooms={1: (0, 0)})
    for name, change, field in (
        ("a feature that must be known", _draft(flags=SORTED_BY_TIMESTAMP | 1 << 33), "feature_flags"),
        (
            "a feature that need not be known",
            _draft(flags=SORTED_BY_TIMESTAMP | 1 << 9, header_extra=bytes(range(24))),
            "",
        ),
        *(
            (f"{count} squashes", _draft(flags=SORTED_BY_TIMESTAMP | 8, header_extra=struct.pack("<q", count)), "")
            for count in COUNTERS
        ),
        ("filters elsewhere, and no filters", _draft(flags=SORTED_BY_TIMESTAMP | 2), "feature_flags"),
        ("a timestamp that is no column", _draft(flags=0, timestamp=4), "designated_timestamp"),
        ("a timestamp below none", _draft(flags=0, timestamp=-2), "designated_timestamp"),
        ("the order of a timestamp, and no timestamp", _draft(timestamp=-1), "designated_timestamp"),
        ("the order of a timestamp, and a list", _draft(sorting=(TIMESTAMP,)), "sorting_column_count"),
        ("more sorting columns than columns", _draft(flags=0, sorting=(0, 1, 2, 3, 0)), "sorting_column_count"),
        ("all columns sorted by", _draft(flags=0, sorting=(0, 1, 2, 3)), ""),
        ("a sorting column that is none", _draft(flags=0, sorting=(0, 4)), "sorting_columns"),
        ("a reserved word of the header", _patched("header", 28, "I", 1), "reserved"),
        ("a reserved byte of a column", _patched("column 3", 31, "B", 1), "reserved"),
        ("the last physical type", _column(REAL, physical=7, type=-1, fixed_bytes=1), ""),
        ("a physical type that is none", _column(REAL, physical=8), "physical_type"),
        ("fewer bytes than none", _column(REAL, fixed_bytes=-1), "fixed_byte_len"),
        ("a name within the one before", _patched("column 1", 0, "Q", 160), "name_offset"),
        ("a name that is longer than the file", _patched("column 3", 24, "I", 1 << 20), "name_length"),
        ("a name that is no text", _patched("column 0", 128, "B", 0xFF), "name_strings"),
        ("filters of no column", _all(inlined, _patched("bloom columns", 0, "I", 0)), "bloom_col_count"),
        (
            "filters of more columns than there are",
            _all(inlined, _patched("bloom columns", 0, "I", 5)),
            "bloom_col_count",
        ),
        (
            "a filter of a column that is none",
            _all(inlined, _patched("bloom columns", 4, "I", 4)),
            "bloom_filter_columns",
        ),
        ("a filter of the last column", _all(inlined, _patched("bloom columns", 4, "I", 3)), ""),
        ("filters of two columns", _filters_of(0, 3), ""),
        ("filters of all columns", _filters_of(0, 1, 2, 3), ""),
        ("more filters than columns", _filters_of(0, 1, 2, 3, 3), "bloom_col_count"),
        ("filters of columns that do not ascend", _filters_of(3, 0), "bloom_filter_columns"),
        ("filters of a column twice", _filters_of(2, 2), "bloom_filter_columns"),
        ("a filter without bytes", _all(inlined, _patched("bitset 1", 0, "i", 0)), BITSET_LENGTH),
        ("a filter of less than no bytes", _all(inlined, _patched("bitset 1", 0, "i", -1)), BITSET_LENGTH),
        ("a filter of one byte", _all(inlined, _patched("bitset 1", 0, "i", 1)), ""),
        ("a filter up to the footer", _last_filter(0), ""),
        ("a filter into the footer", _last_filter(1), BITSET_LENGTH),
        ("a feature of the footer that must be known", _draft(footer_flags=1 << 33), "footer_feature_flags"),
        ("a covering index that must be known", _draft(footer_flags=1 << 32), "footer_feature_flags"),
        ("a covering index", _draft(footer_flags=4, sections=b"index"), ""),
        ("a feature of the footer without a section", _draft(footer_flags=1 << 31), ""),
        ("a section without a feature", _draft(sections=bytes(8)), "footer_length"),
        *(
            (
                f"a section of a feature of the header, with {footer_flags}",
                _draft(flags=SORTED_BY_TIMESTAMP | 1 << 9, footer_flags=footer_flags, sections=bytes(24)),
                "",
            )
            for footer_flags in range(4)
        ),
        *(
            (f"the transaction {number}", _draft(footer_flags=1, sections=struct.pack("<q", number)), "")
            for number in COUNTERS
        ),
        ("a transaction and a byte", _draft(footer_flags=1, sections=bytes(9)), "footer_length"),
        ("a note", _draft(footer_flags=2, sections=_note(4)), ""),
        ("a transaction and a note", _draft(footer_flags=3, sections=struct.pack("<q", 7) + _note(4)), ""),
        ("an empty note", _draft(footer_flags=2, sections=struct.pack("<III", 1, 9, 0)), ""),
        ("a note that is longer than it is", _draft(footer_flags=2, sections=_note(5)), "scratchpad"),
        ("no notes", _draft(footer_flags=2, sections=struct.pack("<I", 0)), "scratchpad"),
        ("more notes than there are", _draft(footer_flags=2, sections=struct.pack("<III", 2, 9, 0)), "scratchpad"),
        ("a row group more than there are", _patched("footer", 12, "I", 4), "row_group_count"),
        *(
            (f"a footer that begins {words}", _draft(footer_start=start), "footer_length")
            for words, start in (
                ("in the header", HEADER_BYTES - 1),
                ("where the file begins", 0),
                ("before the file", -WORD_BYTES),
                ("far before the file", -(1 << 31)),
            )
        ),
    ):
        yield Rule(name=name, change=change, field=field)
    yield from _of_cut_references()
    for group in GROUPS:
        yield from _of_chunk_records(group)


def _of_cut_references() -> Iterator[Rule]:
    """Yield footers that end within their references to filters, or before these."""
    for (where, bits, reference_bytes), columns in itertools.product(
        (("the file", INLINED_BLOOMS, 4), ("data.parquet", EXTERNAL_BLOOMS, 16)), ((0,), (0, 3), (0, 1, 2, 3))
    ):
        whole = reference_bytes * len(columns) * len(GROUPS)
        for missing in sorted({0, 1, reference_bytes, whole - 1}):
            yield Rule(
                name=f"references to filters of {len(columns)} columns in {where} that lack {missing} bytes",
                change=_draft(
                    flags=SORTED_BY_TIMESTAMP | bits, bloom_columns=columns, references=bytes(whole - missing)
                ),
                field="row_group_count" if missing else "",
            )


def _of_chunk_records(group: int) -> Iterator[Rule]:
    place = f"chunk {group} {WHOLE}"
    bounds = _chunk(group, WHOLE, low=struct.pack("<i", 1), high=struct.pack("<i", 2))
    texts = _column(REAL, type=26, physical=6)
    long = _all(texts, _chunk(group, REAL, low=b"a" * 16, high=b"b" * 16))
    last = f"chunk {group} {REAL}"
    twice = [_patched(last, 2, "B", 0x89), _patched(last, 56, "Q", 16)]
    for name, change, field in (
        ("the last codec", _patched(place, 0, "B", 7), ""),
        ("a codec that is none", _patched(place, 0, "B", 8), "codec"),
        ("a reserved word", _patched(place, 4, "I", 1), "reserved"),
        ("a minimum of no bytes", _all(bounds, _patched(place, 3, "B", 0x40)), "stat_sizes"),
        ("a maximum of no bytes", _all(bounds, _patched(place, 3, "B", 0x04)), "stat_sizes"),
        ("a minimum of nine bytes", _all(bounds, _patched(place, 3, "B", 0x49)), "stat_sizes"),
        ("a maximum of nine bytes", _all(bounds, _patched(place, 3, "B", 0x94)), "stat_sizes"),
        ("a byte behind the minimum", _all(bounds, _patched(place, 52, "B", 1)), "min_stat"),
        ("a byte behind the maximum", _all(bounds, _patched(place, 60, "B", 1)), "max_stat"),
        ("bounds that are said not to be there", _all(bounds, _patched(place, 2, "B", 0x92)), ""),
        ("long bounds", long, ""),
        ("a long bound behind its region", _all(long, _patched(last, 48, "Q", 16 | 1 << 36)), "min_stat"),
        ("a long bound of which another is a part", _all(long, _patched(last, 48, "H", 40)), "min_stat"),
        ("one text for both bounds", _all(texts, _chunk(group, REAL, low=b"a" * 16), *twice), "max_stat"),
        ("a long bound of no bytes", _all(long, _patched(last, 48, "H", 0)), ""),
    ):
        yield Rule(name=f"{name} in row group {group}", change=change, field=field)


def _note(length: int) -> bytes:
    return struct.pack("<III", 1, 9, length) + b"note"


def _filters_of(*columns: int) -> Callable[[Draft], None]:
    references = bytes(4 * len(columns) * len(GROUPS))
    return _draft(flags=SORTED_BY_TIMESTAMP | INLINED_BLOOMS, bloom_columns=columns, references=references)


def _last_filter(more_bytes: int) -> Callable[[Draft], None]:
    """Return a change after which the last filter ends so many bytes after the footer begins."""
    last = _draft(flags=SORTED_BY_TIMESTAMP | INLINED_BLOOMS, bitsets=(2,), blooms={2: (0, 0)})
    return _all(last, _patched("bitset 2", 0, "i", len(BITSET) + more_bytes))


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
    squashes = _draft(flags=SORTED_BY_TIMESTAMP | 8, header_extra=struct.pack("<q", GROUP_ROWS))
    behind = _all(squashes, _column(REAL, name="real number"))
    for name, change, field in (
        ("a block 4 GiB behind another one", _patched("entry 0", SLOT_BYTES - 1, "B", 1 << 5), "row group block"),
        ("a block right behind the header", behind, ""),
        ("a block whose rows are the squashes of the header", _all(behind, _draft(shared_bytes=WORD_BYTES)), BLOCK),
        ("blocks in another order", _draft(place=[2, 0, 1]), ""),
        ("texts behind a block", texts, ""),
        ("blocks in another order, with texts", _all(texts, _draft(place=[1, 0, 2])), ""),
    ):
        yield Rule(name=name, change=change, field=field)


def _of_generations() -> Iterator[Rule]:
    unknown = _draft(flags=SORTED_BY_TIMESTAMP | 1 << 9, header_extra=bytes(range(24)))
    for name, place, change, field in (
        ("another generation with blocks of its own", [0, 1, 2], _draft(), ""),
        ("another generation with a block of its own", [2], _draft(), ""),
        ("another generation without a block of its own", [], _draft(), ""),
        ("blocks of its own, and a feature that need not be known", [0, 1, 2], unknown, ""),
        ("old blocks, and a feature that need not be known", [0], unknown, ""),
        ("a wrong count in a block of its own", [1], _chunk(1, WHOLE, values=9), "num_values"),
    ):
        yield Rule(name=f"{name}, after {len(place)} blocks", change=_grown(place, change), field=field)
    for older, newer in itertools.permutations((WITHOUT_SECTION, TRANSACTION, NOTED), 2):
        words = f"sections of {len(newer['sections'])} bytes, of {len(older['sections'])} before"
        yield Rule(name=f"a footer said anew with {words}", change=_restated(older, newer))


def _grown(place: list[int], change: Callable[[Draft], None]) -> Callable[[Draft], None]:
    """Return a change to one more generation; what its header has, that of the one before has, too."""

    def grow(draft: Draft) -> None:
        draft.older = _sound()
        draft.place, draft.footer_offset = place, draft.footer_offset + THRIFT_BYTES
        change(draft)
        draft.older.flags, draft.older.header_extra = draft.flags, draft.header_extra

    return grow


def _restated(older: Mapping[str, Any], newer: Mapping[str, Any]) -> Callable[[Draft], None]:
    """Return a change to two generations with the same blocks and token, and these sections."""

    def restate(draft: Draft) -> None:
        draft.older, draft.place = _sound(), []
        _draft(**older)(draft.older)
        _draft(**newer)(draft)

    return restate


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
    two = _draft(flags=external, bloom_columns=(0, 3), references=struct.pack("<12Q", *[0] * 2, 2, 32, *[0] * 8))
    yield Rule(name="no filter in data.parquet, and one that begins in the magic", change=two, field=BLOOM)
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
        for name, tag, physical, nulls, field in (
            ("a BOOLEAN", 1, 0, 1, ""),
            ("a BYTE", 2, INT32, GROUP_ROWS, ""),
            ("a SHORT", 3, INT32, 1, ""),
            ("a CHAR", 4, INT32, GROUP_ROWS - 1, ""),
            ("a SHORT", 3, INT32, GROUP_ROWS + 1, "null_count"),
            ("an INT", 5, INT32, 1, "null_count"),
            ("a DOUBLE", 10, DOUBLE, GROUP_ROWS, "null_count"),
        ):
            required = _column(REAL, type=tag, physical=physical, max_def=0, flags=0)
            # Servers count rows so that are older than a column without nulls.
            words = f"{name} that is required and has {nulls} nulls {of}"
            yield Rule(name=words, change=_all(required, _chunk(group, REAL, nulls=nulls)), field=field)
        nothing = [_chunk(group, index, values=0, nulls=0, start=0, size_bytes=0) for index in range(4)]

        yield Rule(name=f"no rows, and no bytes, {of}", change=_all(_rows(group, 0), *nothing))
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
    for each in bounds_of_types():
        column = _typed(each)
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
    for of, (number_type, physical, form) in INTEGERS.items():
        column = _column(WHOLE, type=number_type, physical=physical)
        for name, change, field in _of_unsigned(form):
            yield Rule(name=f"bounds of {of} {name}", change=_all(column, change), field=field)


def _of_unsigned(form: str) -> Iterator[tuple[str, Callable[[Draft], None], str]]:
    """Yield bounds that are in order as signed numbers, as unsigned ones, or in no order."""
    zero, less, least_of_all, five, three = (struct.pack(form, value) for value in (0, -1, -2, 5, 3))
    for name, writer_index, low, high, field in (
        ("that are in order as unsigned numbers, of other writers", -1, zero, less, ""),
        ("that are in order as unsigned numbers, of a table", 0, zero, less, "min_stat"),
        ("in the wrong order below 0, of other writers", -1, less, least_of_all, "min_stat"),
        ("in the wrong order above 0, of other writers", -1, five, three, "min_stat"),
        ("in the wrong order down to 0, of other writers", -1, five, zero, "min_stat"),
        ("from a negative number to a greater one, of other writers", -1, less, five, ""),
    ):
        yield name, _all(_column(WHOLE, id=writer_index), _chunk(1, WHOLE, low=low, high=high)), field
