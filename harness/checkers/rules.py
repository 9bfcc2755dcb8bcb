"""The rules of snapshot isolation with one writer: how each kind of anomaly is found, and its sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.explanation import Positions
from tornproof.harness.checkers.readings import NOWHERE, Readings
from tornproof.harness.checkers.recorded import Columns, Integers, Truths
from tornproof.harness.checkers.timeline import Timeline, positions_among


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the rules examine: what some readers did beside the timeline, or what the writer did.

    `unexplained` has the observations that no attempt explains, `written` the anomalies of the writer's version
    numbers, both by kind. `seen` are the sightings of all readers by time.
    """

    columns: Columns
    readings: Readings
    timeline: Timeline
    seen: Columns
    unexplained: Mapping[str, Sequence[Positions]]
    written: Mapping[str, Sequence[tuple[int, ...]]]
    excused: Collection[str]

    def event(self, position: int) -> dict[str, Any]:
        """Return an event as it was recorded."""
        columns, position = self._located(position)
        return columns.event(position)

    def order_key(self, position: int) -> tuple[int, int, int]:
        """Return what events of one table are ordered by: time, process, sequence."""
        columns, position = self._located(position)
        return columns.order_key(position)

    def sighting(self, index: Integers) -> Integers:
        """Return the positions that stand for sightings: below those of the writer's events."""
        return ~(index + len(self.timeline.columns))

    def _located(self, position: int) -> tuple[Columns, int]:
        if position >= 0:
            return self.columns, position
        after = ~position - len(self.timeline.columns)
        return (self.timeline.columns, ~position) if after < 0 else (self.seen, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Finds the anomalies of one kind, as the positions of their events, which fill the sentence."""

    sentence: str
    find: Callable[[Case], Sequence[Positions]]


def _unexplained(kind: str) -> Callable[[Case], Sequence[Positions]]:
    return lambda case: case.unexplained.get(kind, [])


def _written(kind: str) -> Callable[[Case], Sequence[Positions]]:
    return lambda case: [tuple(~position for position in each) for each in case.written.get(kind, [])]


def _stale_reads(case: Case) -> list[Positions]:
    readings, columns, timeline = case.readings, case.columns, case.timeline
    fresh = np.flatnonzero(~readings.rejected & ~readings.of_older_snapshot)
    stale = fresh[_misses(case, fresh, timeline.settled_newest, timeline.settled_ns)]
    start, end = readings.start[stale], readings.end[stale]
    earlier = np.searchsorted(timeline.settled_ns, columns.time_ns[start], side="left")
    due = timeline.settled_newest[earlier - 1]
    witness = timeline.settled[np.searchsorted(timeline.settled_newest, due)]
    return _tuples(start, end, ~witness)


def _missed_seen_versions(case: Case) -> list[Positions]:
    """Return the reads below their least allowed version (`sightings`) that neither are stale nor went back."""
    readings, columns, timeline, seen = case.readings, case.columns, case.timeline, case.seen
    fresh = np.flatnonzero(~readings.rejected & ~readings.of_older_snapshot)
    missed = fresh[_misses(case, fresh, seen.version, seen.time_ns)]
    if not len(missed):
        return []
    missed = missed[~_misses(case, missed, timeline.settled_newest, timeline.settled_ns) & ~_went_back(case)[missed]]
    start, end = readings.start[missed], readings.end[missed]
    newest = np.searchsorted(seen.time_ns, columns.time_ns[start], side="left") - 1
    return _tuples(start, end, case.sighting(newest))


def _misses(case: Case, reads: Integers, newest: Integers, newest_ns: Integers) -> Truths:
    """Return which reads saw less than the newest version of those before they began; `newest` is up to each time."""
    if not len(newest):
        return np.zeros(len(reads), dtype=np.bool_)
    start, end = case.readings.start[reads], case.readings.end[reads]
    newer = positions_among(newest, case.columns.version[end], "right")
    newer_ns = newest_ns[np.minimum(newer, len(newest) - 1)]
    return np.asarray((newer < len(newest)) & (newer_ns < case.columns.time_ns[start]))


def _versions_that_went_back(case: Case) -> list[Positions]:
    back = _went_back(case)
    return _tuples(case.readings.earlier[back], case.readings.end[back])


def _went_back(case: Case) -> Truths:
    version, readings = case.columns.version, case.readings
    # Where there is no earlier read, NOWHERE takes any version.
    is_older = version[readings.end] < version[readings.earlier]
    return np.asarray(is_older & ~readings.rejected & (readings.earlier != NOWHERE))


def _moved_pins(case: Case) -> list[Positions]:
    pin, end, version = case.readings.pin, case.readings.end, case.columns.version
    moved = np.flatnonzero((pin != NOWHERE) & ~case.readings.rejected)
    moved = moved[version[end[moved]] != version[pin[moved]]]
    return _tuples(pin[moved], end[moved])


def _rejected_pinned_reads(case: Case) -> list[Positions]:
    rejected = case.readings.rejected & (case.readings.pin != NOWHERE)
    return _tuples(case.readings.pin[rejected], case.readings.end[rejected])


def _rejected_reads(case: Case) -> list[Positions]:
    rejected = np.flatnonzero(case.readings.rejected & (case.readings.pin == NOWHERE))
    if not len(rejected):
        return []
    reasons = case.columns.table.column("details").take(case.columns.row[case.readings.end[rejected]]).cast(pa.string())
    is_excused = pc.is_in(reasons, value_set=pa.array(sorted(case.excused), pa.string())).to_numpy()
    wrong = rejected[~is_excused]
    return _tuples(case.readings.start[wrong], case.readings.end[wrong])


def _tuples(*columns: Integers) -> list[Positions]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


RULES = {
    "unknown_version": Rule(
        sentence="{0[client]} saw version {0[version]}, which no commit was to make",
        find=_unexplained("unknown_version"),
    ),
    "torn_content": Rule(
        sentence="{0[client]} saw under version {0[version]} the content {0[digest]}, which no commit was to make",
        find=_unexplained("torn_content"),
    ),
    "content_of_another_version": Rule(
        sentence="{0[client]} saw under version {0[version]} the content of version {1[version]}",
        find=_unexplained("content_of_another_version"),
    ),
    "future_read": Rule(
        sentence="{0[client]} saw version {0[version]} before its commit started",
        find=_unexplained("future_read"),
    ),
    "seen_version_lost": Rule(
        sentence="{0[client]} saw version {0[version]}, which the recovery to version {1[version]} lost",
        find=_unexplained("seen_version_lost"),
    ),
    "two_contents": Rule(
        sentence="{0[client]} saw version {0[version]} with a content that a later commit of the same version replaced",
        find=_unexplained("two_contents"),
    ),
    "stale_read": Rule(
        sentence="{1[client]} read version {1[version]} although version {2[version]} was there before it began",
        find=_stale_reads,
    ),
    "seen_version_missed": Rule(
        sentence="{1[client]} read version {1[version]} although {2[client]} had read version {2[version]} "
        "before it began",
        find=_missed_seen_versions,
    ),
    "went_back": Rule(
        sentence="{1[client]} read version {1[version]} after it had read version {0[version]}",
        find=_versions_that_went_back,
    ),
    "pin_moved": Rule(
        sentence="{1[client]} read version {1[version]} while it held a pin of version {0[version]}",
        find=_moved_pins,
    ),
    "pinned_read_refused": Rule(
        sentence="{1[client]} could not read although it held a pin of version {0[version]}: {1[details]}",
        find=_rejected_pinned_reads,
    ),
    "refused_read": Rule(
        sentence="{1[client]} could not read: {1[details]}",
        find=_rejected_reads,
    ),
    "acknowledged_version_lost": Rule(
        sentence="{0[client]} recovered version {0[version]}, older than one that was acknowledged or recovered before",
        find=_written("acknowledged_version_lost"),
    ),
    "recovered_too_new": Rule(
        sentence="{0[client]} recovered version {0[version]}, newer than any commit that was under way",
        find=_written("recovered_too_new"),
    ),
    "version_not_next": Rule(
        sentence="{0[client]} started version {0[version]}, not the one after the last acknowledged or recovered one",
        find=_written("version_not_next"),
    ),
    "acknowledged_as_another": Rule(
        sentence="{1[client]} was told version {1[version]} by the commit of version {0[version]}",
        find=_written("acknowledged_as_another"),
    ),
}
"""All rules by the kind of anomaly that they find."""
