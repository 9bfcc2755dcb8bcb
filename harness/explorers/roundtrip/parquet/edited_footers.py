"""Whether footers are divided into their row groups, and put together from others, without any other change.

The footers are spelled out as [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift)
declares them, before and after; so are the facts of a row group from which follows what dropping it leaves unused.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import (
    BEHIND,
    KINDS,
    STRUCT,
    Made,
    Members,
    binary,
    items,
    number,
    raw,
    struct,
)
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.parquet.footer import FooterParts, RowGroupFacts, read_footer_tail, row_group_facts, split_footer
from tornproof.impl.parquet.thrift import decode

PROPERTY = "a footer is divided and put together without any other change"
FILE, OFFSET_BYTES = "edited.parquet", 500
I16, I32, I64, BINARY, LIST = (KINDS[name] for name in ("i16", "i32", "i64", "binary", "list"))
SCHEMA, ROW_COUNT, ROW_GROUPS, KEY_VALUES = 2, 3, 4, 5
UNKNOWN_ID = 40
KEY = "key"
ORDINAL_MAX = (1 << 15) - 1
MAGIC, MAGIC_OF_ENCRYPTED = b"PAR1", b"PARE"
LENGTHS = (0, 1, 2, 87, 88, 89, 255, (1 << 32) - 1)
SIZES_BYTES = (0, 7, 8, 11, 12, 13, 14, 99, 100, 101, 300, 1 << 40)


class MadeChunk(NamedTuple):
    """Where a chunk is in a file, with its dictionary, filter and indexes; None where there is none."""

    data_bytes: int
    size_bytes: int
    dictionary_bytes: int | None = None
    filter_bytes: int | None = None
    filter_length_bytes: int | None = None
    offsets_length_bytes: int | None = None
    bounds_length_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row group: its chunks, its rows, and which one it says that it is."""

    chunks: tuple[MadeChunk, ...] = (MadeChunk(4, 20),)
    row_count: int = 3
    ordinal: int | None = None
    is_shorter: bool = False
    """Whether it lacks what comes after its rows, as the row groups of some writers do."""

    @property
    def content(self) -> bytes:
        """Its bytes."""
        return _content(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A footer: its row groups, its pairs, and whether other members come after these."""

    groups: tuple[Group, ...]
    pairs: tuple[tuple[str, str | None], ...] | None = ()
    row_count: int = 9
    column: str = "column"
    is_last: bool = False
    """Whether the row groups are its last member."""

    @property
    def content(self) -> bytes:
        """Its bytes."""
        leaf: Members = ((1, I32, number(2), 0), (3, I32, number(0), 0), (4, BINARY, binary(self.column.encode()), 0))
        root: Members = ((4, BINARY, binary(b"root"), 0), (5, I32, number(1), 0))
        groups = tuple(raw(each.content) for each in self.groups)
        others: Members = ()
        if self.pairs is not None:
            pairs = tuple(struct(_pair_members(*each)) for each in self.pairs)
            others = ((KEY_VALUES, LIST, items(STRUCT, pairs), 0),)
        others += ((6, BINARY, binary(b"maker"), 0), (UNKNOWN_ID, I64, number(-7), 0))
        members: Members = (
            (1, I32, number(2), 0),
            (SCHEMA, LIST, items(STRUCT, (struct(root), struct(leaf))), 0),
            (ROW_COUNT, I64, number(self.row_count), 0),
            (ROW_GROUPS, LIST, items(STRUCT, groups), 0),
        )
        return struct(members if self.is_last else (*members, *others))(0)[0]

    @property
    def parts(self) -> FooterParts:
        """It, divided."""
        return split_footer(self.content + BEHIND, file=FILE, offset_bytes=OFFSET_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFooter:
    """A footer or a row group, and what is asked of it."""

    name: str
    kind: str
    problem: Callable[[], str | None]


@functools.cache
def edited_footers() -> tuple[EditedFooter, ...]:
    """Return all cases, always in the same order."""
    return (*_divided(), *_with_groups(), *_with_pairs(), *_schemas(), *_facts(), *_rejected(), *_tails())


def problem_of(case: EditedFooter) -> str | None:
    """Say what is wrong with it; None if nothing is."""
    return case.problem()


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of ordinals that stay, and of pairs, schemas, facts and tails nobody looks at."""
    footer = "tornproof.impl.parquet.footer"
    ordinals: Controls = (
        ("ordinals stay", f"{footer}:_with_ordinal", lambda content, _: (content, None)),
        ("no ordinal is known", f"{footer}:_ordinal_in", lambda _: None),
    )
    others: Controls = (
        ("no footer has a value", f"{footer}:FooterParts", _broken("key_value", lambda *_: None), "it is None, and"),
        ("no pair is put", f"{footer}:FooterParts", _broken("with_key_value", lambda parts, *_: parts), "it is b"),
        ("all schemas are the same", f"{footer}:FooterParts", _broken("same_schema", lambda *_: True), "(True, True)"),
        ("dictionaries are not counted", f"{footer}:start_of", lambda meta: meta["data_page_offset"], "RowGroupFacts"),
        ("members are not read", f"{footer}:read", lambda *_: {}, "it is taken"),
        ("positions are in the footer", f"{footer}:decode", _at_the_start, "is said of another place"),
        ("encryption is not known", f"{footer}:ENCRYPTED_MAGIC", b"", "CorruptError'>, 'magic'"),
    )
    yield from not_noticed(ordinals, problem_of, edited_footers())
    # Many row groups take long, and have nothing to do with the others.
    kinds = {"value of a key", "pair", "schema", "facts", "rejected", "tail"}
    yield from not_noticed(others, problem_of, [each for each in edited_footers() if each.kind in kinds])


def _broken(place: str, broken: Callable[..., Any]) -> Any:
    return type("Broken", (FooterParts,), {place: broken}, frozen=True, kw_only=True)


def _at_the_start(*of: Any, **settings: Any) -> Any:
    return decode(*of, **settings | {"offset_bytes": 0})


@functools.lru_cache(maxsize=1024)
def _content(group: Group) -> bytes:
    chunks = tuple(struct(_chunk_members(each)) for each in group.chunks)
    last: Members = () if group.is_shorter else ((5, I64, number(4), 0), (6, I64, number(20), 0))
    if group.ordinal is not None:
        last += ((7, I16, number(group.ordinal), 0),)
    rows: Members = ((2, I64, number(20), 0), (3, I64, number(group.row_count), 0))
    return struct(((1, LIST, items(STRUCT, chunks), 0), *rows, *last))(0)[0]


def _optional(*values: tuple[int, int, int | None]) -> Members:
    return tuple((member, kind, number(value), 0) for member, kind, value in values if value is not None)


def _chunk_members(chunk: MadeChunk) -> Members:
    meta: Members = (
        (1, I32, number(2), 0),
        (2, LIST, items(I32, (number(0), number(3))), 0),
        (3, LIST, items(BINARY, (binary(b"column"),)), 0),
        (4, I32, number(0), 0),
        (5, I64, number(3), 0),
        (6, I64, number(chunk.size_bytes), 0),
        (7, I64, number(chunk.size_bytes), 0),
        (9, I64, number(chunk.data_bytes), 0),
        *_optional(
            (11, I64, chunk.dictionary_bytes), (14, I64, chunk.filter_bytes), (15, I32, chunk.filter_length_bytes)
        ),
    )
    indexes = _optional((5, I32, chunk.offsets_length_bytes), (7, I32, chunk.bounds_length_bytes))
    return ((2, I64, number(0), 0), (3, STRUCT, struct(meta), 0), *indexes)


def _pair_members(key: str, value: str | None) -> Members:
    return (
        (1, BINARY, binary(key.encode()), 0),
        *(((2, BINARY, binary(value.encode()), 0),) if value is not None else ()),
    )


def _some_groups() -> Iterator[tuple[Group, ...]]:
    yield ()
    for count in (1, 2, 3, 14, 15, 16, 130):
        yield tuple(Group(row_count=each + 1) for each in range(count))
        yield tuple(Group(row_count=each + 1, ordinal=each) for each in range(count))
    yield tuple(Group(row_count=each + 1, ordinal=each if each % 2 else None) for each in range(5))
    yield tuple(Group(row_count=each + 1, ordinal=7, is_shorter=True) for each in range(4))
    yield (Group(ordinal=0),) * 3


def _footers() -> Iterator[Footer]:
    for groups, is_last in itertools.product(_some_groups(), (False, True)):
        yield Footer(groups=groups, is_last=is_last)


def _named(footer: Footer) -> str:
    ordinals = [each.ordinal for each in footer.groups[:5]]
    shorter = ", shorter" if any(each.is_shorter for each in footer.groups) else ""
    return f"{len(footer.groups)} row groups{shorter}, first {ordinals}{', at the end' if footer.is_last else ''}"


def _compared(found: object, wanted: object) -> str | None:
    return None if found == wanted else f"it is {found!r}, and should be {wanted!r}"


def _divided() -> Iterator[EditedFooter]:
    for footer in _footers():
        name = f"{_named(footer)}, divided"
        yield EditedFooter(name=name, kind="divided", problem=partial(_problem_of_division, footer))


def _problem_of_division(footer: Footer) -> str | None:
    parts = footer.parts
    wanted = [(each.content, each.ordinal) for each in footer.groups]
    found = [*zip(parts.row_groups, parts.ordinals, strict=True)]
    return _compared(found, wanted) or _compared(parts.encode(), footer.content)


def _with_groups() -> Iterator[EditedFooter]:
    """Yield footers whose row groups are left out, exchanged and added to."""
    new = Group(row_count=77)
    for footer in _footers():
        groups = footer.groups
        chosen = {
            "as they are": groups,
            "without the first": groups[1:],
            "without the last": groups[:-1],
            "without the second": groups[:1] + groups[2:],
            "backwards": groups[::-1],
            "and one more": (*groups, new),
            "and one more that knows its place": (*groups, replace(new, ordinal=len(groups))),
            "and one more that does not know its place": (*groups, replace(new, ordinal=len(groups) + 3)),
            "after a new one": (replace(new, ordinal=1), *groups),
            "with another first one": (replace(new, ordinal=5), *groups[1:]),
        }
        for words, each in chosen.items():
            problem = partial(_problem_of_groups, footer, each)
            yield EditedFooter(name=f"{_named(footer)}, {words}", kind=words, problem=problem)
    # One more than an ordinal can count, of which only the last one has any.
    many = (Group(),) * ORDINAL_MAX + (Group(ordinal=1),) * 2
    problem = partial(_problem_of_groups, Footer(groups=many[:1]), many)
    yield EditedFooter(name="more row groups than ordinals", kind="many", problem=problem)


def _problem_of_groups(footer: Footer, chosen: Sequence[Group]) -> str | None:
    parts = footer.parts.with_row_groups([group.content for group in chosen], 321)
    wanted = replace(footer, groups=_placed(footer.groups, chosen), row_count=321)
    ordinals = [group.ordinal for group in wanted.groups]
    return _compared(parts.encode(), wanted.content) or _compared([*parts.ordinals], ordinals)


def _placed(before: Sequence[Group], chosen: Sequence[Group]) -> tuple[Group, ...]:
    """Return row groups with their places as ordinals, where they have one and are not where they were before."""
    return tuple(
        each
        if each.ordinal is None or before[place : place + 1] == (each,)
        else replace(each, ordinal=place if place <= ORDINAL_MAX else None)
        for place, each in enumerate(chosen)
    )


def _with_pairs() -> Iterator[EditedFooter]:
    a_group = (Group(),)
    for pairs in (
        *(None, (), (("other", "1"),), ((KEY, "old"),), ((KEY, None),), (("other", "1"), (KEY, "old"), ("last", None))),
        *(((KEY, "old"), (KEY, "older")), (("keys", "1"), ("ke", "2"))),
    ):
        footer = Footer(groups=a_group, pairs=pairs)
        keys = [key for key, _ in pairs or ()]
        at = keys.index(KEY) if KEY in keys else len(keys)
        value = pairs[at][1] if pairs and KEY in keys else None
        problem = partial(_problem_of_value, footer, value)
        yield EditedFooter(name=f"the value among {pairs}", kind="value of a key", problem=problem)
        if pairs is not None:
            changed = replace(footer, pairs=(*pairs[:at], (KEY, "new"), *pairs[at + 1 :]))
            problem = partial(_problem_of_pair, footer, changed)
            yield EditedFooter(name=f"a pair put into {pairs}", kind="pair", problem=problem)


def _problem_of_value(footer: Footer, wanted: str | None) -> str | None:
    return _compared(footer.parts.key_value(KEY), wanted)


def _problem_of_pair(footer: Footer, wanted: Footer) -> str | None:
    return _compared(footer.parts.with_key_value(KEY, "new").encode(), wanted.content)


def _schemas() -> Iterator[EditedFooter]:
    base = Footer(groups=(Group(),))
    for words, other, wanted in (
        ("itself", base, True),
        ("one with other row groups", replace(base, groups=(Group(row_count=8),) * 3, row_count=24), True),
        ("one with other pairs", replace(base, pairs=((KEY, "value"),)), True),
        ("one with another column", replace(base, column="columns"), False),
    ):
        yield EditedFooter(
            name=f"compared with {words}", kind="schema", problem=partial(_problem_of_schemas, base, other, wanted)
        )


def _problem_of_schemas(one: Footer, other: Footer, wanted: bool) -> str | None:
    found = one.parts.same_schema(other.parts), other.parts.same_schema(one.parts)
    return _compared(found, (wanted, wanted))


def _facts() -> Iterator[EditedFooter]:
    """Yield row groups with chunks in any order, gaps, filters within and outside, and indexes."""
    first, second, third = MadeChunk(4, 20), MadeChunk(24, 30), MadeChunk(80, 7)
    with_dictionary = MadeChunk(60, 50, dictionary_bytes=54)
    for chunks in (
        *((), (first,), (second,), (first, second), (second, first), (first, third), (first, second, third)),
        *((with_dictionary,), (with_dictionary._replace(dictionary_bytes=0),), (first, with_dictionary)),
    ):
        yield _fact(chunks)
        for place in range(len(chunks)):
            for change in (
                *({"offsets_length_bytes": 11}, {"bounds_length_bytes": 13}, {"offsets_length_bytes": 0}),
                *({"offsets_length_bytes": 11, "bounds_length_bytes": 13}, {"filter_length_bytes": 40}),
                *({"filter_bytes": at, "filter_length_bytes": 40} for at in (0, 3, 4, 23, 24, 86, 87, 200)),
                {"filter_bytes": 300},
            ):
                yield _fact((*chunks[:place], chunks[place]._replace(**change), *chunks[place + 1 :]))


def _fact(chunks: tuple[MadeChunk, ...]) -> EditedFooter:
    starts = [each.dictionary_bytes or each.data_bytes for each in chunks]
    start = min(starts) if chunks else 0
    end = max(begin + each.size_bytes for begin, each in zip(starts, chunks, strict=True)) if chunks else 0
    indexes = sum((each.offsets_length_bytes or 0) + (each.bounds_length_bytes or 0) for each in chunks)
    filters = 0
    for each in chunks:
        # Where a filter of a known length begins is the start of the row group, if nothing is said of it.
        at = start if each.filter_bytes is None else each.filter_bytes
        if not start <= at < end:
            filters += each.filter_length_bytes or 0
    wanted = RowGroupFacts(start_bytes=start, end_bytes=end, indexes_length_bytes=indexes, blooms_length_bytes=filters)
    name = f"facts of {[tuple(each) for each in chunks]}"
    return EditedFooter(name=name, kind="facts", problem=partial(_problem_of_facts, chunks, wanted))


def _problem_of_facts(chunks: tuple[MadeChunk, ...], wanted: RowGroupFacts) -> str | None:
    found = row_group_facts(Group(chunks=chunks).content, file=FILE)
    unused_bytes = wanted.end_bytes - wanted.start_bytes + wanted.indexes_length_bytes + wanted.blooms_length_bytes
    return _compared(found, wanted) or _compared(found.unused_bytes, unused_bytes)


def _rejected() -> Iterator[EditedFooter]:
    """Yield footers that say something twice, and whose row groups are none."""
    for words, members in (
        ("two lists of row groups", (*_minimum(items(STRUCT, ())), (ROW_GROUPS, LIST, items(STRUCT, ()), 1))),
        ("row groups that are numbers", _minimum(items(I32, (number(1),)))),
        ("no row groups", _minimum(None)),
    ):
        yield EditedFooter(name=words, kind="rejected", problem=partial(_problem_of_rejected, members))


def _problem_of_rejected(members: Members) -> str | None:
    content, _ = struct(members)(0)
    try:
        split_footer(content, file=FILE, offset_bytes=OFFSET_BYTES)
    except CorruptError as error:
        at = error.problem.offset_bytes
        is_there = error.problem.file == FILE and at is not None and 0 <= at - OFFSET_BYTES <= len(content)
        return None if is_there else f"{error} is said of another place"
    return "it is taken"


def _minimum(groups: Made | None) -> Members:
    root = struct(((4, BINARY, binary(b"root"), 0),))
    return (
        (1, I32, number(2), 0),
        (SCHEMA, LIST, items(STRUCT, (root,)), 0),
        (ROW_COUNT, I64, number(0), 0),
        *(((ROW_GROUPS, LIST, groups, 0),) if groups is not None else ()),
    )


def _tails() -> Iterator[EditedFooter]:
    """Yield the last bytes of files of each size, behind the magic at their start."""
    for size_bytes, length_bytes in itertools.product(SIZES_BYTES, LENGTHS):
        for magic in (MAGIC, MAGIC_OF_ENCRYPTED, b"PAR2", bytes(4)):
            problem = partial(_problem_of_tail, size_bytes, length_bytes, magic)
            name = f"in a file of {size_bytes} bytes with {magic!r} and {length_bytes}"
            yield EditedFooter(name=name, kind="tail", problem=problem)


def _problem_of_tail(size_bytes: int, length_bytes: int, magic: bytes) -> str | None:
    at = size_bytes - 8
    wanted: object = (at - length_bytes, length_bytes)
    if at < 4:
        wanted = (CorruptError, "size", None)
    elif magic != MAGIC:
        wanted = (UnsupportedError if magic == MAGIC_OF_ENCRYPTED else CorruptError, "magic", at + 4)
    elif not 0 < length_bytes <= at - 4:
        wanted = (CorruptError, "footer_length", at)
    found: object
    try:
        found = read_footer_tail(length_bytes.to_bytes(4, "little") + magic, file=FILE, token=size_bytes)
    except ProblemError as error:
        found = type(error), error.problem.field, error.problem.offset_bytes
    return _compared(found, wanted)
