"""What readers saw: each read with its start, the pin that it stands under, and the read before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.checkers.ordering import firsts
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

NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Reads as positions of events: start, end (or failure), pin, and end of the read before it that was not refused.

    A pin is NOWHERE without one, and so is an earlier read where this life of the client has none. A read is `refused`
    when it failed, and `of_older_snapshot` when its pin stands before its start.
    """

    start: Integers
    end: Integers
    pin: Integers
    earlier: Integers
    refused: Truths
    of_older_snapshot: Truths


def read_readings(columns: Columns, order: Integers) -> Readings:
    """Pair the events of reads and pins in the order of `by_client`.

    Raises MalformedHistoryError where one has no partner. A client does one thing at a time. A snapshot is pinned
    inside of a read, and unpinned between reads. What is known from elsewhere only says how a client came here.
    """
    kind, client = columns.kind[order], columns.client[order]
    is_own = order < columns.own_count
    first = _first_places(client)
    bracket = _last_before(is_one_of(kind, READ_START, READ_END, READ_FAILED, KILLED), first)
    in_read = _is_kind(kind, bracket, READ_START)
    pins = _last_before(is_one_of(kind, PIN, UNPIN, KILLED), first)
    is_pinned = _is_kind(kind, pins, PIN)
    ends = is_one_of(kind, READ_END, READ_FAILED) & is_own
    for wrong, reason in (
        ((kind == READ_START) & in_read, "stands inside of a read of this client"),
        (ends & ~in_read, "has no start"),
        ((kind == PIN) & ~in_read, "stands outside of a read"),
        ((kind == PIN) & is_pinned, "is a second pin of this client"),
        ((kind == UNPIN) & in_read, "stands inside of a read"),
        ((kind == UNPIN) & ~is_pinned, "has no pin"),
    ):
        refuse(columns, order[wrong & is_own], reason)
    last_read = _last_before(is_one_of(kind, READ_END, KILLED), first)
    read = np.flatnonzero(ends)
    start, pin, earlier = bracket[read], pins[read], last_read[read]
    return Readings(
        start=order[start],
        end=order[read],
        pin=np.where(is_pinned[read], order[pin], NOWHERE),
        earlier=np.where(_is_kind(kind, earlier, READ_END), order[earlier], NOWHERE),
        refused=kind[read] == READ_FAILED,
        of_older_snapshot=is_pinned[read] & (pin < start),
    )


def _first_places(client: Integers) -> Integers:
    """Return for each event, ordered by client, the place of the first one of its client."""
    return np.asarray(np.maximum.accumulate(np.where(firsts(client), np.arange(len(client)), 0)))


def _last_before(marked: Truths, first: Integers) -> Integers:
    """Return for each event the last marked one before it of the same client, or NOWHERE."""
    before = np.full(len(marked), NOWHERE)
    np.maximum.accumulate(np.where(marked, np.arange(len(marked)), NOWHERE)[:-1], out=before[1:])
    before[before < first] = NOWHERE
    return before


def _is_kind(kind: Integers, places: Integers, wanted: int) -> Truths:
    return np.asarray((places != NOWHERE) & (kind[places] == wanted)) if len(kind) else np.zeros(0, dtype=np.bool_)
