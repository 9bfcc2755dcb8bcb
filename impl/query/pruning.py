"""Whether a row group can have a matching row, by statistics, null counts and bloom filters alone.

A row group is skipped only if that is proven; whatever is absent, broken or of an unknown order proves nothing: NaN
bounds, minima above maxima, INT96, columns of unknown type. Orders of statistics: docs/format.md.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from tornproof.impl.parquet.bloom import hash_of, may_contain
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.pm.statistics import (
    MILLISECONDS_PER_DAY,
    Bound,
    may_be_undercounted,
    older_row_count,
    proven_bounds,
)
from tornproof.impl.query.comparison import Floats, Integers, numbers_of
from tornproof.impl.query.predicate import (
    LONG256_BYTES,
    And,
    Comparison,
    IsIn,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    is_long256,
)
from tornproof.impl.table.changed_types import is_changed
from tornproof.impl.table.columns import SnapshotColumn, column_key, column_positions, is_all_null, position_of
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag, tag_of

BitsetOf = Callable[[int], bytes | None]
"""Takes the index of a column in the header and returns its bloom filter, or None."""


class Reason(enum.StrEnum):
    """What proved that a row group has no matching row, from the cheapest to the most expensive proof."""

    TIME = "time"
    NULLS = "nulls"
    STATISTICS = "statistics"
    BLOOM_FILTER = "bloom filter"


def may_match(predicate: Predicate, header: FileHeader, block: Block, *, bitset_of: BitsetOf) -> bool:
    """Return False only if the predicate is true for no row of the row group."""
    return Pruner(header).why_pruned(predicate, block, bitset_of=bitset_of) is None


class Pruner:
    """Decides which row groups of one partition can be skipped."""

    def __init__(self, header: FileHeader) -> None:
        """Remember the positions of the partition's columns."""
        self._header = header
        self._positions = column_positions(header)
        dts = header.designated_timestamp
        self._timestamp_id = column_key(dts, header.columns[dts]) if dts >= 0 else None

    def why_pruned(self, predicate: Predicate, block: Block, *, bitset_of: BitsetOf) -> Reason | None:
        """Return what proves that the predicate is true for no row of the row group, or None.

        Bloom filters are only read if nothing else proves it; their errors pass through.
        """
        if block.num_rows == 0:
            return Reason.STATISTICS
        reason = self._against(predicate, True, _Group(block, lambda _: None))
        if reason is not None or not self._header.bloom_columns:
            return reason
        return self._against(predicate, True, _Group(block, bitset_of))

    def is_stored(self, column: SnapshotColumn, block: Block) -> bool:
        """Return whether the column has bytes to read: it exists in the partition, and not all values are null."""
        position = position_of(column, self._positions)
        return position is not None and not is_all_null(self._header.columns[position], block.chunks[position])

    def _facts(self, column: SnapshotColumn, block: Block) -> _Facts:
        position = position_of(column, self._positions)
        nothing = _Facts(position=position, is_stored=False, missing=column.missing.as_py(), may_have_missing=True)
        if position is None:
            return nothing
        stored, chunk = self._header.columns[position], block.chunks[position]
        unknown = replace(nothing, is_stored=True, may_have_others=True)
        if is_changed(column, stored):
            # Its bounds and its filter are of values of another type.
            return replace(unknown, position=None)
        if stored.max_rep_level > 0 or chunk.num_values != block.num_rows:
            return unknown
        if chunk.null_count == chunk.num_values:
            return nothing
        low, high = (_comparable(bound, column) for bound in proven_bounds(stored, chunk))
        may_have_missing = stored.max_def_level > 0 and (chunk.null_count != 0 or may_be_undercounted(stored))
        may_have_missing |= older_row_count(stored, chunk) > 0
        return replace(unknown, may_have_missing=may_have_missing, low=low, high=high)

    def _against(self, predicate: Predicate, wanted: bool, group: _Group) -> Reason | None:
        """Return what proves that a predicate is `wanted` for no row; a comparison with null never is."""
        match predicate:
            case Not(part=part):
                return self._against(part, not wanted, group)
            case And(parts=parts) | Or(parts=parts):
                reasons = (self._against(part, wanted, group) for part in parts)
                return _any_of(reasons) if isinstance(predicate, And) is wanted else _all_of(reasons)
            case IsNull(column=column):
                facts = self._facts(column, group.block)
                return None if (facts.may_have_nulls if wanted else facts.may_have_values) else Reason.NULLS
            case Comparison(column=column) | IsIn(column=column):
                facts = self._facts(column, group.block)
                if not facts.may_have_values:
                    return Reason.NULLS
                reason = self._against_values(predicate, facts, wanted, group)
                by_time = reason is Reason.STATISTICS and column.id == self._timestamp_id
                return Reason.TIME if by_time else reason

    def _against_values(
        self, predicate: Comparison | IsIn, facts: _Facts, wanted: bool, group: _Group
    ) -> Reason | None:
        column, is_float = predicate.column, isinstance(numbers_of(predicate.column), Floats)
        if not wanted and is_float:
            # There may be a NaN, for which every comparison is false.
            return None
        match predicate:
            case Comparison(operator=operator, value=value) if operator is not Operator.EQUAL:
                is_excluded = not is_long256(column) and _excludes_order(facts, operator, value, wanted)
                return Reason.STATISTICS if is_excluded else None
            case Comparison(value=value):
                values = frozenset([value])
            case IsIn(values=values):
                pass
        if not wanted:
            return Reason.STATISTICS if any(facts.holds_only(_as_stored(column, value)) for value in values) else None
        possible = [value for value in values if not facts.excludes(_as_stored(column, value))]
        if not possible:
            return Reason.STATISTICS
        return Reason.BLOOM_FILTER if self._filtered_out(facts, possible, group) else None

    def _filtered_out(self, facts: _Facts, values: list[Bound], group: _Group) -> bool:
        """Whether a bloom filter contains none of the values."""
        if facts.position is None or not facts.is_stored or (facts.may_have_missing and facts.missing in values):
            return False
        stored = self._header.columns[facts.position]
        plain = [_plain_bytes(stored, value) for value in values]
        if None in plain:
            return False
        bitset = group.bitset_of(facts.position)
        return bitset is not None and not any(
            may_contain(bitset, hash_of(each)) for variants in plain for each in variants or ()
        )


class _Group(msgspec.Struct, frozen=True):
    """A row group and its bloom filters."""

    block: Block
    bitset_of: BitsetOf


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a column in a row group.

    `missing` is how stored nulls are read: None, or false and 0 for types without null. All others are values from
    `low` to `high`, or NaN; an unknown bound is None.
    """

    position: int | None
    is_stored: bool
    missing: int | None
    may_have_missing: bool
    may_have_others: bool = False
    low: Bound | None = None
    high: Bound | None = None

    @property
    def may_have_nulls(self) -> bool:
        return self.may_have_missing and self.missing is None

    @property
    def may_have_values(self) -> bool:
        return self.may_have_others or self.missing is not None

    def bound(self, *, is_low: bool) -> Bound | None:
        """Return a lower or an upper bound of all values, missing ones included."""
        bound = self.low if is_low else self.high
        if self.missing is None or not self.may_have_missing:
            return bound
        if not self.may_have_others:
            return self.missing
        assert not isinstance(bound, bytes)
        return None if bound is None else min(bound, self.missing) if is_low else max(bound, self.missing)

    def excludes(self, value: Bound) -> bool:
        low, high = self.bound(is_low=True), self.bound(is_low=False)
        return (low is not None and _less(value, low)) or (high is not None and _less(high, value))

    def holds_only(self, value: Bound) -> bool:
        return self.bound(is_low=True) == value == self.bound(is_low=False)


def _any_of(reasons: Iterator[Reason | None]) -> Reason | None:
    return next((reason for reason in reasons if reason is not None), None)


def _all_of(reasons: Iterator[Reason | None]) -> Reason | None:
    """Return the most expensive of the reasons, or None if any is None."""
    found: list[Reason] = []
    for reason in reasons:
        if reason is None:
            return None
        found.append(reason)
    return max(found, key=list(Reason).index)


def _comparable(bound: Bound | None, column: SnapshotColumn) -> Bound | None:
    """Return a bound if it has the representation of the column's values, as it has unless the type is impossible."""
    match numbers_of(column):
        case Floats():
            return bound if isinstance(bound, float) else None
        case Integers() if not is_long256(column):
            return bound if isinstance(bound, int) else None
        case _:
            return bound if isinstance(bound, bytes) else None


def _excludes_order(facts: _Facts, operator: Operator, value: Bound, wanted: bool) -> bool:
    """Whether for no value between the bounds the comparison with `value` is `wanted`."""
    is_less = operator in (Operator.LESS, Operator.LESS_OR_EQUAL)
    may_be_equal = operator in (Operator.LESS_OR_EQUAL, Operator.GREATER_OR_EQUAL)
    if not wanted:
        is_less, may_be_equal = not is_less, not may_be_equal
    bound = facts.bound(is_low=is_less)
    if bound is None:
        return False
    nearest, farthest = (bound, value) if is_less else (value, bound)
    return _less(farthest, nearest) or (not may_be_equal and not _less(nearest, farthest))


def _less(left: Any, right: Any) -> bool:
    """Compare two values of one column, or a value with a bound."""
    return bool(left < right)


def _as_stored(column: SnapshotColumn, value: Bound) -> Bound:
    """Return a value as the statistics compare it: LONG256 by its stored bytes, not as a number."""
    return value.to_bytes(LONG256_BYTES, "little") if is_long256(column) and isinstance(value, int) else value


def _plain_bytes(stored: Column, value: Bound) -> tuple[bytes, ...] | None:
    """Return the possible PLAIN encodings of a value, or None if they are unknown.

    Bloom filters hash them without a length. A float zero has two.
    """
    physical, tag = stored.physical_type, tag_of(stored.type)
    match value:
        case float() if physical in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
            letter = "<f" if physical == PhysicalType.FLOAT else "<d"
            return tuple(struct.pack(letter, each) for each in ((0.0, -0.0) if value == 0 else (value,)))
        case bytes() if physical in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY):
            return (value,)
        case int() if physical == PhysicalType.INT32 and tag is TypeTag.DATE:
            days, rest = divmod(value, MILLISECONDS_PER_DAY)
            return _integer_bytes(days, 4) if rest == 0 else None
        case int() if physical in (PhysicalType.INT32, PhysicalType.INT64):
            return _integer_bytes(value, 4 if physical == PhysicalType.INT32 else 8)
        case int() if physical == PhysicalType.FIXED_LEN_BYTE_ARRAY and tag is TypeTag.LONG256:
            return (value.to_bytes(LONG256_BYTES, "little"),)
        case int() if (
            physical == PhysicalType.FIXED_LEN_BYTE_ARRAY and abs(value).bit_length() < 8 * stored.fixed_byte_len
        ):
            return (value.to_bytes(stored.fixed_byte_len, "big", signed=True),)
    return None


def _integer_bytes(value: int, size_bytes: int) -> tuple[bytes, ...] | None:
    """Return the bytes of a signed number or, as for CHAR and IPv4, an unsigned one."""
    fits = -(1 << 8 * size_bytes - 1) <= value < 1 << 8 * size_bytes
    return ((value % (1 << 8 * size_bytes)).to_bytes(size_bytes, "little"),) if fits else None
