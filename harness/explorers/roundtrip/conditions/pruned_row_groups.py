"""Whether row groups are left out where `_pm` proves that no row matches, and nowhere else, by docs/reading.md.

Of a few values of each type, those that the facts allow are the rows that a row group may have. If a condition is true
of one of them the row group must be read; if of none it must be left out, and a fact that is needed for it is the
reason. What conditions are true of, and which row groups have some times, is worked out twice beside it.
"""

from __future__ import annotations

import enum
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import xxhash

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.conditions.asked_rows import AskedRows, Nearest, asked_rows
from tornproof.harness.explorers.roundtrip.conditions.searched_times import (
    FIRST,
    LAST,
    Both,
    Implied,
    Times,
    Written,
    searched_times,
)
from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import (
    BOOLEAN,
    BYTE_ARRAY,
    FIRST_ID,
    NAN,
    UNCOUNTED,
    Condition,
    Key,
    Kind,
    kinds,
    leaves,
    predicate_of,
    truth_of,
)
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of, column_of, header_of
from tornproof.harness.explorers.roundtrip.worked_out.parquet.bloom_filters import filter_of
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.query.predicate import Operator, Predicate, truth
from tornproof.impl.query.pruning import BitsetOf, Pruner, Reason, may_match
from tornproof.impl.query.time_search import RowGroupTimes, TimeRange, time_of_text
from tornproof.impl.types.compute import compute

PROPERTY = "a row group is left out if no row of it can match, and only then"
ROW_COUNT = 3
FILTER_BYTES = 64
SHARE = 4
"""Each row group of one column is asked a fourth of all conditions, those that come after the ones asked before.

One with a filter is asked less of them, and more that filters may answer. Where one bound alone says less than two,
all conditions are asked.
"""
ADDRESS, SIGN = "IPv4", 1 << 31
UNREADABLE = object()
"""A bound whose length is that of no value."""
TIME, NULLS, STATISTICS, FILTER = FACTS = ("time", "nulls", "statistics", "bloom filter")
"""What is stated of a row group, from the cheapest to the most expensive: bounds of its times, and so on."""

Rows: TypeAlias = frozenset[tuple[int, ...]]
"""Rows by the positions of their values among those of the columns' kinds; a null is after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What is stated of a column in a row group; `held` are the values that are in its filter, None without one."""

    kind: Kind
    low: Key | None = None
    high: Key | None = None
    is_exact: bool = True
    value_count: int = ROW_COUNT
    null_count: int | None = 0
    held: tuple[Key, ...] | None = None
    is_required: bool = False
    is_nested: bool = False
    is_absent: bool = False
    is_designated: bool = False

    @property
    def name(self) -> str:
        """It in words."""
        if self.is_absent:
            return f"{self.kind.name} that is newer"
        low, high = ("unreadable" if each is UNREADABLE else each for each in (self.low, self.high))
        form = f"{'required' if self.is_required else 'optional'}{', nested' if self.is_nested else ''}"
        held = "" if self.held is None else f", a filter of {self.held}"
        counts = f"{self.value_count} values with {self.null_count} nulls"
        return f"{self.kind.name}, {form}, from {low} to {high}, {counts}{held}"

    def column(self, number: int) -> Column:
        """Return the column of the header."""
        levels = {"max_rep_level": int(self.is_nested), "max_def_level": int(not self.is_required)}
        own = {"name": f"column {number}", "id": FIRST_ID + number, "fixed_byte_len": self.kind.fixed_bytes}
        return column_of(self.kind.code, self.kind.physical, **own, **levels)

    @property
    def chunk(self) -> Chunk:
        """The chunk of the block."""
        low, high = self._statistic(self.low), self._statistic(self.high)
        return chunk_of(self.value_count, low, high, null_count=self.null_count)

    @property
    def bitset(self) -> bytes | None:
        """The filter."""
        if self.held is None:
            return None
        plain = [self.kind.stored(key) or b"" for key in self.held]
        return filter_of([xxhash.xxh64_intdigest(each) for each in plain], FILTER_BYTES)

    @property
    def bounds_fact(self) -> str:
        """What its bounds are."""
        return TIME if self.is_designated else STATISTICS

    def possible(self, facts: frozenset[str], row_count: int, *, is_precise: bool, uses_filter: bool) -> frozenset[int]:
        """Return the values that a row may have as far as these facts say, by their positions.

        If it is not precise, values between possible ones are possible, as bounds cannot say otherwise, and so is what
        has no stored form and cannot be asked of a filter.
        """
        kind = self.kind
        bounds_fact = self.bounds_fact
        count_fact = NULLS if kind.missing is None else bounds_fact
        missing = {len(kind.values) if kind.missing is None else kind.values.index(kind.missing)}
        is_counted = not self.is_absent and not self.is_nested and self.value_count == row_count
        if count_fact in facts and (self.is_absent or (is_counted and self.null_count == row_count)):
            return frozenset(missing)
        # Rows that are older than a required column of a type without null are counted as nulls.
        has_no_null = self.null_count == 0 and kind.code not in UNCOUNTED
        has_no_null |= self.is_required and not (self.null_count and kind.missing is not None)
        are_none_missing = count_fact in facts and is_counted and has_no_null
        found = set(range(len(kind.values)))
        if bounds_fact in facts and is_counted:
            found = self._within_bounds()
            if not is_precise and kind.order is None:
                found = _with_all_between(kind, found if are_none_missing or kind.missing is None else found | missing)
        has_form = found & _storable(kind)
        if uses_filter and FILTER in facts and self.held is not None and kind.is_hashed:
            held = {position for position in has_form if kind.values[position] in self.held}
            found = held if is_precise else held | (found - has_form)
        elif is_precise:
            found = has_form
        return frozenset(found if are_none_missing else found | missing)

    def _within_bounds(self) -> set[int]:
        kind = self.kind
        everything = set(range(len(kind.values)))
        if not kind.is_ordered or any(_is_nan(each) for each in (self.low, self.high)):
            return everything
        low, high = (each if each in kind.values else None for each in (self.low, self.high))
        high = high if kind.has_maximum else None
        key: Callable[[Key], Any] = kind.order or (lambda value: value)
        if low is not None and high is not None and key(low) > key(high):
            return everything
        if kind.physical == BYTE_ARRAY:
            # Earlier servers stated the first of two texts of which one begins with the other, whichever is less.
            return {position for position, value in enumerate(kind.values) if high is None or _is_up_to(value, high)}
        if kind.name == ADDRESS:
            # They compared addresses as signed numbers.
            low, high = (None if low is None or low >= SIGN else low), (None if high is None or high < SIGN else high)
        found = _between(kind, low, high, key)
        if kind.may_be_unsigned and (low is None) != (high is None):
            found |= _between(kind, low, high, lambda value: value % (1 << 64))
        return found

    def _statistic(self, bound: Key | None) -> Statistic | None:
        if bound is None:
            return None
        content = bytes(5) if bound is UNREADABLE else self.kind.stored(bound)
        return None if content is None else Statistic(content, self.is_exact)


@functools.cache
def _storable(kind: Kind) -> frozenset[int]:
    return frozenset(position for position, value in enumerate(kind.values) if kind.stored(value) is not None)


def _is_up_to(value: bytes, high: bytes) -> bool:
    return value <= high or value[: len(high)] == high


def _is_nan(key: Key) -> bool:
    return isinstance(key, float) and key != key


def _between(kind: Kind, low: Key | None, high: Key | None, key: Callable[[Key], Any]) -> set[int]:
    return {
        position
        for position, value in enumerate(kind.values)
        if _is_nan(value) or ((low is None or key(low) <= key(value)) and (high is None or key(value) <= key(high)))
    }


def _with_all_between(kind: Kind, found: set[int]) -> set[int]:
    """Return also the positions between the first and the last one; values are in order, NaN after all others."""
    numbers = [position for position in found if not _is_nan(kind.values[position])]
    return found | set(range(min(numbers), max(numbers) + 1)) if numbers else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A condition, the rows that it is true of, and in which columns a filter can say that it is true of none.

    It is decided if it names each column once, so that its parts say all that the whole does, and if the order of the
    values is that of their bounds.
    """

    condition: Condition
    predicate: Predicate
    matches: Rows
    filtered: frozenset[int]
    is_decided: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """A row group, and conditions on it."""

    columns: tuple[Stated, ...]
    asked: tuple[Asked, ...]
    row_count: int = ROW_COUNT
    has_filters: bool = True

    @property
    def name(self) -> str:
        """It in words."""
        rows = "" if self.row_count == ROW_COUNT else f"{self.row_count} rows; "
        return rows + "; ".join(each.name for each in self.columns)

    @property
    def kind(self) -> str:
        """The kinds of the columns."""
        return " and ".join(each.kind.name for each in self.columns)

    @property
    def present(self) -> list[tuple[int, Stated]]:
        """The columns that the partition has, with their numbers in the table."""
        return [(number, each) for number, each in enumerate(self.columns) if not each.is_absent]

    @property
    def header(self) -> FileHeader:
        """The header of the partition."""
        designated = [position for position, (_, each) in enumerate(self.present) if each.is_designated]
        return header_of(
            (each.column(number) for number, each in self.present),
            designated_timestamp=designated[0] if designated else -1,
            bloom_columns=tuple(range(len(self.present))) if self.has_filters else (),
        )

    @property
    def block(self) -> Block:
        """The row group."""
        chunks = tuple(each.chunk for _, each in self.present)
        return Block(offset_bytes=0, end_bytes=0, num_rows=self.row_count, chunks=chunks)

    def rows(self, facts: frozenset[str], filtered: frozenset[int], *, is_precise: bool) -> Rows:
        """Return the rows that these facts allow; filters count of some columns only."""
        return frozenset(
            itertools.product(
                *(
                    each.possible(
                        facts,
                        self.row_count,
                        is_precise=is_precise,
                        uses_filter=self.has_filters and number in filtered,
                    )
                    for number, each in enumerate(self.columns)
                )
            )
            if self.row_count
            else ()
        )

    def problem(self) -> str | None:
        """Say for which condition it is left out, or not, and should not be."""
        header, block, read = self.header, self.block, list[int]()
        bitsets = [each.bitset for _, each in self.present]

        def bitset_of(position: int) -> bytes | None:
            read.append(position)
            return bitsets[position]

        pruner, rows = Pruner(header), functools.cache(functools.partial(self.rows, is_precise=False))
        everything = frozenset(range(len(self.columns)))
        precise = self.rows(frozenset(FACTS), everything, is_precise=True)
        for asked in self.asked:
            read.clear()
            found = pruner.why_pruned(asked.predicate, block, bitset_of=bitset_of)
            if found is not None and not precise.isdisjoint(asked.matches):
                return f"for {asked.condition} it is left out by {found}, and a row may match"
            if asked.is_decided and (problem := self._problem_of_reason(asked, found and found.value, rows)):
                return f"for {asked.condition} {problem}"
            if read and (not self.has_filters or found not in (None, FILTER)):
                return f"for {asked.condition} a filter is read that is not needed"
        if may_match(asked.predicate, header, block, bitset_of=bitset_of) is not (found is None):
            return "whether a row may match is not whether nothing proves that none does"
        return self._problem_of_storage(pruner, block)

    def _problem_of_reason(self, asked: Asked, found: str | None, rows: Callable[..., Rows]) -> str | None:
        """Say whether it is kept where facts leave it out, or is left out for another reason."""

        def is_proven(facts: frozenset[str]) -> bool:
            return rows(facts, asked.filtered).isdisjoint(asked.matches)

        if not is_proven(frozenset(FACTS)):
            return None
        if found is None:
            return "it is kept, and no row can match"
        stated = {NULLS, *(each.bounds_fact for each in self.columns)}
        cheap = [each for each in _some(frozenset(stated)) if is_proven(each)]
        if not cheap:
            return None if found == FILTER else f"it is left out by {found}, and only filters prove it"
        if found == FILTER:
            return "it is left out by a filter, and other facts prove it"
        led = (each for each in cheap if each and max(each, key=FACTS.index) == found)
        is_needed = any(each - {found} not in cheap for each in led)
        return None if is_needed or not cheap[0] else f"it is left out by {found}, which does not prove it"

    def _problem_of_storage(self, pruner: Pruner, block: Block) -> str | None:
        for number, each in enumerate(self.columns):
            is_all_null = not each.is_nested and 0 < each.value_count == each.null_count
            is_stored = not each.is_absent and not is_all_null
            if pruner.is_stored(each.kind.column(number), block) is not is_stored:
                return f"column {number} should be {'stored' if is_stored else 'without bytes'}, and is not"
        return None


@functools.cache
def _some(facts: frozenset[str]) -> list[frozenset[str]]:
    """Return the sets of some of these facts, also of none, smaller ones first."""
    return [frozenset(each) for size in range(len(facts) + 1) for each in itertools.combinations(sorted(facts), size)]


Case: TypeAlias = Group | AskedRows | Nearest | Times | Implied | Both | Written


@functools.cache
def pruned_row_groups() -> tuple[Case, ...]:
    """Return all row groups, conditions and times, always in the same order."""
    groups = (group for kind in kinds() for group in _groups(kind))
    return distinct((*_several(), *searched_times(), *asked_rows(), *groups))


def problem_of(case: Case) -> str | None:
    """Say what is wrong; None if nothing is."""
    return case.problem()


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of proofs of too little, of too much and for other reasons, of conditions and times."""
    cases = pruned_row_groups()
    yield from not_noticed(_controls_of_groups(), problem_of, [each for each in cases if isinstance(each, Group)])
    rows = [each for each in cases if isinstance(each, AskedRows | Nearest)]
    yield from not_noticed(_controls_of_rows(), problem_of, rows)
    times = [each for each in cases if isinstance(each, Times | Implied | Both | Written)]
    yield from not_noticed(_controls_of_times(), problem_of, times)


def _controls_of_groups() -> Controls:
    pruning = "tornproof.impl.query.pruning"
    filters, bounds, nulls = Reason.BLOOM_FILTER.value, Reason.STATISTICS.value, Reason.NULLS.value
    return (
        ("bounds prove nothing", f"{pruning}:proven_bounds", lambda *_: (None, None), "it is kept, and no row can"),
        ("what is equal is less", f"{pruning}:_less", operator.le, "and a row may match"),
        ("filters hold nothing", f"{pruning}:may_contain", lambda *_: False, "and a row may match"),
        ("filters are read first", f"{__name__}:Pruner", _ReadingFirst, "a filter is read that is not needed"),
        ("filters count as bounds", f"{pruning}:Reason", _reasons(BLOOM_FILTER=bounds), "only filters prove it"),
        ("bounds count as filters", f"{pruning}:Reason", _reasons(STATISTICS=filters), "and other facts prove it"),
        ("bounds count as nulls", f"{pruning}:Reason", _reasons(STATISTICS=nulls), "which does not prove it"),
        ("every row group may match", f"{__name__}:may_match", lambda *_, **__: True, "whether a row may match is not"),
        ("nulls have bytes", f"{pruning}:is_all_null", lambda *_: False, "should be without bytes"),
    )


def _controls_of_rows() -> Controls:
    predicate = "tornproof.impl.query.predicate"
    return (
        ("no columns are named", f"{predicate}:_columns", lambda _: iter(()), "it names the columns"),
        ("what is less is equal", f"{predicate}:_KERNELS", dict.fromkeys(Operator, "equal"), "it is [True"),
        ("unknown is true", f"{predicate}:truth", lambda *of: truth(*of).fill_null(True), "it chooses"),
        ("nothing is null", f"{predicate}:compute", lambda *of: compute(*of) or [None], "of no rows it is something"),
        ("floats are doubles", "tornproof.impl.query.comparison:_is_narrow", lambda _: False, "the nearest float is"),
    )


def _controls_of_times() -> Controls:
    search, asked = "tornproof.impl.query.time_search", Times.__module__
    one: Any = type("One", (TimeRange,), {"both": lambda one, _: one})
    return (
        (
            "bounds out of order are known",
            f"{search}:_known",
            lambda bounds: bounds or (FIRST, LAST),
            "their times are",
        ),
        ("maximums are in any order", f"{search}:RowGroupTimes", _MinimumsInOrder, "they are in order"),
        ("times are those of others", f"{search}:_search", lambda *_: 0, "have times from"),
        ("the first one stands for all", f"{search}:_hull", lambda ranges: ranges[0], "it is true of"),
        ("comparisons imply nothing", f"{search}:_range_of", lambda *_: TimeRange(), "and should be from"),
        ("the first range is in both", f"{asked}:TimeRange", one, "should not be one of them"),
        (
            "zones are twice",
            f"{asked}:time_of_text",
            lambda text, unit: time_of_text(f"{text}Z", unit),
            "it is rejected",
        ),
        ("all are microseconds", f"{asked}:time_of_text", lambda text, _: time_of_text(text, "us"), "and should be"),
    )


class _ReadingFirst(Pruner):
    def why_pruned(self, predicate: Predicate, block: Block, *, bitset_of: BitsetOf) -> Reason | None:
        for position in range(len(block.chunks)):
            bitset_of(position)
        return super().why_pruned(predicate, block, bitset_of=bitset_of)


class _MinimumsInOrder(RowGroupTimes):
    def __post_init__(self) -> None:
        object.__setattr__(self, "in_order", bool((self.minimums[:-1] <= self.minimums[1:]).all()))


def _reasons(**others: str) -> Any:
    """Return reasons some of which are called as others are."""
    made: Any = enum.StrEnum
    return made("Reasons", {each.name: each.value for each in Reason} | others)


def _asked(condition: Condition, of: Sequence[Kind]) -> Asked:
    parts = [*leaves(condition)]
    named = [part[1] for part, _ in parts]
    is_ordered = all(part[0] in ("=", "in", "null") or of[part[1]].order is None for part, _ in parts)
    rows = itertools.product(*(enumerate((*kind.values, None)) for kind in of))
    return Asked(
        condition=condition,
        predicate=predicate_of(condition, [kind.column(number) for number, kind in enumerate(of)]),
        matches=frozenset(
            tuple(position for position, _ in row)
            for row in rows
            if truth_of(condition, [key for _, key in row]) is True
        ),
        filtered=frozenset(part[1] for part, is_negated in parts if part[0] in ("=", "in") and not is_negated),
        is_decided=is_ordered and len(set(named)) == len(named),
    )


def _groups(kind: Kind) -> Iterator[Group]:
    asked = tuple(_asked(condition, [kind]) for condition in _conditions(kind))
    is_designated = kind.name == "TIMESTAMP"
    groups = [
        Group(columns=(replace(each, is_designated=is_designated and not each.is_absent),), asked=asked)
        for each in _stated(kind)
    ]
    held = Stated(kind=kind, held=(kind.middle,), is_designated=is_designated)
    groups.append(Group(columns=(held,), asked=asked, has_filters=False))
    groups.append(Group(columns=(Stated(kind=kind, value_count=0),), asked=asked, row_count=0))
    turns, of_filters = itertools.cycle(asked), itertools.cycle([each for each in asked if each.filtered] or asked)
    share = len(asked) if kind.may_be_unsigned else -(-len(asked) // SHARE)
    for group in groups:
        more = share if group.columns[0].held is not None else 0
        now = (*itertools.islice(of_filters, more), *itertools.islice(turns, share - more // 2))
        yield replace(group, asked=now)


def _several() -> Iterator[Group]:
    """Yield row groups of three columns, each left out or kept by another fact, and conditions on them together."""
    of = [next(kind for kind in kinds() if kind.name == name) for name in ("INT", "VARCHAR", "TIMESTAMP")]
    number, text, time = (functools.partial(Stated, kind=kind) for kind in of)
    numbers = [number(low=of[0].middle, high=of[0].middle), number(null_count=ROW_COUNT), number(is_absent=True)]
    numbers.append(number(held=of[0].bounds[:1]))
    texts = [text(low=of[1].bounds[0], high=of[1].bounds[0]), text(held=of[1].bounds[:1]), text(null_count=None)]
    times = [time(low=low, high=of[2].middle, is_designated=True) for low in (of[2].bounds[0], of[2].middle, None)]
    asked = tuple(_asked(condition, of) for condition in _on_several(of))
    for columns in itertools.product(numbers, texts, times):
        yield Group(columns=columns, asked=asked)


def _on_several(of: Sequence[Kind]) -> Iterator[Condition]:
    (_, number, other), (_, text, _), (_, time, later) = (kind.bounds for kind in of)
    for first, second, third in (
        (("=", 0, number), ("=", 1, text), (">", 2, time)),
        (("in", 0, (number, other)), ("<", 1, text), ("in", 2, (time, later))),
        (("null", 0), ("in", 1, (text,)), ("<", 2, time)),
        ((">", 0, number), ("null", 1), ("=", 2, later)),
    ):
        yield ("and", first, second)
        yield ("or", first, second)
        yield ("and", first, ("not", second))
        yield ("or", ("not", first), second)
        yield ("not", ("and", third, first))
        yield ("not", ("or", third, ("not", second)))
        yield ("and", third, ("or", second, first))
        yield ("or", third, ("and", second, first))
        yield ("and", first, second, third)
        yield ("or", second, first, third)
        yield ("not", ("and", ("not", ("or", first, second)), third))


def _stated(kind: Kind) -> Iterator[Stated]:
    """Yield bounds, counts, forms and filters of a column."""
    of = functools.partial(Stated, kind=kind)
    low, middle, high = kind.bounds[0], kind.middle, kind.bounds[-1]
    no_boolean, no_number = [2] * (kind.physical == BOOLEAN), [NAN] * _is_nan(kind.values[-1])
    wrong = [UNREADABLE, *no_boolean, *no_number] if kind.physical != BYTE_ARRAY else []
    for first, last in itertools.product((None, *kind.bounds, *wrong), repeat=2):
        if not _leaves_one(kind, first, last):
            yield of(low=first, high=last)
    outer: list[tuple[Key | None, Key | None]] = [(None, None), (low, high), (middle, middle)]
    for (first, last), null_count, is_required in itertools.product(outer, (None, 0, 1, ROW_COUNT), (False, True)):
        yield of(low=first, high=last, null_count=null_count, is_required=is_required, is_exact=False)
    for null_count, held in itertools.product((0, 2, ROW_COUNT), (None, (low,))):
        for value_count in (0, 2, ROW_COUNT + 1):
            yield of(low=middle, high=middle, null_count=null_count, value_count=value_count, held=held)
        yield of(low=middle, high=middle, null_count=null_count, is_nested=True, held=held)
    filters: tuple[tuple[Key, ...], ...] = ((), (middle,), (low, high))
    for (first, last), null_count, held in itertools.product(outer[:2], (None, 0, 1, ROW_COUNT), filters):
        yield of(low=first, high=last, null_count=null_count, held=held)
    yield of(is_absent=True)


def _leaves_one(kind: Kind, low: Key | None, high: Key | None) -> bool:
    """Return whether a single bound leaves one value of all that the type has, which no reader is told to see."""
    numbers = [each for each in kind.values if not _is_nan(each)]
    known = [each if each in numbers else None for each in (low, high)]
    return known in ([numbers[-1], None], [None, numbers[0]])


def _conditions(kind: Kind) -> Iterator[Condition]:
    null: Condition = ("null", 0)
    yield null
    yield ("not", null)
    if not kind.is_compared:
        return
    low, middle, high = kind.bounds[0], kind.middle, kind.bounds[-1]
    alone: list[Condition] = [(sign, 0, middle) for sign in ("=", "<", "<=", ">", ">=")]
    alone += [("in", 0, each) for each in ((), (middle,), (low, high), (low, middle, *kind.odd[:1]))]
    if kind.missing is not None and middle != kind.missing:
        alone += [(sign, 0, kind.missing) for sign in ("=", "<", "<=", ">", ">=")]
    for condition in alone:
        yield condition
        if condition[0] != "in" or not {*kind.values}.issubset(condition[2]):
            yield ("not", condition)
    yield from (("=", 0, end) for end in (kind.values[0], max(each for each in kind.values if not _is_nan(each))))
    for odd in kind.odd:
        yield from ((sign, 0, odd) for sign in ("=", "<", ">="))
        yield ("not", ("<", 0, odd))
    yield ("and", (">", 0, low), ("<", 0, high))
    yield ("or", ("=", 0, low), null)
    yield ("not", ("or", ("=", 0, low), ("=", 0, high)))
    yield ("not", ("and", (">=", 0, low), ("not", null)))
