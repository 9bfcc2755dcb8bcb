"""What the model's specification of reports allows, and what it does not."""

import pytest

from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow

COMMIT, ACKNOWLEDGED, STOPPED, POWER_CUT = map(Event, (Kind.COMMIT, Kind.ACKNOWLEDGED, Kind.STOPPED, Kind.POWER_CUT))
REJECTED = Event(Kind.REJECTED)
ONE_COMMIT = (COMMIT, ACKNOWLEDGED)


def begun(reader: str = "a") -> Event:
    return Event(Kind.BEGUN, reader=reader)


def seen(version: int, reader: str = "a") -> Event:
    return Event(Kind.SEEN, version, reader)


def recovered(version: int) -> Event:
    return Event(Kind.RECOVERED, version)


def read(version: int, reader: str = "a") -> tuple[Event, Event]:
    return begun(reader), seen(version, reader)


def after(*events: Event) -> Known:
    known = Known()
    for event in events:
        known = follow(known, event)
    return known


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((*ONE_COMMIT, *read(1), *ONE_COMMIT, *read(2)), id="each commit is seen once acknowledged"),
        pytest.param((COMMIT, *read(0), *read(1), ACKNOWLEDGED), id="a commit is seen before it is acknowledged"),
        pytest.param((COMMIT, REJECTED, *read(0), COMMIT, ACKNOWLEDGED, *read(2)), id="a commit after a rejected one"),
        pytest.param((COMMIT, REJECTED, COMMIT, REJECTED, *read(1), *read(2)), id="rejected commits may be there"),
        pytest.param((begun(), *ONE_COMMIT, seen(0)), id="a read that began before sees the version before"),
        pytest.param((COMMIT, STOPPED, recovered(0), *ONE_COMMIT, *read(1)), id="a commit stopped before its version"),
        pytest.param((COMMIT, STOPPED, recovered(1), *ONE_COMMIT, *read(2)), id="a commit stopped after its version"),
        pytest.param((COMMIT, *read(1), POWER_CUT, *read(0), recovered(0)), id="what was seen alone is lost"),
        pytest.param((*ONE_COMMIT, COMMIT, POWER_CUT, recovered(2), POWER_CUT, *read(2)), id="recovered is durable"),
        pytest.param((COMMIT, begun("b"), *read(1), seen(0, "b")), id="two reads beside each other differ"),
        pytest.param((COMMIT, STOPPED, STOPPED, POWER_CUT, recovered(1)), id="a recovery is stopped twice"),
    ],
)
def test_accepts_a_behaviour(events: tuple[Event, ...]) -> None:
    after(*events)


def test_a_reader_that_is_followed_alone_does_not_see_less_than_before() -> None:
    known = Known(low=1, high=3, reads=(("a", 2),))
    assert follow(known, begun()).reads == (("a", 2),)
    assert follow(known, begun("b")).reads == (("a", 2), ("b", 1))


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        pytest.param((*ONE_COMMIT, *read(0)), "expected commit 1", id="a stale read"),
        pytest.param((*read(0), *ONE_COMMIT, *read(0)), "expected commit 1", id="a second read is stale"),
        pytest.param((*read(0), COMMIT, *read(1, "b"), *read(0)), "expected commit 1", id="a second read sees less"),
        pytest.param((*ONE_COMMIT, *read(2)), "expected commit 1", id="a version that nobody committed"),
        pytest.param((COMMIT, *read(1), *read(0)), "expected commit 1", id="a reader goes back"),
        pytest.param((COMMIT, *read(1, "a"), *read(0, "b")), "expected commit 1", id="a later reader sees less"),
        pytest.param((*ONE_COMMIT, POWER_CUT, *read(0)), "expected commit 1", id="an acknowledged commit is lost"),
        pytest.param((*ONE_COMMIT, STOPPED, recovered(0)), "expected commit 1", id="a recovery loses a commit"),
        pytest.param((COMMIT, STOPPED, *read(1), recovered(0)), "expected commit 1", id="a kill loses what was seen"),
        pytest.param((COMMIT, STOPPED, recovered(1), POWER_CUT, *read(0)), "expected commit 1", id="recovered is lost"),
        pytest.param((STOPPED, COMMIT), "impossible here", id="a stopped writer commits"),
        pytest.param((COMMIT, COMMIT), "impossible here", id="a commit within a commit"),
        pytest.param((ACKNOWLEDGED,), "impossible here", id="a commit that never began is acknowledged"),
        pytest.param((recovered(0),), "impossible here", id="two writers"),
        pytest.param((seen(0),), "impossible here", id="a read ends that never began"),
    ],
)
def test_rejects_what_is_none_and_accepts_all_before_it(events: tuple[Event, ...], reason: str) -> None:
    known = after(*events[:-1])
    with pytest.raises(NoBehaviourError, match=reason):
        follow(known, events[-1])
