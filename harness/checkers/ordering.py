"""The order of events: each process numbered its own, and each client did one thing after another."""

from __future__ import annotations

import numpy as np

from harness.checkers.recorded import (
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
    refuse,
)

MISSING = "is not the next one of its process: an event is missing or twice there"
EARLIER = "is earlier than the one before it in its process"
OF_LIVING_READERS = (READ_START, READ_END, READ_FAILED, PIN, UNPIN)


def by_process(columns: Columns) -> Integers:
    """Return the rows of the own events by process and sequence; `columns` are in the order of their rows."""
    process, sequence = columns.process[: columns.own_count], columns.sequence[: columns.own_count]
    rows = columns.row[: columns.own_count]
    if not (process[1:] >= process[:-1]).all():
        rows = np.argsort(process, kind="stable")
        process, sequence = process[rows], sequence[rows]
    if not ((sequence[1:] > sequence[:-1]) | firsts(process)[1:]).all():
        rows = np.lexsort((columns.sequence[: columns.own_count], columns.process[: columns.own_count]))
    return rows


def firsts(owner: Integers) -> Truths:
    """Return which of ordered events are the first ones of their processes, or of their clients."""
    is_first = np.ones(len(owner), dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    return is_first


def check_steps(columns: Columns, rows: Integers) -> None:
    """Raise MalformedHistoryError unless each process numbered its events without a gap, while time did not go back.

    `rows` are those of `by_process`; what number a process began with is not looked at.
    """
    within = ~firsts(columns.process[rows])[1:]
    sequence, time_ns = columns.sequence[rows], columns.time_ns[rows]
    refuse(columns, rows[1:][within & (sequence[1:] != sequence[:-1] + 1)], MISSING)
    refuse(columns, rows[1:][within & (time_ns[1:] < time_ns[:-1])], EARLIER)


def check_beginnings(columns: Columns, rows: Integers) -> None:
    """Raise MalformedHistoryError unless each process began with 0; `rows` are those of `by_process`."""
    first = rows[firsts(columns.process[rows])]
    refuse(columns, first[columns.sequence[first] != 0], MISSING)


def by_client(columns: Columns, rows: Integers) -> Columns:
    """Return what readers did, by client and then time, process, sequence; `rows` are those of `by_process`.

    The own deaths are left out: all deaths are among the known events.
    """
    own = rows[is_one_of(columns.kind[rows], *OF_LIVING_READERS)]
    known = columns.row[columns.own_count :]
    known = known[is_one_of(columns.kind[known], *OF_LIVING_READERS, KILLED)]
    places = _known_first(columns, known, own)
    reading = columns.taken(places)
    back = _goes_back(reading)
    if len(back):
        mixed = np.isin(reading.client, reading.client[back])
        some = places[mixed]
        places[mixed] = some[_moments(columns, some)]
        reading = columns.taken(places)
    return reading


def _known_first(columns: Columns, known: Integers, own: Integers) -> Integers:
    """Return the rows of events by client, and of each those that are known before its own ones."""
    known = known[_moments(columns, known)]
    owner = columns.client[own]
    if not (owner[1:] >= owner[:-1]).all():
        order = np.argsort(owner, kind="stable")
        own, owner = own[order], owner[order]
    others, begins = np.unique(columns.client[known], return_index=True)
    rest = np.split(own, np.searchsorted(owner, others))
    pairs = zip(np.split(known, begins)[1:], rest[1:], strict=True)
    return np.concatenate([rest[0], *(part for pair in pairs for part in pair)])


def _moments(columns: Columns, rows: Integers) -> Integers:
    """Return the order of some rows by client, time, process, sequence."""
    return np.lexsort((columns.sequence[rows], columns.process[rows], columns.time_ns[rows], columns.client[rows]))


def _goes_back(events: Columns) -> Integers:
    """Return the positions of events whose successor, of the same client, is earlier."""
    time_ns, process, sequence = events.time_ns, events.process, events.sequence
    some = np.flatnonzero((time_ns[1:] <= time_ns[:-1]) & ~firsts(events.client)[1:])
    is_tie = time_ns[some + 1] == time_ns[some]
    is_tie_of_process = is_tie & (process[some + 1] == process[some])
    follows = (is_tie & (process[some + 1] > process[some])) | (
        is_tie_of_process & (sequence[some + 1] >= sequence[some])
    )
    return np.asarray(some[~follows])
