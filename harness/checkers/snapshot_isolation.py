"""Judges a history for snapshot isolation with one writer (docs/history.md).

A history is a table of events with the columns that `recorded` reads. It begins with the recovered event of a writer
that opens the table, or with the commit of the first version.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.attempts import OF_WRITERS, Writing, read_writing
from tornproof.harness.checkers.explanation import Positions, observed_by_readers, observed_by_writer, unexplained
from tornproof.harness.checkers.ordering import Steps, by_client, by_process, check_beginnings, check_steps
from tornproof.harness.checkers.readings import Readings, read_readings
from tornproof.harness.checkers.recorded import (
    KINDS,
    Columns,
    MalformedHistoryError,
    is_one_of,
    kinds_of,
    order_key_of,
    read_columns,
)
from tornproof.harness.checkers.rules import RULES, Case
from tornproof.harness.checkers.sightings import sightings
from tornproof.harness.checkers.timeline import Timeline, timeline_of
from tornproof.harness.common.verdict import Verdict

EXAMPLES_MAX = 10
"""How many anomalies of one kind are reported; all are counted."""
VACUOUS = "nothing was read and nothing recovered, so nothing was judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A violated rule, as a sentence and the recorded events that show it."""

    kind: str
    sentence: str
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a history.

    `anomalies` are examples, `counts` has the number of each kind. `denominators` say how much was checked; `reason`
    says why a verdict is UNKNOWN.
    """

    verdict: Verdict
    anomalies: tuple[Anomaly, ...] = ()
    counts: dict[str, int]
    denominators: dict[str, int]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What was found in a part of a history, that of the writer or of some readers, and how much was checked."""

    anomalies: tuple[Anomaly, ...]
    counts: dict[str, int]
    denominators: dict[str, int]
    readers: frozenset[str] = frozenset()


def judge(history: pa.Table, *, excused: Collection[str] = (), seen_survives: bool = True) -> Judgement:
    """Return the verdict on a history of events.

    A failed read whose `details` are in `excused` is legal unless its snapshot was pinned. Without `seen_survives` a
    version that was seen but not acknowledged may be lost, as by a power cut. A history that contradicts itself, or in
    which nothing was observed, is UNKNOWN.
    """
    try:
        shared = shared_events(history)
        columns = read_columns(history, known=deaths(shared))
        steps = by_process(columns)
        check_beginnings(columns, steps)
        readings = read_steps(columns, steps)
        writing = read_writing(shared)
    except MalformedHistoryError as error:
        return unknown(str(error), len(history))
    timeline = timeline_of(writing)
    seen = sightings(columns, timeline)
    parts = [
        judge_writer(writing, timeline, seen_survives=seen_survives),
        judge_readers(columns, readings, timeline, seen, excused=excused, seen_survives=seen_survives),
    ]
    return conclude(parts)


def unknown(reason: str, event_count: int) -> Judgement:
    """Return the judgement on a history that cannot be judged."""
    return Judgement(verdict=Verdict.UNKNOWN, counts={}, denominators={"events": event_count}, reason=reason)


def shared_events(history: pa.Table) -> pa.Table:
    """Return the events that concern all clients: those of the writer, and deaths."""
    return history.take(pa.array(np.flatnonzero(is_one_of(kinds_of(history), *OF_WRITERS))))


def deaths(shared: pa.Table) -> pa.Table:
    """Return the deaths among shared events."""
    return shared.filter(pc.equal(shared.column("kind").cast(pa.string()), "killed"))


def read_steps(columns: Columns, steps: Steps) -> Readings:
    """Return what readers did; raises MalformedHistoryError if events are missing or have no partner."""
    check_steps(columns, steps)
    return read_readings(by_client(columns, steps))


def judge_writer(writing: Writing, timeline: Timeline, *, seen_survives: bool) -> Part:
    """Judge the version numbers of the writer and the contents that it recovered."""
    nothing = read_columns(timeline.columns.table.slice(0, 0))
    seen = observed_by_writer(writing)
    case = Case(
        columns=nothing,
        readings=read_readings(nothing),
        timeline=timeline,
        seen=nothing,
        unexplained=unexplained(seen, timeline, seen_survives=seen_survives),
        written=writing.anomalies,
        excused=(),
    )
    return _examine(case, {"recoveries": writing.recovery_count})


def judge_readers(
    columns: Columns,
    readings: Readings,
    timeline: Timeline,
    seen: Columns,
    *,
    excused: Collection[str],
    seen_survives: bool,
) -> Part:
    """Judge what some readers saw against the timeline of the writer and what all readers had seen (`sightings`)."""
    observed = observed_by_readers(readings)
    case = Case(
        columns=readings.columns,
        readings=readings,
        timeline=timeline,
        seen=seen,
        unexplained=unexplained(observed, timeline, seen_survives=seen_survives),
        written={},
        excused=excused,
    )
    return _examine(case, _denominators(columns, readings))


def conclude(parts: Iterable[Part]) -> Judgement:
    """Return the judgement on a history from those on its parts."""
    counts: Counter[str] = Counter()
    denominators: Counter[str] = Counter()
    readers: set[str] = set()
    anomalies: list[Anomaly] = []
    for part in parts:
        counts.update(part.counts)
        denominators.update(part.denominators)
        readers |= part.readers
        anomalies += part.anomalies
    denominators["readers"] = len(readers)
    is_vacuous = not counts and denominators["recoveries"] == 0 and denominators["reads"] == 0
    return Judgement(
        verdict=Verdict.INVALID if counts else Verdict.UNKNOWN if is_vacuous else Verdict.VALID,
        anomalies=first_of_each_kind(anomalies),
        counts={kind: counts[kind] for kind in RULES if counts[kind]},
        denominators=dict(denominators),
        reason=VACUOUS if is_vacuous else "",
    )


def first_of_each_kind(anomalies: Sequence[Anomaly]) -> tuple[Anomaly, ...]:
    """Return examples of each kind, the earliest first."""
    by_kind: dict[str, list[Anomaly]] = {kind: [] for kind in RULES}
    for anomaly in anomalies:
        by_kind[anomaly.kind].append(anomaly)
    return tuple(each for some in by_kind.values() for each in sorted(some, key=_order_keys)[:EXAMPLES_MAX])


def _order_keys(anomaly: Anomaly) -> list[tuple[int, str, int]]:
    return [order_key_of(event) for event in anomaly.events]


def _examine(case: Case, denominators: dict[str, int]) -> Part:
    def order_keys(positions: Positions) -> list[tuple[int, int, int]]:
        return [case.order_key(position) for position in positions]

    found = {kind: positions for kind, rule in RULES.items() if (positions := rule.find(case))}
    firsts = {kind: heapq.nsmallest(EXAMPLES_MAX, positions, key=order_keys) for kind, positions in found.items()}
    return Part(
        anomalies=tuple(_anomaly(case, kind, each) for kind, some in firsts.items() for each in some),
        counts={kind: len(positions) for kind, positions in found.items()},
        denominators=denominators,
        readers=_readers(case),
    )


def _anomaly(case: Case, kind: str, positions: Positions) -> Anomaly:
    events = tuple(case.event(position) for position in dict.fromkeys(positions))
    return Anomaly(kind=kind, sentence=RULES[kind].sentence.format(*events), events=events)


def _readers(case: Case) -> frozenset[str]:
    clients = np.zeros(len(case.columns.clients), dtype=np.bool_)
    clients[case.columns.client[case.readings.end]] = True
    return frozenset(case.columns.clients.filter(pa.array(clients)).to_pylist())


def _denominators(columns: Columns, readings: Readings) -> dict[str, int]:
    """Return the number of events of each kind, and of what they add up to."""
    kinds: Mapping[str, int] = dict(
        zip(KINDS, np.bincount(columns.kind[: columns.own_count], minlength=len(KINDS)).tolist(), strict=True)
    )
    rejected_count = int(readings.rejected.sum())
    return {
        "events": columns.own_count,
        "reads": len(readings.end) - rejected_count,
        "refused_reads": rejected_count,
        "reads_of_older_snapshots": int(readings.of_older_snapshot.sum()),
        "commits": kinds["commit_start"],
        "acknowledged_commits": kinds["commit_acknowledged"],
        "failed_commits": kinds["commit_failed"],
        "pins": kinds["pin"],
        "kills": kinds["killed"],
    }
