"""What processes may report of a table, one event after the other: snapshot isolation, real time and durability.

A version is a number here, that of the commits before it and itself, rejected ones too. `follow(known, event)` is the
whole specification: what is known of the stored version, and which reports it allows. `protocol.py` is one machine that
obeys it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.Enum):
    """What happened; a read has begun once it first accesses a file, or right before its end if it accesses none."""

    COMMIT = "a commit begins"
    ACKNOWLEDGED = "a commit is acknowledged"
    REJECTED = "a commit is rejected, and the writer may go on"
    STOPPED = "the writer is killed, or gives up"
    POWER_CUT = "the power is cut"
    RECOVERED = "a writer has recovered"
    BEGUN = "a read begins"
    SEEN = "a read ends"


class Event(NamedTuple):
    """An event, with the reader or the version where it has one."""

    kind: Kind
    version: int = 0
    reader: str = ""


class Known(NamedTuple):
    """The stored version is one of `low` to `high`, and at least `durable` after a power cut.

    `reads` has, for each reader, the least version that its read may see; it stays when the read has ended.
    """

    low: int = 0
    high: int = 0
    durable: int = 0
    is_open: bool = True
    is_committing: bool = False
    reads: tuple[tuple[str, int], ...] = ()


class NoBehaviourError(Exception):
    """The model allows no such event here; says what it allows instead."""


def follow(known: Known, event: Event) -> Known:
    """Return what is known after an event; raises NoBehaviourError."""
    reads = dict(known.reads)
    match event.kind:
        case Kind.COMMIT if known.is_open and not known.is_committing:
            return known._replace(high=known.high + 1, is_committing=True)
        case Kind.ACKNOWLEDGED if known.is_committing:
            return known._replace(low=known.high, durable=known.high, is_committing=False)
        case Kind.REJECTED:
            return known._replace(is_committing=False)
        case Kind.STOPPED:
            return known._replace(is_open=False, is_committing=False)
        case Kind.POWER_CUT:
            return known._replace(low=known.durable, is_open=False, is_committing=False, reads=())
        case Kind.RECOVERED if not known.is_open:
            found = _one_of(event, known.low, known.high)
            return known._replace(low=found, high=found, durable=found, is_open=True)
        case Kind.BEGUN:
            # Where each reader is followed alone, what it has seen is not in the `low` that others know.
            reads[event.reader] = max(known.low, reads.get(event.reader, 0))
            return known._replace(reads=tuple(sorted(reads.items())))
        case Kind.SEEN if event.reader in reads:
            seen = reads[event.reader] = _one_of(event, reads[event.reader], known.high)
            # What one has seen is stored, so that every read that begins later sees it too.
            return known._replace(low=max(known.low, seen), reads=tuple(sorted(reads.items())))
    raise NoBehaviourError(f"{event.kind.value}, which is impossible here")


def _one_of(event: Event, low: int, high: int) -> int:
    if not low <= event.version <= high:
        allowed = f"{low}" if low == high else f"{low} to {high}"
        raise NoBehaviourError(f"{event.kind.value} with commit {event.version}: expected commit {allowed}")
    return event.version
