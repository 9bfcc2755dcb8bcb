"""What readers did: each read with its start, its pin, and the read before it."""

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
    """Reads as positions in `columns`: start, end or failure, pin, and end of the last successful read before it.

    `pin` is NOWHERE without a pin, `earlier` if the client has not read since it last died. `rejected` reads failed; a
    read is `of_older_snapshot` if its pin comes before its start.
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

    A client does one thing at a time; it pins inside a read, and unpins between reads. Known events only give the state
    in which a client begins. Raises MalformedHistoryError if an event has no partner.
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
    """Return for each event, ordered by client, the position of its client's first event."""
    return np.asarray(np.maximum.accumulate(np.where(firsts(client), _positions(len(client)), 0)))


def _positions(count: int) -> Integers:
    """Return the numbers up to `count`, as small as twice `count` allows: most time goes into moving them."""
    return np.arange(count, dtype=np.int32 if count < 1 << 30 else np.int64)


def _last_before(columns: Columns, first: Integers, wanted: int, *others: int) -> tuple[Integers, Truths]:
    """Return for each event its client's last event of these kinds before it, or NOWHERE, and if it is a wanted one."""
    kind, size = columns.kind, len(columns)
    # The position, and whether it is a wanted one, are packed into one number.
    marks = np.where(columns.of_kind(wanted, *others), 2 * _positions(size) + (kind == wanted), NOTHING)
    before = np.full_like(marks, NOTHING)
    np.maximum.accumulate(marks[:-1], out=before[1:])
    before[before < 2 * first] = NOTHING
    return before >> 1, (before & 1).astype(np.bool_)
