"""Judges the histories of a live server: findings with all that judging them again needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from tornproof.harness.checkers.forks import forks
from tornproof.harness.checkers.snapshot_isolation import Judgement, judge
from tornproof.harness.common.history import SCHEMA, to_arrow
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.server.record import Lane, TableRecord

PHASE = "server"
REFUSED_READ = "refused_read"
FORK = "snapshots are in one order"
RECORDED, KIND, VERSIONS, LOG = "recorded", "kind", "versions", "statements"
TABLE, WRITER = "table", "writer"
"""Columns that separate histories in a file of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One writer of a table, and the judgement on its history."""

    record: TableRecord
    lane: Lane
    judgement: Judgement


def judged_of(records: Iterable[TableRecord]) -> Iterator[Judged]:
    """Judge the histories of all writers of some tables."""
    for record in records:
        for lane in record.lanes:
            yield Judged(record=record, lane=lane, judgement=judge(to_arrow(lane.events)))


def findings_of(judged: Iterable[Judged]) -> Iterator[Finding]:
    """Yield the first anomaly of each kind in each history, with the history."""
    rejected: set[str] = set()
    for each in judged:
        record, lane, judgement = each.record, each.lane, each.judgement
        first = {anomaly.kind: anomaly for anomaly in reversed(judgement.anomalies)}
        for kind, anomaly in first.items():
            if kind == REFUSED_READ:
                # It is in the history of each writer.
                if record.name in rejected:
                    continue
                rejected.add(record.name)
            details = next((event["details"] for event in anomaly.events if event["details"]), "")
            more = f" ({details})" if details and details not in anomaly.sentence else ""
            yield Finding(
                property=kind,
                phase=PHASE,
                sentence=f"{record.name}, versions of {lane.client}: {anomaly.sentence}{more}.",
                evidence={
                    TABLE: record.name,
                    "what": record.form.what,
                    WRITER: lane.writer,
                    KIND: kind,
                    "count": judgement.counts[kind],
                    "events": [dict(event) for event in anomaly.events],
                    LOG: record.log,
                    RECORDED: [list(asdict(event).values()) for event in lane.events],
                },
            )


def forks_of(records: Sequence[TableRecord]) -> Iterator[Finding]:
    """Yield for each table the first two reads that contradict each other."""
    for record in records:
        sights = record.sights
        for one, other in list(forks([sight.versions for sight in sights]))[:1]:
            said = [f"{sights[index].client} saw versions {list(sights[index].versions)}" for index in (one, other)]
            yield Finding(
                property=FORK,
                phase=PHASE,
                sentence=f"{record.name}: {said[0]} of its writers, and {said[1]}: each lacks a commit of the other.",
                evidence={
                    TABLE: record.name,
                    VERSIONS: [list(sights[index].versions) for index in (one, other)],
                    "reads": [asdict(sights[index]) for index in (one, other)],
                    LOG: record.log,
                },
            )


def history_of(records: Sequence[TableRecord]) -> pa.Table:
    """Return all histories as one table of events, with columns that name table and writer."""
    parts = [
        to_arrow(lane.events)
        .append_column(TABLE, pa.array([record.name] * len(lane.events), pa.string()))
        .append_column(WRITER, pa.array([lane.writer] * len(lane.events), pa.int64()))
        for record in records
        for lane in record.lanes
    ]
    return pa.concat_tables(parts) if parts else to_arrow([])


def replay_server(finding: Finding) -> Verdict:
    """Judge the history in a finding again; UNKNOWN if there is none."""
    evidence = finding.evidence
    if finding.property == FORK:
        return Verdict.INVALID if any(forks(evidence[VERSIONS])) else Verdict.VALID
    if RECORDED not in evidence:
        return Verdict.UNKNOWN
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in evidence[RECORDED]]
    counts = judge(pa.Table.from_pylist(rows, SCHEMA)).counts
    return Verdict.INVALID if counts.get(evidence[KIND]) else Verdict.VALID
