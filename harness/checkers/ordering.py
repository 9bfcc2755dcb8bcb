"""The order of events: each process numbers its own, and each client does one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tornproof.harness.checkers.recorded import (
    KILLED,
    PIN,
    READ_END,
    READ_FAILED,
    READ_START,
    UNPIN,
    Columns,
    Integers,
    Truths,
    is_one_of,
    reject,
)

MISSING = "is not the next one of its process: an event is missing or twice there"
EARLIER = "is earlier than the one before it in its process"
OF_LIVING_READERS = (READ_START, READ_END, READ_FAILED, PIN, UNPIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The own events, ordered by process and sequence: their rows, processes and sequence numbers."""

    rows: Integers
    process: Integers
    sequence: Integers


def by_process(columns: Columns) -> Steps:
    """Return the own events by process and sequence; `columns` are in the order of their rows."""
    rows = columns.row[: columns.own_count]
    process, sequence = columns.process[: columns.own_count], columns.sequence[: columns.own_count]
    steps = Steps(rows=rows, process=process, sequence=sequence)
    if not _is_rising(process):
        steps = _in_order(steps, np.argsort(process, kind="stable"))
    if not ((steps.sequence[1:] > steps.sequence[:-1]) | firsts(steps.process)[1:]).all():
        steps = _in_order(steps, np.lexsort((steps.sequence, steps.process)))
    return steps


def _in_order(steps: Steps, order: Integers) -> Steps:
    return Steps(rows=steps.rows[order], process=steps.process[order], sequence=steps.sequence[order])


def _is_rising(numbers: Integers) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def firsts(owner: Integers) -> Truths:
    """Return which events of an ordered sequence are the first of their owner (process or client)."""
    is_first = np.ones(len(owner), dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    return is_first


def highest_so_far(values: Integers, *owners: Integers) -> Integers:
    """Return the highest of the values up to each one, beginning again where one of the owners changes."""
    group = np.logical_or.reduce([firsts(owner) for owner in owners]).cumsum() * (values.max(initial=0) + 1)
    return np.asarray(np.maximum.accumulate(group + values) - group)


def check_steps(columns: Columns, steps: Steps) -> None:
    """Raise MalformedHistoryError unless the events of each process are numbered without gaps and in order of time.

    The first number is not checked.
    """
    after, sequence = steps.rows[1:], steps.sequence
    # Where the rows are in order, the times are too.
    time_ns = columns.time_ns[: columns.own_count]
    time_ns = time_ns if _is_rising(steps.rows) else time_ns[steps.rows]
    within = ~firsts(steps.process)[1:]
    reject(columns, after[within & (sequence[1:] != sequence[:-1] + 1)], MISSING)
    reject(columns, after[within & (time_ns[1:] < time_ns[:-1])], EARLIER)


def check_beginnings(columns: Columns, steps: Steps) -> None:
    """Raise MalformedHistoryError unless the numbers of each process begin with 0."""
    reject(columns, steps.rows[firsts(steps.process) & (steps.sequence != 0)], MISSING)


def by_client(columns: Columns, steps: Steps) -> Columns:
    """Return the events of readers by client, then time, deaths last, process, sequence.

    The own deaths are left out, because all deaths are among the known events.
    """
    own = steps.rows[columns.of_kind(*OF_LIVING_READERS)[steps.rows]]
    known = columns.row[columns.own_count :]
    known = known[is_one_of(columns.kind[known], *OF_LIVING_READERS, KILLED)]
    positions = _known_first(columns, known, own)
    reading = columns.taken(positions)
    back = _goes_back(reading)
    if len(back):
        mixed = np.isin(reading.client, reading.client[back])
        some = positions[mixed]
        positions[mixed] = some[_order_of(columns, some)]
        reading = columns.taken(positions)
    return reading


def _known_first(columns: Columns, known: Integers, own: Integers) -> Integers:
    """Return the rows by client; of each client the known events come before its own ones."""
    known = known[_order_of(columns, known)]
    owner = columns.client[own]
    if not _is_rising(owner):
        order = np.argsort(owner, kind="stable")
        own, owner = own[order], owner[order]
    others, begins = np.unique(columns.client[known], return_index=True)
    rest = np.split(own, np.searchsorted(owner, others))
    pairs = zip(np.split(known, begins)[1:], rest[1:], strict=True)
    return np.concatenate([rest[0], *(part for pair in pairs for part in pair)])


def _order_of(columns: Columns, rows: Integers) -> Integers:
    """Return the order of these rows by client, time, process, sequence.

    Within one time a death and what the same process recorded after it come last, because names say nothing about when.
    """
    order = np.lexsort((columns.sequence[rows], columns.process[rows], columns.time_ns[rows], columns.client[rows]))
    rows = rows[order]
    client, time_ns = columns.client[rows], columns.time_ns[rows]
    is_death = (columns.kind[rows] == KILLED).astype(np.intp)
    return order[np.lexsort((highest_so_far(is_death, client, time_ns, columns.process[rows]), time_ns, client))]


def _goes_back(events: Columns) -> Integers:
    """Return the positions of events whose successor of the same client is earlier, or may be after a death."""
    time_ns = events.time_ns
    some = np.flatnonzero((time_ns[1:] <= time_ns[:-1]) & ~firsts(events.client)[1:])
    before, after = events.row[some], events.row[some + 1]
    process, sequence = events.process, events.sequence
    is_next = (process[after] == process[before]) & (sequence[after] >= sequence[before])
    is_tie = time_ns[some + 1] == time_ns[some]
    is_death = events.kind[some] == KILLED
    return np.asarray(some[is_death | ~(is_tie & ((process[after] > process[before]) | is_next))])
