"""Small questions to the model, and to the comparison with it, whose answers are known: controls of judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

from tornproof.harness.common import behaviour
from tornproof.harness.common.model_check import difference
from tornproof.model.rows import Change, Content, Interval, Row, after
from tornproof.model.table import Commit, Entry, Generation, Purge, Stage, State, Version, Write, step
from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow


class Reports(NamedTuple):
    """What processes report one after the other, and whether all of it may be."""

    title: str
    events: Sequence[Event]
    is_possible: bool


def _seen(reader: str, version: int) -> tuple[Event, Event]:
    return Event(Kind.BEGUN, reader=reader), Event(Kind.SEEN, version, reader)


BEGUN, ACKNOWLEDGED = Event(Kind.COMMIT), Event(Kind.ACKNOWLEDGED)
REPORTS = (
    Reports("two readers see a commit before its acknowledgement", (BEGUN, *_seen("1", 1), *_seen("2", 1)), True),
    Reports("a reader sees no commit, though another one has seen it", (BEGUN, *_seen("1", 1), *_seen("2", 0)), False),
    Reports("a reader sees less than it did before", (BEGUN, *_seen("1", 1), *_seen("1", 0)), False),
    Reports("a reader misses an acknowledged commit", (BEGUN, ACKNOWLEDGED, *_seen("1", 0)), False),
    Reports("a reader sees what nobody has begun", (BEGUN, *_seen("1", 2)), False),
    Reports("a commit begins within another one", (BEGUN, BEGUN), False),
    Reports("a commit is acknowledged twice", (BEGUN, ACKNOWLEDGED, ACKNOWLEDGED), False),
)
ROWS = (Row(0, ("a",), 1), Row(1, ("a",), 2), Row(1, ("b",), 3))
CONTENT = Content(version=1, partitions=((0, ROWS),), interval=Interval.YEAR, ticks=1)
WRONG = {
    "another version": replace(CONTENT, version=2),
    "another partition": replace(CONTENT, partitions=((1, ROWS),)),
    "a partition too many": replace(CONTENT, partitions=((0, ROWS), (1, ()))),
    "no partition": replace(CONTENT, partitions=()),
    "a row less": replace(CONTENT, partitions=((0, ROWS[:2]),)),
    "another value": replace(CONTENT, partitions=((0, (*ROWS[:2], Row(1, ("b",), 4))),)),
    "another order": replace(CONTENT, partitions=((0, (ROWS[0], *ROWS[:0:-1])),)),
}
"""What is not `CONTENT`, in words."""
NAMED, UNNAMED = (0, 0), (1, 0)
STATE = State(
    committed=Version(number=0, entries=(Entry(directory=NAMED, rows=(1,), token=1),)),
    directories=((NAMED, (Generation(token=1, rows=(1,)),)), (UNNAMED, ())),
)
"""A partition with a row, and a directory that nothing names."""
OTHER = Version(number=-1, entries=(Entry(directory=UNNAMED, rows=(1,), token=1),))
"""An earlier version, which a reader may have pinned, and which names that directory."""


def failed_controls() -> Iterator[str]:
    """Ask all questions, and describe each wrong answer."""
    yield from behaviour.failed_controls()
    for title, events, is_possible in REPORTS:
        if _is_possible(events) is not is_possible:
            yield f"the model took for {'impossible' if is_possible else 'possible'}: {title}"
    if difference(CONTENT, CONTENT):
        yield "a content was taken for another one"
    yield from (
        f"a content was taken for the same: {what}" for what, wrong in WRONG.items() if not difference(CONTENT, wrong)
    )
    replaced = after(CONTENT, Change(rows=(Row(1, ("a",), 5),)))
    if replaced is None or replaced.partitions != ((0, (ROWS[0], Row(1, ("a",), 5), ROWS[2])),):
        yield f"a row with the keys of another one gave {replaced}"
    if step(STATE, Purge(kept=(UNNAMED,))):
        yield "the model lets a purge keep what nobody needs"
    for both in permutations((OTHER, STATE.committed)):
        pinned = STATE._replace(pins=tuple(enumerate(both)))
        if [outcome.answer for outcome in step(pinned, Purge())] != [()]:
            yield "the model lets a purge remove what one of two readers has pinned"
    write = Write(partition=0, rows=(1, 2), token=2, in_place=True)
    for stage in Stage:
        outcomes = step(STATE, Commit(changes=(write,), stopped_after=stage, crash=True))
        versions = {outcome.state.committed.number for outcome in outcomes}
        if versions != {0, 1} - ({1} if stage < Stage.RECORDED else {0} if stage is Stage.COMMITTED else set()):
            yield f"the model lets a commit that is killed when it is {stage.name} leave versions {sorted(versions)}"


def _is_possible(events: Sequence[Event]) -> bool:
    known = Known()
    try:
        for event in events:
            known = follow(known, event)
    except NoBehaviourError:
        return False
    return True
