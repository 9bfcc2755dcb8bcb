"""What the writer did: every attempt at a version, its outcome, and contradictions between version numbers."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tornproof.harness.checkers.ordering import highest_so_far
from tornproof.harness.checkers.recorded import (
    COMMIT_ACKNOWLEDGED,
    COMMIT_FAILED,
    COMMIT_START,
    KILLED,
    KINDS,
    NO_DIGEST,
    RECOVERED,
    Columns,
    Integers,
    malformed,
    read_columns,
    with_equal_digests,
)

ALWAYS = np.iinfo(np.int64).min
OF_WRITERS = (COMMIT_START, COMMIT_ACKNOWLEDGED, COMMIT_FAILED, KILLED, RECOVERED)
"""The kinds of events from which a `Writing` is made; deaths of readers are ignored."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A commit_start, or the version at the beginning of the history, which started before all times.

    `discarded` is the position of the event that shows that the attempt was never committed, or was lost: a recovery to
    an older version, or a later attempt at the same version.
    """

    version: int
    digest: int
    start: int
    start_ns: int
    discarded: int | None = None


@dataclass(slots=True, kw_only=True)
class Writing:
    """All attempts in order, the live one at each version, which was not discarded, and anomalies of version numbers.

    Positions are indexes into `columns`, the writer's events, which hold each content once. `settled` has the positions
    of acknowledgements and recoveries with their versions, which readers must see from then on. An anomaly is the
    positions of its events. The recovery that begins a history is not counted.
    """

    columns: Columns
    attempts: list[Attempt] = field(default_factory=list)
    live: dict[int, Attempt] = field(default_factory=dict)
    settled: list[tuple[int, int]] = field(default_factory=list)
    recovery_count: int = 0
    anomalies: defaultdict[str, list[tuple[int, ...]]] = field(default_factory=lambda: defaultdict(list))


def read_writing(events: pa.Table) -> Writing:
    """Return what the one writer did in all its sessions, from the events of the kinds `OF_WRITERS`.

    Raises MalformedHistoryError if an event has no partner.
    """
    columns = with_equal_digests(read_columns(events))
    follower = _Follower(Writing(columns=columns))
    steps = {
        COMMIT_START: follower.starts,
        COMMIT_ACKNOWLEDGED: follower.acknowledges,
        COMMIT_FAILED: follower.fails,
        KILLED: follower.dies,
        RECOVERED: follower.recovers,
    }
    order = _order_of(columns)
    for position, kind in zip(order.tolist(), columns.kind[order].tolist(), strict=True):
        steps[kind](position)
    return follower.writing


def _order_of(columns: Columns) -> Integers:
    """Return the order of the writer's events, which names of processes decide only where nothing else does.

    Within one time, what ends a commit comes first, then starts, deaths, and recoveries, each with what its process
    recorded after it.
    """
    order = np.lexsort((columns.sequence, columns.process, columns.time_ns))
    kind, time_ns = columns.kind[order], columns.time_ns[order]
    begun = highest_so_far(_of_kinds(kind, {COMMIT_START: 1, RECOVERED: 3}), time_ns, columns.process[order])
    return order[np.lexsort((np.maximum(begun, _of_kinds(kind, {KILLED: 2})), time_ns))]


def _of_kinds(kind: Integers, numbers: dict[int, int]) -> Integers:
    """Return the number of each kind, 0 for others."""
    table = np.zeros(len(KINDS), np.intp)
    table[list(numbers)] = list(numbers.values())
    return np.asarray(table[kind])


class _Follower:
    """One pass over the writer's events; a recovery may find the versions from `_floor` to `_ceiling`."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._columns = writing.columns
        self._client = writing.columns.client.tolist()
        self._version = writing.columns.version.tolist()
        self._digest = writing.columns.digest.tolist()
        self._time_ns = writing.columns.time_ns.tolist()
        self._writer: int | None = None
        self._open: Attempt | None = None
        self._is_dead = False
        self._is_begun = False
        self._floor = self._ceiling = 0
        self._live_versions: list[int] = []

    def starts(self, position: int) -> None:
        version = self._version[position]
        if self._open is not None:
            raise malformed(self._columns, position, "stands inside of another commit")
        if self._is_dead:
            raise malformed(self._columns, position, "follows the death of the writer without a recovery")
        if not self._is_begun:
            self._settle(version - 1)
        if version != self._floor + 1:
            self.writing.anomalies["version_not_next"].append((position,))
        self._writer = self._client[position]
        self._ceiling = max(self._ceiling, version)
        self._open = self._attempt(position, start_ns=self._time_ns[position])

    def acknowledges(self, position: int) -> None:
        attempt = self._close(position)
        if self._version[position] != attempt.version:
            self.writing.anomalies["acknowledged_as_another"].append((attempt.start, position))
        self._settle(attempt.version)
        self.writing.settled.append((position, attempt.version))

    def fails(self, position: int) -> None:
        self._close(position)

    def dies(self, position: int) -> None:
        if self._client[position] == self._writer:
            self._open = None
            self._is_dead = True

    def recovers(self, position: int) -> None:
        version = self._version[position]
        if self._open is not None:
            raise malformed(self._columns, position, "stands inside of a commit")
        if self._is_begun:
            self.writing.recovery_count += 1
            if version < self._floor:
                witness = tuple(settled for settled, _ in self.writing.settled[-1:])
                self.writing.anomalies["acknowledged_version_lost"].append((position, *witness))
            if version > self._ceiling:
                self.writing.anomalies["recovered_too_new"].append((position,))
        elif self._digest[position] == NO_DIGEST:
            raise malformed(self._columns, position, "is the first of all, so it needs the digest of what was there")
        else:
            self._attempt(position, start_ns=ALWAYS)
        while self._live_versions and self._live_versions[-1] > version:
            self.writing.live.pop(self._live_versions.pop()).discarded = position
        self._settle(version)
        self.writing.settled.append((position, version))
        self._writer = self._client[position]
        self._is_dead = False

    def _attempt(self, position: int, *, start_ns: int) -> Attempt:
        """Add an attempt, which discards the live one at the same version."""
        version = self._version[position]
        attempt = Attempt(version=version, digest=self._digest[position], start=position, start_ns=start_ns)
        earlier = self.writing.live.get(version)
        if earlier is None:
            insort(self._live_versions, version)
        else:
            earlier.discarded = position
        self.writing.live[version] = attempt
        self.writing.attempts.append(attempt)
        return attempt

    def _close(self, position: int) -> Attempt:
        attempt, self._open = self._open, None
        if attempt is None or self._client[position] != self._client[attempt.start]:
            raise malformed(self._columns, position, "has no start")
        return attempt

    def _settle(self, version: int) -> None:
        self._is_begun = True
        self._floor = self._ceiling = version
