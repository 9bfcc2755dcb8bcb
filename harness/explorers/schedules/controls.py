"""Positive controls of the schedules explorer: broken toys that each method must detect, and sound ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.explorers.schedules.exploration import PCT_DEPTHS, UNIFORM, Exploration
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, Toy
from tornproof.harness.systems.toy_locks import CrossedLocks, OrderedLocks
from tornproof.harness.systems.toy_records import InPlace, LooksOnce, Record

LETTERS = (b"one", b"t")
LETTER = (b"o",)
NUMBERS = (5, 7, 9)
ROUNDS = 60
BROKEN: tuple[tuple[Target, tuple[Any, ...], str], ...] = (
    (HeaderFirst(), LETTERS, Property.REJECTED),
    (AcknowledgesFirst(), LETTERS, Property.STALE),
    (InPlace(), NUMBERS, Property.WRONG_SNAPSHOT),
    (LooksOnce(), NUMBERS, Property.WRONG_SNAPSHOT),
    (CrossedLocks(), LETTER, Property.ENDS),
)
SOUND: tuple[tuple[Target, tuple[Any, ...]], ...] = ((Toy(), LETTERS), (Record(), NUMBERS), (OrderedLocks(), LETTER))


def control_case(target: Target, operations: tuple[Any, ...], reader_count: int = 1) -> TestCase:
    """Return a test case of a toy's writer and readers."""
    return TestCase(
        target=target,
        path="toy",
        operations=operations,
        first_session=tuple(range(len(operations))),
        readers=(Readers(count=reader_count),),
    )


@cache
def failed_controls(seed: int) -> tuple[str, ...]:
    """Explore toys by each method; describe each broken one that was not detected and each sound one that was rejected.

    Cached, because every test case of a run asks for it.
    """
    failures = []
    for target, operations, violated in BROKEN:
        for method, found in _found(target, operations, seed).items():
            if violated not in found:
                failures.append(f"{method} did not detect the broken toy {target.name!r}: {violated}")
    for target, operations in SOUND:
        for method, found in _found(target, operations, seed).items():
            failures += [f"{method} rejected the sound toy {target.name!r}: {violated}" for violated in sorted(found)]
    return tuple(failures)


def _found(target: Target, operations: tuple[Any, ...], seed: int) -> dict[str, set[str]]:
    """Return the violated properties that each method finds, the reader reduction only where readers only read."""
    case = control_case(target, operations)
    methods: dict[str, Callable[[Exploration], object]] = {
        "DPOR": lambda exploration: exploration.reduce(),
        "reader reduction": lambda exploration: exploration.reduce_readers(case.first_session),
        "uniform random": lambda exploration: exploration.sample(seed, ROUNDS, methods=(UNIFORM,)),
        "PCT": lambda exploration: exploration.sample(seed, ROUNDS, methods=PCT_DEPTHS),
    }
    found = {}
    for method, explore in methods.items():
        exploration = Exploration(case, lambda done, total: None)
        try:
            if explore(exploration) != ():
                found[method] = {finding.property for finding in exploration.findings.values()}
        finally:
            exploration.close()
    return found
