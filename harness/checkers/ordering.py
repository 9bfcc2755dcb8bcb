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
    refuse,
)

MISSING = "is not the next one of its process: an event is missing or twice there"
EARLIER = "is earlier than the one before it in its process"
OF_READERS = (READ_START, READ_END, READ_FAILED, PIN, UNPIN, KILLED)


def by_process(columns: Columns) -> Integers:
    """Return the positions of the own events by process and sequence."""
    process, sequence = columns.process[: columns.own_count], columns.sequence[: columns.own_count]
    order = _by(process)
    follows = sequence[order[1:]] > sequence[order[:-1]]
    if not (follows | (process[order[1:]] != process[order[:-1]])).all():
        order = np.lexsort((sequence, process))
    return order


def firsts(owner: Integers) -> Truths:
    """Return which of ordered events are the first ones of their processes, or of their clients."""
    is_first = np.ones(len(owner), dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    return is_first


def check_steps(columns: Columns, order: Integers) -> None:
    """Raise MalformedHistoryError unless each process numbered its events without a gap, while time did not go back.

    `order` is that of `by_process`; what number a process began with is not looked at.
    """
    within = ~firsts(columns.process[order])[1:]
    before, after = order[:-1], order[1:]
    refuse(columns, after[within & (columns.sequence[after] != columns.sequence[before] + 1)], MISSING)
    refuse(columns, after[within & (columns.time_ns[after] < columns.time_ns[before])], EARLIER)


def check_beginnings(columns: Columns, order: Integers) -> None:
    """Raise MalformedHistoryError unless each process began with 0; `order` is that of `by_process`."""
    first = order[firsts(columns.process[order])]
    refuse(columns, first[columns.sequence[first] != 0], MISSING)


def by_client(columns: Columns, order: Integers) -> Integers:
    """Return the positions of what readers did, by client and then time, process, sequence.

    `order` is that of `by_process`. The own deaths are left out: all deaths are among the known events.
    """
    is_reading = columns.of_kind(*OF_READERS)
    is_reading[: columns.own_count] &= columns.kind[: columns.own_count] != KILLED
    known = np.arange(columns.own_count, len(columns))
    places = np.concatenate([known[is_reading[known]], order[is_reading[order]]])
    places = places[_by(columns.client[places])]
    back = _goes_back(columns, places)
    if back.any():
        mixed = np.isin(columns.client[places], columns.client[places[1:][back]])
        some = places[mixed]
        keys = (columns.sequence[some], columns.process[some], columns.time_ns[some], columns.client[some])
        places[mixed] = some[np.lexsort(keys)]
    return places


def _by(numbers: Integers) -> Integers:
    """Return a stable order of small numbers, which costs little where they stand in order already."""
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    return np.argsort(numbers, kind="stable")


def _goes_back(columns: Columns, places: Integers) -> Truths:
    """Return which events after the first stand before an event of the same client that is later."""
    before, after = places[:-1], places[1:]
    is_same = columns.client[before] == columns.client[after]
    time = columns.time_ns[after] - columns.time_ns[before]
    process = columns.process[after].astype(np.int64) - columns.process[before]
    tie = (time == 0) & ((process < 0) | ((process == 0) & (columns.sequence[after] < columns.sequence[before])))
    return np.asarray(is_same & ((time < 0) | tie))
