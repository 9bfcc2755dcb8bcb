"""Whether what is read and recovered after crashes is a behaviour of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow

CONTROLS = (
    (Kind.STOPPED, (3, 3), 3, True),
    (Kind.POWER_CUT, (3, 2), 2, True),
    (Kind.STOPPED, (3, 2), 2, False),
    (Kind.STOPPED, (2, 2), 1, False),
    (Kind.POWER_CUT, (1,), 1, False),
    (Kind.POWER_CUT, (4,), 4, False),
    (Kind.POWER_CUT, (3,), 2, False),
)
"""Crashes after three commits, two of them acknowledged: what was read, what recovered, and whether that may be."""


def failed_controls() -> Iterator[str]:
    """Ask about small runs, and describe each that is taken for what it is not."""
    for crash, reads, recovered, is_possible in CONTROLS:
        impossible = impossible_after(crash, acknowledged=2, begun=3, reads=reads, recovered=recovered)
        if is_possible is bool(impossible):
            taken = "impossible" if impossible else "possible"
            yield f"the model took for {taken}: {crash.value}, reads of {reads}, and a recovery of {recovered}"


def impossible_after(crash: Kind, *, acknowledged: int, begun: int, reads: Sequence[int], recovered: int) -> str:
    """Say in words what the model does not allow in a run with crashes, "" if it allows all.

    So many commits were acknowledged and begun before the first crash, those between the two rejected; after each crash
    a read saw one of `reads`, and after the last one a writer recovered, after which a read saw what was `recovered`.
    """
    known = Known()
    try:
        for event in _events(crash, acknowledged, begun, reads, recovered):
            known = follow(known, event)
    except NoBehaviourError as error:
        return str(error)
    return ""


def _events(crash: Kind, acknowledged: int, begun: int, reads: Sequence[int], recovered: int) -> Iterator[Event]:
    for count in range(begun):
        yield Event(Kind.COMMIT)
        if count < acknowledged:
            yield Event(Kind.ACKNOWLEDGED)
        elif count < begun - 1:
            yield Event(Kind.REJECTED)
    for seen in reads:
        yield from (Event(crash), Event(Kind.BEGUN), Event(Kind.SEEN, seen))
    yield from (Event(Kind.RECOVERED, recovered), Event(Kind.BEGUN), Event(Kind.SEEN, recovered))
