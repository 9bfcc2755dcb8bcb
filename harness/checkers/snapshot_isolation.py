"""Judges a history for snapshot isolation with one writer (design, section 2; protocol, section 6, I1 to I5).

A history is a table of events with the columns that `recorded` reads. It begins with the recovered event of a writer
that opens the table, or with the commit that makes its first version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.checkers.attempts import Writing, read_writing
from harness.checkers.explanation import Positions, unexplained
from harness.checkers.readings import NOWHERE, Readings, read_readings
from harness.checkers.recorded import KINDS, Columns, MalformedHistoryError, read_columns
from harness.verdict import Verdict

EXAMPLES_MAX = 10
"""How many anomalies of one kind are reported; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A violated rule, in plain words, with the events that show it as they were recorded."""

    kind: str
    sentence: str
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a history.

    `anomalies` are examples, `counts` says how many there are of each kind. `denominators` say how much was looked at;
    `reason` says why a verdict is UNKNOWN.
    """

    verdict: Verdict
    anomalies: tuple[Anomaly, ...] = ()
    counts: dict[str, int]
    denominators: dict[str, int]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the rules look at; `unexplained` are observations by what is wrong with them."""

    columns: Columns
    readings: Readings
    writing: Writing
    unexplained: dict[str, list[Positions]]
    excused: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Finds the violations of one kind, each as positions of events; the events fill the sentence."""

    sentence: str
    find: Callable[[Case], list[Positions]]


def judge(history: pa.Table, *, excused: Collection[str] = (), seen_survives: bool = True) -> Judgement:
    """Return the verdict on a history of events.

    A refused read whose `details` are in `excused` is legal unless its snapshot was pinned. Without `seen_survives` a
    version that was seen but not acknowledged may be lost, as in a power cut. A history that contradicts itself, or in
    which nothing was observed, is UNKNOWN.
    """
    try:
        columns = read_columns(history)
        readings, writing = read_readings(columns), read_writing(columns)
    except MalformedHistoryError as error:
        return Judgement(verdict=Verdict.UNKNOWN, counts={}, denominators={"events": len(history)}, reason=str(error))
    case = Case(
        columns=columns,
        readings=readings,
        writing=writing,
        unexplained=unexplained(columns, readings, writing, seen_survives=seen_survives),
        excused=excused,
    )
    found = {kind: positions for kind, rule in RULES.items() if (positions := rule.find(case))}
    is_vacuous = not found and writing.recovery_count == 0 and bool(readings.refused.all())
    return Judgement(
        verdict=Verdict.INVALID if found else Verdict.UNKNOWN if is_vacuous else Verdict.VALID,
        anomalies=tuple(_anomaly(columns, kind, each) for kind in found for each in sorted(found[kind])[:EXAMPLES_MAX]),
        counts={kind: len(positions) for kind, positions in found.items()},
        denominators=_denominators(columns, readings, writing),
        reason="nothing was read and nothing recovered, so nothing was judged" if is_vacuous else "",
    )


def _anomaly(columns: Columns, kind: str, positions: Positions) -> Anomaly:
    events = tuple(columns.event(position) for position in dict.fromkeys(positions))
    return Anomaly(kind=kind, sentence=RULES[kind].sentence.format(*events), events=events)


def _denominators(columns: Columns, readings: Readings, writing: Writing) -> dict[str, int]:
    """Return the number of events of each kind, and of what they add up to."""
    kinds = np.bincount(columns.kind, minlength=len(KINDS)).tolist()
    return {
        "events": len(columns),
        "reads": int((~readings.refused).sum()),
        "refused_reads": int(readings.refused.sum()),
        "reads_of_older_snapshots": int(readings.of_older_snapshot.sum()),
        "readers": len(np.unique(columns.client[readings.end])),
        "commits": kinds[KINDS.index("commit_start")],
        "acknowledged_commits": kinds[KINDS.index("commit_acknowledged")],
        "failed_commits": kinds[KINDS.index("commit_failed")],
        "pins": kinds[KINDS.index("pin")],
        "kills": kinds[KINDS.index("killed")],
        "recoveries": writing.recovery_count,
    }


def _unexplained(kind: str) -> Callable[[Case], list[Positions]]:
    return lambda case: case.unexplained.get(kind, [])


def _written(kind: str) -> Callable[[Case], list[Positions]]:
    return lambda case: case.writing.anomalies.get(kind, [])


def _stale_reads(case: Case) -> list[Positions]:
    readings, columns = case.readings, case.columns
    settled = np.array([position for position, _ in case.writing.settled], dtype=np.int64)
    if not len(settled):
        return []
    newest = np.maximum.accumulate([version for _, version in case.writing.settled])
    fresh = ~readings.refused & ~readings.of_older_snapshot
    start, end = readings.start[fresh], readings.end[fresh]
    earlier = np.searchsorted(columns.time_ns[settled], columns.time_ns[start], side="left")
    due = newest[np.maximum(earlier - 1, 0)]
    stale = (earlier > 0) & (columns.version[end] < due)
    witness = settled[np.searchsorted(newest, due[stale])]
    return _tuples(start[stale], end[stale], witness)


def _versions_that_went_back(case: Case) -> list[Positions]:
    read = ~case.readings.refused
    end, life = case.readings.end[read], case.readings.life[read]
    version = case.columns.version[end]
    back = np.flatnonzero((life[1:] == life[:-1]) & (version[1:] < version[:-1]))
    return _tuples(end[back], end[back + 1])


def _moved_pins(case: Case) -> list[Positions]:
    pin, end, version = case.readings.pin, case.readings.end, case.columns.version
    moved = (pin != NOWHERE) & ~case.readings.refused & (version[end] != version[pin])
    return _tuples(pin[moved], end[moved])


def _refused_pinned_reads(case: Case) -> list[Positions]:
    refused = case.readings.refused & (case.readings.pin != NOWHERE)
    return _tuples(case.readings.pin[refused], case.readings.end[refused])


def _refused_reads(case: Case) -> list[Positions]:
    refused = np.flatnonzero(case.readings.refused & (case.readings.pin == NOWHERE))
    reasons = case.columns.table.column("details").take(case.columns.row[case.readings.end[refused]])
    is_excused = pc.is_in(reasons, value_set=pa.array(sorted(case.excused), pa.string())).to_numpy()
    wrong = refused[~is_excused]
    return _tuples(case.readings.start[wrong], case.readings.end[wrong])


def _tuples(*columns: np.ndarray[Any, np.dtype[np.int64]]) -> list[Positions]:
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
        sentence="{1[client]} was refused to read although it held a pin of version {0[version]}: {1[details]}",
        find=_refused_pinned_reads,
    ),
    "refused_read": Rule(
        sentence="{1[client]} was refused to read: {1[details]}",
        find=_refused_reads,
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
