"""What readers saw: each read with its start, the pin that it stands under, and the read before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tornproof.harness.checkers.ordering import firsts
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
    reject,
)

NOWHERE = -1
NOTHING = 2 * NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Reads as positions in `columns`: start, end or failure, pin, end of the read before it that was not refused.

    A pin is NOWHERE without one, and so is an earlier read where this life of the client has none. A read is `refused`
    when it failed, and `of_older_snapshot` when its pin stands before its start.
    """

    columns: Columns
    start: Integers
    end: Integers
    pin: Integers
    earlier: Integers
    rejected: Truths
    of_older_snapshot: Truths


def read_readings(columns: Columns) -> Readings:
    """Pair the events of reads and pins; `columns` are in the order of `by_client`.

    Raises MalformedHistoryError where one has no partner. A client does one thing at a time. A snapshot is pinned
    inside of a read, and unpinned between reads. What is known from elsewhere only says how a client came here.
    """
    kind = columns.kind
    is_own = columns.row < columns.own_count
    first = _first_positions(columns.client)
    bracket, in_read = _last_before(columns, first, READ_START, READ_END, READ_FAILED, KILLED)
    pins, is_pinned = _last_before(columns, first, PIN, UNPIN, KILLED)
    ends = columns.of_kind(READ_END, READ_FAILED) & is_own
    for wrong, reason in (
        ((kind == READ_START) & in_read, "stands inside of a read of this client"),
        (ends & ~in_read, "has no start"),
        ((kind == PIN) & ~in_read, "stands outside of a read"),
        ((kind == PIN) & is_pinned, "is a second pin of this client"),
        ((kind == UNPIN) & in_read, "stands inside of a read"),
        ((kind == UNPIN) & ~is_pinned, "has no pin"),
    ):
        reject(columns, np.flatnonzero(wrong & is_own), reason)
    last_read, is_read = _last_before(columns, first, READ_END, KILLED)
    end = np.flatnonzero(ends)
    start, pin, earlier = (positions[end].astype(np.intp) for positions in (bracket, pins, last_read))
    return Readings(
        columns=columns,
        start=start,
        end=end,
        pin=np.where(is_pinned[end], pin, NOWHERE),
        earlier=np.where(is_read[end], earlier, NOWHERE),
        rejected=kind[end] == READ_FAILED,
        of_older_snapshot=is_pinned[end] & (pin < start),
    )


def _first_positions(client: Integers) -> Integers:
    """Return for each event, ordered by client, the place of the first one of its client."""
    return np.asarray(np.maximum.accumulate(np.where(firsts(client), _positions(len(client)), 0)))


def _positions(count: int) -> Integers:
    """Return numbers as small as twice as many allow, because here the time goes into moving them."""
    return np.arange(count, dtype=np.int32 if count < 1 << 30 else np.int64)


def _last_before(columns: Columns, first: Integers, wanted: int, *others: int) -> tuple[Integers, Truths]:
    """Return for each event the last one of some kinds before it of its client, or NOWHERE, and if it is the wanted."""
    kind, size = columns.kind, len(columns)
    # The place and whether it is wanted travel as one number.
    marks = np.where(columns.of_kind(wanted, *others), 2 * _positions(size) + (kind == wanted), NOTHING)
    before = np.full_like(marks, NOTHING)
    np.maximum.accumulate(marks[:-1], out=before[1:])
    before[before < 2 * first] = NOTHING
    return before >> 1, (before & 1).astype(np.bool_)
