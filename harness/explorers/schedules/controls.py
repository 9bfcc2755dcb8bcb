"""Positive controls of the schedules explorer: broken toys that each method must detect, and sound ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from tornproof.harness.common import model_controls
from tornproof.harness.common.system import Target
from tornproof.harness.explorers.schedules import small_programs
from tornproof.harness.explorers.schedules.exploration import PCT_DEPTHS, UNIFORM, Exploration
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Judge, Property
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems import table_rules_controls
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, NeverSyncs, Toy
from tornproof.harness.systems.toy_control import ForgetsReads
from tornproof.harness.systems.toy_locks import CrossedLocks, OrderedLocks
from tornproof.harness.systems.toy_readers import (
    Counter,
    FollowsBack,
    GoesBack,
    KeptOut,
    LeasesInPlace,
    LocksAndReadsEarly,
    Panics,
    ReadsEarly,
    ShowsLate,
    ToyRules,
)
from tornproof.harness.systems.toy_records import InPlace, LooksOnce, Record
from tornproof.harness.systems.toy_specified import LosesALetter, Specified

LETTERS = (b"one", b"t")
LETTER = (b"o",)
NUMBERS = (5, 7, 9)
ROUNDS = 60


def control_case(
    target: Target,
    operations: tuple[Any, ...],
    reader_count: int = 1,
    read_count: int = 1,
    rules: TraceRules = NO_RULES,
    styles: Sequence[str] = ("fresh",),
    judge: type[Judge] = Judge,
) -> TestCase:
    """Return a test case of a toy's writer and readers, so many of each style."""
    return TestCase(
        target=target,
        path="toy",
        operations=operations,
        first_session=tuple(range(len(operations))),
        readers=tuple(Readers(count=reader_count, read_count=read_count, style=style) for style in styles),
        rules=rules,
        judge=judge,
    )


BROKEN: tuple[tuple[TestCase, str], ...] = (
    (control_case(HeaderFirst(), LETTERS), Property.REJECTED),
    (control_case(AcknowledgesFirst(), LETTERS), Property.STALE),
    (control_case(ShowsLate(), LETTER), Property.STALE),
    (control_case(ReadsEarly(), LETTER), Property.STALE),
    (control_case(LocksAndReadsEarly(), LETTER), Property.STALE),
    (control_case(InPlace(), NUMBERS[:2]), Property.WRONG_SNAPSHOT),
    (control_case(LooksOnce(), NUMBERS, read_count=2), Property.WRONG_SNAPSHOT),
    (control_case(GoesBack(), LETTER, read_count=2), Property.WENT_BACK),
    (control_case(FollowsBack(), LETTER, read_count=2, styles=("fresh", "follow")), Property.WENT_BACK),
    (control_case(KeptOut(fails_at_once=False), LETTER), Property.COMMIT),
    (control_case(KeptOut(fails_at_once=True), LETTER), Property.RECOVERY),
    (control_case(Panics(), LETTER), Property.DISORDERLY),
    (control_case(LeasesInPlace(), LETTER), Property.LEASE),
    (control_case(Counter(), LETTER, rules=ToyRules()), Property.IMMUTABLE),
    (control_case(NeverSyncs(), LETTER, rules=ToyRules()), Property.BARRIERS),
    (control_case(LosesALetter(), LETTERS), Property.CONTENT),
    (control_case(CrossedLocks(), LETTER), Property.ENDS),
    (control_case(GoesBack(), LETTER, read_count=2, judge=ForgetsReads), Property.BEHAVIOUR),
)
SOUND = (
    control_case(Toy(), LETTERS, rules=ToyRules()),
    control_case(Specified(), LETTERS),
    control_case(Record(), NUMBERS),
    control_case(Counter(), LETTER, read_count=2),
    control_case(OrderedLocks(), LETTER),
)


@cache
def failed_controls(seed: int) -> tuple[str, ...]:
    """Return the failures, which every test case of a run asks for."""
    return tuple(failures(seed))


def failures(seed: int) -> Iterator[str]:
    """Explore toys by each method; describe each broken one not detected and each sound one rejected."""
    for case, violated in BROKEN:
        for method, found in _found(case, seed).items():
            if violated not in found:
                yield f"{method} did not detect the broken toy {case.target.name!r}: {violated}"
    for case in SOUND:
        for method, found in _found(case, seed).items():
            for violated in sorted(found):
                yield f"{method} rejected the sound toy {case.target.name!r}: {violated}"
    yield from small_programs.failed_controls(seed)
    yield from model_controls.failed_controls()
    yield from table_rules_controls.failed_controls()


def _found(case: TestCase, seed: int) -> dict[str, set[str]]:
    """Return the violated properties that each method finds, the reader reduction only where readers only read."""
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
