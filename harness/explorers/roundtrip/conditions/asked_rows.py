"""What conditions are of rows, whose values of every type are asked for one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import (
    FIRST_ID,
    HALF,
    HUGE,
    SIGNS,
    Condition,
    Key,
    Kind,
    kinds,
    leaves,
    predicate_of,
    truth_of,
)
from tornproof.impl.query.comparison import nearest_float
from tornproof.impl.query.predicate import columns_of, matching, truth


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedRows:
    """A condition on rows of some columns."""

    of: tuple[Kind, ...]
    rows: tuple[tuple[Key | None, ...], ...]
    condition: Condition

    @property
    def name(self) -> str:
        """It in words."""
        return f"the condition {self.condition} on rows of {self.kind}"

    @property
    def kind(self) -> str:
        """The kinds of the columns."""
        return " and ".join(each.name for each in self.of)

    def problem(self) -> str | None:
        """Say of which rows it is something else."""
        columns = [each.column(number) for number, each in enumerate(self.of)]
        predicate = predicate_of(self.condition, columns)
        named = [*dict.fromkeys(part[1] for part, _ in leaves(self.condition))]
        if (found := [each.id - FIRST_ID for each in columns_of(predicate)]) != named:
            return f"it names the columns {found}, and should {named}"
        arrays = {FIRST_ID + number: self.of[number].array([row[number] for row in self.rows]) for number in named}
        expected = [truth_of(self.condition, row) for row in self.rows]
        if (answers := truth(predicate, arrays).to_pylist()) != expected:
            return f"it is {answers} of {self.rows}, and should be {expected}"
        if (chosen := matching(predicate, arrays).to_pylist()) != [each is True for each in expected]:
            return f"it chooses {chosen} of {self.rows}, where it is {expected}"
        empty = {key: array.slice(0, 0) for key, array in arrays.items()}
        return "of no rows it is something" if len(truth(predicate, empty)) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nearest:
    """A number, and the nearest float of a column, None if it is out of its range."""

    of: Kind
    value: Fraction
    expected: float | None

    @property
    def name(self) -> str:
        """It in words."""
        return f"{Decimal(self.value.numerator) / self.value.denominator} as {self.of.name}"

    @property
    def kind(self) -> str:
        """The type."""
        return f"nearest {self.of.name}"

    def problem(self) -> str | None:
        """Say which float it is instead."""
        found = nearest_float(self.of.column(), self.value)
        return None if found == self.expected else f"the nearest float is {found}, and should be {self.expected}"


def asked_rows() -> Iterator[AskedRows | Nearest]:
    """Yield conditions on values of each kind, on several columns, and numbers between floats."""
    for kind in kinds():
        rows = tuple((key,) for key in (*kind.values, None))
        yield from (AskedRows(of=(kind,), rows=rows, condition=each) for each in _conditions(kind))
        if kind.name in ("FLOAT", "DOUBLE"):
            yield from _nearest(kind)
    yield from _on_several()


def _conditions(kind: Kind) -> Iterator[Condition]:
    yield ("null", 0)
    if not kind.is_compared:
        return
    numbers = [each for each in (*kind.values, *kind.odd) if each == each]
    whole = [Fraction(each) for each in kind.bounds[:1] if isinstance(each, int)]
    yield from ((sign, 0, value) for sign in SIGNS for value in (*numbers, *whole))
    for value in numbers:
        yield ("not", ("<=", 0, value))
    for few in ((), numbers[:1], numbers[1:4], kind.odd, (*numbers[:2], *kind.odd)):
        yield ("in", 0, tuple(few))
        yield ("not", ("in", 0, tuple(few)))
    yield ("and", (">", 0, numbers[0]), ("not", ("=", 0, kind.middle)))
    yield ("or", ("=", 0, numbers[1]), ("null", 0))


def _on_several() -> Iterator[AskedRows]:
    """Yield each of the three values of a condition together with each other."""
    of = tuple(kind for kind in kinds() if kind.name in ("INT", "VARCHAR", "FLOAT"))
    rows = tuple(itertools.product(*((kind.bounds[0], kind.middle, None) for kind in of)))
    first, second, third = (("=", number, kind.middle) for number, kind in enumerate(of))
    for condition in (
        ("and", first, second),
        ("or", second, first),
        ("and", third, ("not", first), third),
        ("or", ("not", second), first, third),
        ("not", ("and", third, ("or", first, second))),
        ("or", ("null", 1), ("and", ("null", 0), third)),
    ):
        yield AskedRows(of=of, rows=rows, condition=condition)


def _nearest(kind: Kind) -> Iterator[Nearest]:
    """Yield numbers on floats, between two of them, and at the end; a number in the midst goes to the even one."""
    digits, least, most = (24, -149, 128) if kind.name == "FLOAT" else (53, -1074, 1024)
    little = Fraction(1, 1 << 1200)
    first, last = 1 << digits - 1, (1 << digits) - 1
    exponents = (least, 1 - digits, 0, most - digits)
    numbers = [(least, 1), (least, 6), *itertools.product(exponents, (first, last - 1, last))]
    for (exponent, number), sign in itertools.product(numbers, (1, -1)):
        even = number if number % 2 == 0 else number + 1
        for more, nearest in (
            (Fraction(0), number),
            (HALF - little, number),
            (HALF, even),
            (HALF + little, number + 1),
            (1 - little, number + 1),
        ):
            step = Fraction(2) ** exponent
            expected = None if nearest * step >= Fraction(2) ** most else sign * float(nearest * step)
            yield Nearest(of=kind, value=sign * (number + more) * step, expected=expected)
    largest = Fraction(2) ** 1024 - Fraction(2) ** 971
    for value, expected in (
        (Fraction(0), 0.0),
        (Fraction(2) ** (least - 2), 0.0),
        (largest, None if most < 1024 else float(largest)),
        (HUGE, None),
        (-HUGE, None),
    ):
        yield Nearest(of=kind, value=value, expected=expected)
