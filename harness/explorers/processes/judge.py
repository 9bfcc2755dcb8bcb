"""Judges a run's history: findings of the checker, points that were reached, and controls with falsified events."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tornproof.harness.checkers.snapshot_isolation import Judgement, judge
from tornproof.harness.common.history import Event, EventKind, to_arrow
from tornproof.harness.common.verdict import Finding
from tornproof.harness.explorers.processes.expected import digest_of_rows
from tornproof.harness.explorers.processes.run import Outcome
from tornproof.harness.explorers.processes.small_histories import wrongly_judged
from tornproof.harness.explorers.processes.stop import COMMIT_POSITIONS, PURGE, RECOVERY
from tornproof.harness.explorers.processes.writer import CLIENT

PHASE = "processes"
READ_DURING_COMMIT = "read while a commit was under way"
READ_AGAIN = "pinned snapshot read again after 2 commits"
KILLED_IN_COMMIT = "killed inside a commit"
KILLED_AT = tuple(f"killed at {position}" for position in COMMIT_POSITIONS)
COMMIT_UNDONE, COMMIT_DONE = "kill after which the commit was not there", "kill after which the commit was there"
KILLED_PUBLISHED = "killed between header and version"
KILLED_IN_RECOVERY, KILLED_IN_PURGE = "killed inside a recovery", "killed inside a purge"
RESTATED, REMOVED = "orphan restated", "directory of a killed commit removed"
PURGED = "directory purged while readers ran"
PINNED_READER_KILLED = "reader killed while it held a pin"
PIN_FREED = "pin of a killed reader gone"
COVERAGE_GOALS = (READ_DURING_COMMIT, READ_AGAIN)
"""What every run reaches; with kills also `KILLED_IN_COMMIT`, and those `KILLED_AT` where a writer was to be killed."""

NOTHING_TO_FALSIFY = "no read of a later version could be falsified"
_OLDER_DIGEST, _LOST_VERSION = "content_of_another_version", "acknowledged_version_lost"


SMALL_SCHEMA = pa.schema({"number": pa.int64(), "text": pa.string()})
SMALL_ROWS: dict[str, list[Any]] = {"number": [1, 2], "text": ["a", None]}
OTHER_ROWS: dict[str, dict[str, list[Any]]] = {
    "another number": {"number": [1, 3], "text": ["a", None]},
    "another text": {"number": [1, 2], "text": ["b", None]},
    "a null instead of a number": {"number": [1, None], "text": ["a", None]},
    "another order": {"number": [2, 1], "text": [None, "a"]},
    "a row less": {"number": [1], "text": ["a"]},
}


def findings_of(judgement: Judgement) -> Iterator[Finding]:
    """Yield the checker's examples as findings."""
    for anomaly in judgement.anomalies:
        evidence = {"events": [dict(event) for event in anomaly.events], "count": judgement.counts[anomaly.kind]}
        yield Finding(property=anomaly.kind, phase=PHASE, sentence=f"{anomaly.sentence}.", evidence=evidence)


def failed_controls(events: Sequence[Event], judgement: Judgement) -> list[str]:
    """Falsify the history in each way, and return the ways that the checker did not detect; so for small histories."""
    failures = [*wrongly_judged(), *_digests_that_are_alike()]
    for kind, falsified in (
        (_OLDER_DIGEST, _with_older_digest(events)),
        (_LOST_VERSION, _with_lost_version(events)),
    ):
        if falsified is None:
            continue
        counts = judge(to_arrow(falsified)).counts
        if counts.get(kind, 0) <= judgement.counts.get(kind, 0):
            failures.append(f"a falsified event was not detected as {kind}")
    if _with_older_digest(events) is None:
        failures.append(NOTHING_TO_FALSIFY)
    return failures


def _digests_that_are_alike() -> Iterator[str]:
    """Yield in words the small tables that have the digest of another one."""
    known = {digest_of_rows(pa.Table.from_pydict(SMALL_ROWS, schema=SMALL_SCHEMA)): "those that they are compared with"}
    for what, rows in OTHER_ROWS.items():
        digest = digest_of_rows(pa.Table.from_pydict(rows, schema=SMALL_SCHEMA))
        if digest in known:
            yield f"rows with {what} have the digest of {known[digest]}"
        known[digest] = f"rows with {what}"


def reached_points(events: Sequence[Event], outcome: Outcome) -> Counter[str]:
    """Count how often the run reached each point of interest."""
    reached: Counter[str] = Counter(
        {
            READ_DURING_COMMIT: sum(reads_during_commits(events)),
            READ_AGAIN: sum(_reads_after_commits(events, 2)),
            KILLED_PUBLISHED: sum(stopped.is_published for stopped in outcome.killed_at),
            PINNED_READER_KILLED: outcome.pinned_reader_kills,
            PIN_FREED: outcome.freed_pins,
        }
    )
    positions = Counter(stopped.position for stopped in outcome.killed_at)
    reached.update({point: positions[position] for point, position in zip(KILLED_AT, COMMIT_POSITIONS, strict=True)})
    reached[KILLED_IN_RECOVERY] = sum(count for position, count in positions.items() if position.startswith(RECOVERY))
    reached[KILLED_IN_PURGE] = sum(count for position, count in positions.items() if position.startswith(PURGE))
    reached.update(dict.fromkeys((KILLED_IN_COMMIT, COMMIT_UNDONE, COMMIT_DONE, RESTATED, REMOVED, PURGED), 0))
    reached.update(_writer_points(events))
    return reached


def _writer_points(events: Sequence[Event]) -> Counter[str]:
    points: Counter[str] = Counter()
    pending: int | None = None
    is_committing = False
    for event in events:
        if event.client != CLIENT:
            continue
        match event.kind:
            case EventKind.COMMIT_START:
                pending, is_committing = event.version, True
                points[PURGED] += json.loads(event.details)["purged"]
            case EventKind.COMMIT_ACKNOWLEDGED:
                pending, is_committing = None, False
            case EventKind.KILLED:
                # Killed recoveries after it leave the commit pending.
                points[KILLED_IN_COMMIT] += is_committing
                is_committing = False
            case EventKind.RECOVERED:
                details = json.loads(event.details)
                points[RESTATED] += details["restated"]
                points[REMOVED] += details["removed"]
                if pending is not None:
                    points[COMMIT_DONE if event.version == pending else COMMIT_UNDONE] += 1
                pending = None
    return points


def reads_during_commits(events: Sequence[Event], writer: str = CLIENT) -> Iterator[bool]:
    """Yield for each read whether it overlapped a commit, from its start to its acknowledgement or the kill."""
    ends = {EventKind.COMMIT_ACKNOWLEDGED, EventKind.KILLED, EventKind.COMMIT_FAILED}
    starts_ns: list[int] = []
    ends_ns: list[int] = []
    for event in events:
        if event.kind is EventKind.COMMIT_START:
            starts_ns.append(event.time_ns)
        elif event.client == writer and event.kind in ends and len(ends_ns) < len(starts_ns):
            ends_ns.append(event.time_ns)
    for start, end in _reads(events):
        begun = bisect_right(starts_ns, end.time_ns)
        done = bisect_left(ends_ns, start.time_ns)
        yield begun > done


def _reads_after_commits(events: Sequence[Event], count: int) -> Iterator[bool]:
    """Yield for each read of a snapshot that was pinned earlier whether `count` commits came in between."""
    acknowledged_ns = [event.time_ns for event in events if event.kind is EventKind.COMMIT_ACKNOWLEDGED]
    pins: dict[str, Event] = {}
    starts: dict[str, Event] = {}
    for event in events:
        if event.kind in (EventKind.PIN, EventKind.READ_START):
            (pins if event.kind is EventKind.PIN else starts)[event.client] = event
        elif event.kind in (EventKind.UNPIN, EventKind.KILLED):
            pins.pop(event.client, None)
        elif event.kind is EventKind.READ_END and event.client in pins:
            start, pin = starts[event.client], pins[event.client]
            if pin.time_ns < start.time_ns:
                later = bisect_left(acknowledged_ns, start.time_ns) - bisect_right(acknowledged_ns, pin.time_ns)
                yield later >= count


def _reads(events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    starts: dict[str, Event] = {}
    for event in events:
        if event.kind is EventKind.READ_START:
            starts[event.client] = event
        elif event.kind is EventKind.READ_END:
            yield starts[event.client], event


def _with_older_digest(events: Sequence[Event]) -> list[Event] | None:
    """Give the last read whose version has a predecessor the content of that predecessor."""
    digests: dict[int | None, str | None] = {}
    for event in events:
        if event.kind in (EventKind.RECOVERED, EventKind.COMMIT_START):
            digests[event.version] = event.digest
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.kind is EventKind.READ_END and event.version is not None:
            older = digests.get(event.version - 1)
            if older is not None and older != event.digest:
                return [*events[:index], replace(event, digest=older), *events[index + 1 :]]
    return None


def _with_lost_version(events: Sequence[Event]) -> list[Event] | None:
    """Make the last recovery find the version before all acknowledged ones."""
    first = next((event.version for event in events if event.kind is EventKind.RECOVERED), None)
    acknowledged = [index for index, event in enumerate(events) if event.kind is EventKind.COMMIT_ACKNOWLEDGED]
    recoveries = [index for index, event in enumerate(events) if event.kind is EventKind.RECOVERED]
    if not acknowledged or recoveries[-1] < acknowledged[0]:
        return None
    index = recoveries[-1]
    return [*events[:index], replace(events[index], version=first, digest=None), *events[index + 1 :]]
