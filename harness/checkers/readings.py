"""What readers saw: each read with its start, the pin that it stands under, and the life of its client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.checkers.recorded import (
    KILLED,
    PIN,
    READ_END,
    READ_FAILED,
    READ_START,
    UNPIN,
    Columns,
    Integers,
    malformed,
)

NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Reads by client and time, as positions of events: start, end (or failure) and pin, or NOWHERE without one.

    `life` numbers the lives of all clients. A read is `refused` when it failed; it is of an older snapshot when its
    pin stands before its start.
    """

    start: Integers
    end: Integers
    pin: Integers
    life: Integers
    refused: npt.NDArray[np.bool_]

    @property
    def of_older_snapshot(self) -> npt.NDArray[np.bool_]:
        """Return which reads are of a snapshot that was pinned before they started."""
        return np.asarray((self.pin != NOWHERE) & (self.pin < self.start))


def read_readings(columns: Columns) -> Readings:
    """Pair the events of reads and pins; raises MalformedHistoryError where one has no partner.

    A client does one thing at a time. A snapshot is pinned inside of a read, and unpinned between reads.
    """
    by_client = np.argsort(columns.client, kind="stable")
    kind, client = columns.kind[by_client], columns.client[by_client]
    bracket = _last_before(np.isin(kind, (READ_START, READ_END, READ_FAILED, KILLED)), client)
    in_read = _is_kind(kind, bracket, READ_START)
    pins = _last_before(np.isin(kind, (PIN, UNPIN, KILLED)), client)
    is_pinned = _is_kind(kind, pins, PIN)
    ends = np.isin(kind, (READ_END, READ_FAILED))
    for wrong, reason in (
        ((kind == READ_START) & in_read, "stands inside of a read of this client"),
        (ends & ~in_read, "has no start"),
        ((kind == PIN) & ~in_read, "stands outside of a read"),
        ((kind == PIN) & is_pinned, "is a second pin of this client"),
        ((kind == UNPIN) & in_read, "stands inside of a read"),
        ((kind == UNPIN) & ~is_pinned, "has no pin"),
    ):
        if wrong.any():
            raise malformed(columns, int(by_client[wrong].min()), reason)
    read = np.flatnonzero(ends)
    begins_life = np.append(True, (client[1:] != client[:-1]) | (kind[:-1] == KILLED))[: len(kind)]
    return Readings(
        start=by_client[bracket[read]],
        end=by_client[read],
        pin=np.where(is_pinned[read], by_client[pins[read]], NOWHERE),
        life=np.cumsum(begins_life)[read],
        refused=kind[read] == READ_FAILED,
    )


def _last_before(marked: npt.NDArray[np.bool_], client: Integers) -> Integers:
    """Return for each event the last marked one before it of the same client, or NOWHERE."""
    last = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), NOWHERE))
    before = np.append(NOWHERE, last[:-1])[: len(marked)]
    is_own = (before != NOWHERE) & (client[before] == client)
    return np.where(is_own, before, NOWHERE)


def _is_kind(kind: Integers, places: Integers, wanted: int) -> npt.NDArray[np.bool_]:
    return np.asarray((places != NOWHERE) & (kind[places] == wanted))
