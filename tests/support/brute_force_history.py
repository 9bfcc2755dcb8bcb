"""A slow judge of histories for tests: each rule is written as one sentence, and tried on all events.

Nothing is indexed, batched or remembered, and no code is shared with the judge that it is compared with.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tornproof.harness.common.history import Event, EventKind

K = EventKind
READ_ENDS = (K.READ_END, K.READ_FAILED)
WITH_VERSION = (K.COMMIT_START, K.COMMIT_ACKNOWLEDGED, K.READ_END, K.PIN, K.RECOVERED)
WITH_DIGEST = (K.COMMIT_START, K.READ_END)


class ContradictionError(Exception):
    """The history cannot have happened."""


@dataclass(frozen=True)
class Found:
    verdict: str
    counts: dict[str, int]


def brute_force(events: Sequence[Event], *, excused: Collection[str] = (), seen_survives: bool = True) -> Found:
    events = in_order(events)
    try:
        check_processes(events)
        check_clients(events)
        check_writer(events)
    except ContradictionError:
        return Found("UNKNOWN", {})
    anomalies = [*of_writer(events), *of_observations(events, seen_survives), *of_reads(events, excused)]
    is_vacuous = not anomalies and not any(
        event.kind is K.READ_END or is_restart(events, position) for position, event in enumerate(events)
    )
    return Found("INVALID" if anomalies else "UNKNOWN" if is_vacuous else "VALID", dict(Counter(anomalies)))


def in_order(events: Sequence[Event]) -> list[Event]:
    """The events by time, and within one time in the order in which they can have happened."""
    return sorted(events, key=lambda event: (event.time_ns, turn_of(event, events), event.process, event.sequence))


def turn_of(event: Event, events: Sequence[Event]) -> int:
    """What ends a commit comes first, as what readers do, then starts, deaths, recoveries, and readers that live again.

    What a process recorded later has no lower turn.
    """
    is_reading = event.kind in (K.READ_START, *READ_ENDS, K.PIN, K.UNPIN)
    turns = [2 if event.kind is K.KILLED else 0]
    for other in events:
        if (other.process, other.time_ns) == (event.process, event.time_ns) and other.sequence <= event.sequence:
            if is_reading and other.kind is K.KILLED and other.client == event.client:
                turns.append(4)
            if not is_reading and other.kind in (K.COMMIT_START, K.RECOVERED):
                turns.append(1 if other.kind is K.COMMIT_START else 3)
    return max(turns)


def require(truth: bool) -> None:
    if not truth:
        raise ContradictionError


def check_processes(events: Sequence[Event]) -> None:
    for process in {event.process for event in events}:
        own = sorted((event for event in events if event.process == process), key=lambda event: event.sequence)
        require([event.sequence for event in own] == list(range(len(own))))
        require(all(one.time_ns <= other.time_ns for one, other in itertools.pairwise(own)))
    for event in events:
        require(event.version is not None or event.kind not in WITH_VERSION)
        require(event.digest is not None or event.kind not in WITH_DIGEST)


def check_clients(events: Sequence[Event]) -> None:
    for position, event in enumerate(events):
        start, pin = open_read(events, position), held_pin(events, position)
        match event.kind:
            case K.READ_START:
                require(start is None)
            case K.READ_END | K.READ_FAILED:
                require(start is not None)
            case K.PIN:
                require(start is not None and pin is None)
            case K.UNPIN:
                require(start is None and pin is not None)


def check_writer(events: Sequence[Event]) -> None:
    for position, event in enumerate(events):
        commit = open_commit(events, position)
        match event.kind:
            case K.COMMIT_START:
                require(commit is None and not writer_is_dead(events, position))
            case K.COMMIT_ACKNOWLEDGED | K.COMMIT_FAILED:
                require(commit is not None and events[commit].client == event.client)
            case K.RECOVERED:
                require(commit is None and (event.digest is not None or is_restart(events, position)))


def last_of(events: Sequence[Event], position: int, client: str, kinds: Collection[EventKind]) -> int | None:
    for other in reversed(range(position)):
        if events[other].client == client and events[other].kind in kinds:
            return other
    return None


def open_read(events: Sequence[Event], position: int) -> int | None:
    last = last_of(events, position, events[position].client, (K.READ_START, *READ_ENDS, K.KILLED))
    return last if last is not None and events[last].kind is K.READ_START else None


def held_pin(events: Sequence[Event], position: int) -> int | None:
    last = last_of(events, position, events[position].client, (K.PIN, K.UNPIN, K.KILLED))
    return last if last is not None and events[last].kind is K.PIN else None


def writer_before(events: Sequence[Event], position: int) -> str | None:
    """Who last started a commit or recovered."""
    writers = [event.client for event in events[:position] if event.kind in (K.COMMIT_START, K.RECOVERED)]
    return writers[-1] if writers else None


def open_commit(events: Sequence[Event], position: int) -> int | None:
    """The commit under way: it was not acknowledged, did not fail, and its writer lives."""
    for other in reversed(range(position)):
        match events[other].kind:
            case K.COMMIT_START:
                return other
            case K.COMMIT_ACKNOWLEDGED | K.COMMIT_FAILED | K.RECOVERED:
                return None
            case K.KILLED if events[other].client == writer_before(events, other):
                return None
    return None


def writer_is_dead(events: Sequence[Event], position: int) -> bool:
    for other in reversed(range(position)):
        if events[other].kind is K.RECOVERED:
            return False
        if events[other].kind is K.KILLED and events[other].client == writer_before(events, other):
            return True
    return False


def first_of_writer(events: Sequence[Event]) -> int | None:
    return next((position for position, each in enumerate(events) if each.kind in (K.COMMIT_START, K.RECOVERED)), None)


def is_restart(events: Sequence[Event], position: int) -> bool:
    """Whether a writer recovered here, other than to begin the history."""
    return events[position].kind is K.RECOVERED and position != first_of_writer(events)


def version_of(event: Event) -> int:
    assert event.version is not None
    return event.version


def settled(events: Sequence[Event], position: int) -> Iterator[int]:
    """The versions that were acknowledged or recovered before an event, and the one before the first commit."""
    first = first_of_writer(events)
    for other in range(position):
        event = events[other]
        if other == first and event.kind is K.COMMIT_START:
            yield version_of(event) - 1
        if event.kind is K.RECOVERED:
            yield version_of(event)
        if event.kind is K.COMMIT_ACKNOWLEDGED:
            commit = open_commit(events, other)
            assert commit is not None
            yield version_of(events[commit])


def of_writer(events: Sequence[Event]) -> Iterator[str]:
    for position, event in enumerate(events):
        before = list(settled(events, position))
        match event.kind:
            case K.COMMIT_START if before and event.version != before[-1] + 1:
                yield "version_not_next"
            case K.COMMIT_ACKNOWLEDGED:
                commit = open_commit(events, position)
                assert commit is not None
                if events[commit].version != event.version:
                    yield "acknowledged_as_another"
            case K.RECOVERED if is_restart(events, position):
                if version_of(event) < before[-1]:
                    yield "acknowledged_version_lost"
                if version_of(event) > max([before[-1], *tried_since_settling(events, position)]):
                    yield "recovered_too_new"


def tried_since_settling(events: Sequence[Event], position: int) -> Iterator[int]:
    for event in reversed(events[:position]):
        if event.kind in (K.COMMIT_ACKNOWLEDGED, K.RECOVERED):
            return
        if event.kind is K.COMMIT_START:
            yield version_of(event)


def attempts(events: Sequence[Event]) -> list[int]:
    return [
        position
        for position, event in enumerate(events)
        if event.kind is K.COMMIT_START or position == first_of_writer(events)
    ]


def end_of_attempt(events: Sequence[Event], attempt: int) -> int | None:
    """The event that discards the attempt: a recovery to an older version, or another attempt at its version."""
    version = version_of(events[attempt])
    for position in range(attempt + 1, len(events)):
        if is_restart(events, position) and version_of(events[position]) < version:
            return position
        if events[position].kind is K.COMMIT_START and events[position].version == version:
            return position
    return None


def of_observations(events: Sequence[Event], seen_survives: bool) -> Iterator[str]:
    for position, event in enumerate(events):
        if event.kind is K.READ_END:
            start = open_read(events, position)
            assert start is not None
            since_ns = events[start].time_ns
        elif is_restart(events, position) and event.digest is not None:
            since_ns = event.time_ns
        else:
            continue
        complaint = complaint_about(events, event, since_ns, seen_survives)
        if complaint:
            yield complaint


def complaint_about(events: Sequence[Event], seen: Event, since_ns: int, seen_survives: bool) -> str | None:
    at_version = [attempt for attempt in attempts(events) if events[attempt].version == seen.version]
    same = [attempt for attempt in at_version if events[attempt].digest == seen.digest]
    if not at_version:
        return "unknown_version"
    if not same:
        is_known = any(events[attempt].digest == seen.digest for attempt in attempts(events))
        return "content_of_another_version" if is_known else "torn_content"
    begun = [
        attempt for attempt in same if events[attempt].kind is K.RECOVERED or events[attempt].time_ns <= seen.time_ns
    ]
    ends = [end_of_attempt(events, attempt) for attempt in begun]
    if None in ends:
        return None
    if not begun:
        return "future_read"
    losses = [events[end].time_ns for end in ends if end is not None and events[end].kind is K.RECOVERED]
    if not losses:
        return "two_contents"
    return "seen_version_lost" if seen_survives or since_ns > max(losses) else None


def of_reads(events: Sequence[Event], excused: Collection[str]) -> Iterator[str]:
    for end, event in enumerate(events):
        if event.kind not in READ_ENDS:
            continue
        start, pin = open_read(events, end), held_pin(events, end)
        assert start is not None
        if event.kind is K.READ_FAILED:
            if pin is not None:
                yield "pinned_read_refused"
            elif event.details not in excused:
                yield "refused_read"
            continue
        if pin is not None and events[pin].version != event.version:
            yield "pin_moved"
        earlier = last_of(events, end, event.client, (K.READ_END, K.KILLED))
        has_earlier = earlier is not None and events[earlier].kind is K.READ_END
        went_back = has_earlier and version_of(event) < version_of(events[earlier or 0])
        if went_back:
            yield "went_back"
        if pin is not None and pin < start:
            continue
        if any(version_of(event) < due for due in due_at(events, start)):
            yield "stale_read"
        elif not went_back and any(version_of(event) < shown for shown in shown_to_others(events, start)):
            yield "seen_version_missed"


def due_at(events: Sequence[Event], start: int) -> Iterator[int]:
    """The versions that were acknowledged or recovered before the time of an event."""
    for position, event in enumerate(events):
        if event.kind in (K.COMMIT_ACKNOWLEDGED, K.RECOVERED) and event.time_ns < events[start].time_ns:
            commit = open_commit(events, position)
            yield version_of(event if commit is None else events[commit])


def shown_to_others(events: Sequence[Event], start: int) -> Iterator[int]:
    """The versions that reads saw which ended before the time of an event, if these versions then stayed."""
    for event in events:
        if event.kind is K.READ_END and event.time_ns < events[start].time_ns:
            for attempt in attempts(events):
                commit = events[attempt]
                has_begun = commit.kind is K.RECOVERED or commit.time_ns <= event.time_ns
                has_stayed = end_of_attempt(events, attempt) is None
                if has_begun and has_stayed and (commit.version, commit.digest) == (event.version, event.digest):
                    yield version_of(event)
