"""Whether what is read and recovered after crashes is a behaviour of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow


def impossible_after(crash: Kind, *, acknowledged: int, begun: int, reads: Sequence[int], recovered: int) -> str:
    """Say in words what the model does not allow in a run with crashes, "" if it allows all.

    So many commits were acknowledged and begun before the first crash; after each crash a read saw one of `reads`, and
    after the last one a writer recovered, after which a read saw what was `recovered`.
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
    for seen in reads:
        yield from (Event(crash), Event(Kind.BEGUN), Event(Kind.SEEN, seen))
    yield from (Event(Kind.RECOVERED, recovered), Event(Kind.BEGUN), Event(Kind.SEEN, recovered))
