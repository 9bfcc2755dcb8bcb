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
from tornproof.harness.checkers.recorded import Columns, Integers
from tornproof.harness.checkers.timeline import Timeline, positions_among


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the rules examine: what some readers did beside the timeline, or what the writer did.

    `unexplained` has the observations that no attempt explains, `written` the anomalies of the writer's version
    numbers, both by kind.
    """

    columns: Columns
    readings: Readings
    timeline: Timeline
    unexplained: Mapping[str, Sequence[Positions]]
    written: Mapping[str, Sequence[tuple[int, ...]]]
    excused: Collection[str]

    def event(self, position: int) -> dict[str, Any]:
        """Return an event as it was recorded."""
        return self.timeline.columns.event(~position) if position < 0 else self.columns.event(position)

    def order_key(self, position: int) -> tuple[int, int, int]:
        """Return what events of one table are ordered by: time, process, sequence."""
        return self.timeline.columns.order_key(~position) if position < 0 else self.columns.order_key(position)


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
    if not len(timeline.settled):
        return []
    fresh = ~readings.rejected & ~readings.of_older_snapshot
    start, end = readings.start[fresh], readings.end[fresh]
    newer = positions_among(timeline.settled_newest, columns.version[end], "right")
    newer_ns = timeline.settled_ns[np.minimum(newer, len(timeline.settled) - 1)]
    stale = (newer < len(timeline.settled)) & (newer_ns < columns.time_ns[start])
    earlier = np.searchsorted(timeline.settled_ns, columns.time_ns[start[stale]], side="left")
    due = timeline.settled_newest[earlier - 1]
    witness = timeline.settled[np.searchsorted(timeline.settled_newest, due)]
    return _tuples(start[stale], end[stale], ~witness)


def _versions_that_went_back(case: Case) -> list[Positions]:
    version = case.columns.version
    again = ~case.readings.rejected & (case.readings.earlier != NOWHERE)
    end, earlier = case.readings.end[again], case.readings.earlier[again]
    back = version[end] < version[earlier]
    return _tuples(earlier[back], end[back])


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
