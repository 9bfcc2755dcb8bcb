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


def by_process(columns: Columns) -> Columns:
    """Return the own events by process and sequence; `columns` are in the order of their rows."""
    own = columns.taken(slice(columns.own_count))
    if not _is_rising(own.process):
        own = own.taken(np.argsort(own.process, kind="stable"))
    follows = own.sequence[1:] > own.sequence[:-1]
    if not (follows | firsts(own.process)[1:]).all():
        own = own.taken(np.lexsort((own.sequence, own.process)))
    return own


def firsts(owner: Integers) -> Truths:
    """Return which of ordered events are the first ones of their processes, or of their clients."""
    is_first = np.ones(len(owner), dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    return is_first


def check_steps(own: Columns) -> None:
    """Raise MalformedHistoryError unless each process numbered its events without a gap, while time did not go back.

    `own` are in the order of `by_process`; what number a process began with is not looked at.
    """
    within = ~firsts(own.process)[1:]
    refuse(own, 1 + np.flatnonzero(within & (own.sequence[1:] != own.sequence[:-1] + 1)), MISSING)
    refuse(own, 1 + np.flatnonzero(within & (own.time_ns[1:] < own.time_ns[:-1])), EARLIER)


def check_beginnings(own: Columns) -> None:
    """Raise MalformedHistoryError unless each process began with 0; `own` are in the order of `by_process`."""
    refuse(own, np.flatnonzero(firsts(own.process) & (own.sequence != 0)), MISSING)


def by_client(columns: Columns) -> Columns:
    """Return what readers did, by client and then time, process, sequence; `columns` are in the order of their rows.

    The own deaths are left out: all deaths are among the known events.
    """
    own_count = columns.own_count
    own = np.flatnonzero(is_one_of(columns.kind[:own_count], *OF_LIVING_READERS))
    known = own_count + np.flatnonzero(is_one_of(columns.kind[own_count:], *OF_LIVING_READERS, KILLED))
    places = _known_first(columns.client, known, own)
    reading = columns.taken(places)
    back = _goes_back(reading)
    if len(back):
        mixed = np.isin(reading.client, reading.client[1 + back])
        some = places[mixed]
        keys = (columns.sequence[some], columns.process[some], columns.time_ns[some], columns.client[some])
        places[mixed] = some[np.lexsort(keys)]
        reading = columns.taken(places)
    return reading


def _known_first(client: Integers, known: Integers, own: Integers) -> Integers:
    """Return the places of events by client, and of each those that are known before its own ones."""
    known = known[np.argsort(client[known], kind="stable")]
    owner = client[own]
    if not _is_rising(owner):
        order = np.argsort(owner, kind="stable")
        own, owner = own[order], owner[order]
    others, begins = np.unique(client[known], return_index=True)
    rest = np.split(own, np.searchsorted(owner, others))
    pairs = zip(np.split(known, begins)[1:], rest[1:], strict=True)
    return np.concatenate([rest[0], *(part for pair in pairs for part in pair)])


def _is_rising(numbers: Integers) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


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
