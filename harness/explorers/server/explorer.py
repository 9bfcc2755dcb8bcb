"""The explorer of a live server: rounds of concurrent clients over HTTP, judged as every other history is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tornproof.harness.common.verdict import PASSED, Finding, HasTime, OnProgress, Phase, Verdict, always, worst
from tornproof.harness.explorers.processes.judge import failed_controls, reads_during_commits
from tornproof.harness.explorers.server.clients import Plan
from tornproof.harness.explorers.server.content import FORMS
from tornproof.harness.explorers.server.judge import (
    LOG,
    PHASE,
    TABLE,
    Judged,
    findings_of,
    forks_of,
    history_of,
    judged_of,
)
from tornproof.harness.explorers.server.record import TableRecord
from tornproof.harness.explorers.server.run import OnTables, Round, Seen
from tornproof.harness.explorers.server.target import Target
from tornproof.harness.systems.server.client import ServerError
from tornproof.impl.errors import counted

READ_DURING_COMMIT = "read while a commit was under way"
CONVERTED = "partition converted to Parquet"
COVERAGE_GOALS = (READ_DURING_COMMIT, CONVERTED)
COMMIT_INTO_PARQUET = "commit into a partition in Parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was found, and the histories of all writers in one table of events."""

    phase: Phase
    history: pa.Table


def explore_server(
    target: Target,
    plan: Plan,
    *,
    rounds: int,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    on_tables: OnTables = lambda names: None,
) -> Result:
    """Use a server in so many rounds, each with new tables; one that was started here is killed in between.

    Numbers of statements and reads follow from the plan, which of them overlap does not: clients run freely. Raises
    UsageError if a table that is needed is there already.
    """
    seen = Seen()
    begin, cpu_begin = time.monotonic(), time.process_time()
    judged: list[Judged] = []
    done, is_whole, note = 0, True, ""
    statements = rounds * len(FORMS) * plan.writers * plan.commits

    def report(begun: int) -> None:
        on_progress(begun, statements)

    try:
        while is_whole and done < rounds and has_time():
            current = Round(target, plan, done, seen, has_time, on_tables)
            try:
                is_whole = current.run(report)
            finally:
                # Not all at the end, because after an interrupt there is little time.
                judged += judged_of(current.records)
            done += is_whole
    except ServerError as error:
        note = str(error)
    phase = _phase(seen, judged, plan, target, rounds=rounds, done=done, note=note)
    phase = replace(phase, seconds=time.monotonic() - begin, cpu_seconds=time.process_time() - cpu_begin)
    return Result(phase=phase, history=history_of([work.record for work in seen.tables]))


def _phase(
    seen: Seen, judged: Sequence[Judged], plan: Plan, target: Target, *, rounds: int, done: int, note: str
) -> Phase:
    records = [work.record for work in seen.tables]
    findings = [*findings_of(judged), *forks_of(records), *_others(seen)]
    reached = {
        READ_DURING_COMMIT: sum(map(_overlapping_reads, records)),
        CONVERTED: sum(work.to_parquet for work in seen.tables),
    }
    longest = max(judged, key=lambda each: len(each.lane.events), default=None)
    failed = [] if longest is None or findings else failed_controls(longest.lane.events, longest.judgement)
    kills = done * plan.kills if target.is_ours else 0
    doubts = [
        note,
        *dict.fromkeys(each.judgement.reason for each in judged),
        *dict.fromkeys(seen.troubles.no_answers[:1] + seen.troubles.defects[:1]),
        "" if done else "no round was ended",
        f"only {seen.counts['kills']} of {kills} kills" if seen.counts["kills"] < kills else "",
        "a positive control failed" if failed else "",
    ]
    counts, varying = _counts(seen), _varying(seen, judged, reached)
    phase = Phase(
        name=PHASE,
        explored=counts["commits"] + counts["reads"],
        complete=False,
        bound=_bound(plan, done=done, rounds=rounds, is_killed=target.is_ours),
        verdict=Verdict.INVALID if findings else worst([Verdict.VALID]),
        counts=counts,
        reached={goal: int(count > 0) for goal, count in reached.items()},
        controls="; ".join(failed) or PASSED,
        note="; ".join([_account(counts, varying, is_killed=target.is_ours), *_tables(seen)]),
        findings=tuple(findings),
        varying=varying,
    )
    return phase.doubted(*doubts).with_coverage_goals(COVERAGE_GOALS if done else ())


def _others(seen: Seen) -> Iterator[Finding]:
    for violated, sentence, record in dict.fromkeys(seen.troubles.findings):
        evidence = {} if record is None else {TABLE: record.name, "what": record.form.what, LOG: record.log}
        yield Finding(property=violated, phase=PHASE, sentence=f"{sentence}.", evidence=evidence)


def _overlapping_reads(record: TableRecord) -> int:
    """Return how many reads overlapped a commit of any writer."""
    by_lane = [reads_during_commits(lane.events, lane.client) for lane in record.lanes]
    return sum(map(any, zip(*by_lane, strict=True)))


def _counts(seen: Seen) -> dict[str, int]:
    """Return the counts that every run of a sound server has."""
    return {
        "tables": len(seen.tables),
        "commits": sum(work.record.statements for work in seen.tables),
        "reads": sum(sum(work.reads) for work in seen.tables) + seen.counts["last reads"],
        "conversions": sum(work.conversions for work in seen.tables),
        "kills": seen.counts["kills"],
        "deaths": seen.counts["deaths"],
    }


def _varying(seen: Seen, judged: Sequence[Judged], reached: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that depend on timing."""
    sums: Counter[str] = Counter()
    for each in judged:
        sums.update(each.judgement.denominators)
    return {
        "acknowledged": sums["acknowledged_commits"],
        "accepted conversions": sum(work.to_parquet + work.to_native for work in seen.tables),
        COMMIT_INTO_PARQUET: sum(work.commits_into_parquet for work in seen.tables),
        "statements rejected as busy": seen.troubles.busy,
        "history events": sums["events"],
        **{name: seen.counts[name] for name in sorted(seen.counts) if name not in ("kills", "deaths", "last reads")},
        **reached,
    }


def _bound(plan: Plan, *, done: int, rounds: int, is_killed: bool) -> str:
    kills = f"; SIGKILL and restart {counted(plan.kills, 'time')} a round" if is_killed else "; no kills"
    return (
        f"{done} of {counted(rounds, 'round')} with tables with {', '.join(form.what for form in FORMS)}, each with "
        f"{counted(plan.writers, 'writer')} of {plan.commits} commits, {counted(plan.readers, 'reader')} of "
        f"{plan.reads} reads and {plan.conversions} conversions of partitions, seed {plan.seed}{kills}; the clients "
        "run freely, so which calls overlap is no part of the bound"
    )


def _account(counts: Mapping[str, int], varying: Mapping[str, int], *, is_killed: bool) -> str:
    said = (
        f"{counts['commits']:,} commits, {varying['acknowledged']:,} acknowledged, {varying[COMMIT_INTO_PARQUET]:,} "
        f"into partitions in Parquet; {counts['reads']:,} reads, {varying[READ_DURING_COMMIT]:,} beside a commit; "
        f"{varying['accepted conversions']:,} conversions"
    )
    if not is_killed:
        return f"{said}; no restarts"
    unanswered, there = varying.get("unanswered at a kill", 0), varying.get("unanswered and there", 0)
    return (
        f"{said}; {counted(counts['kills'], 'SIGKILL')} and restarts: of {counted(unanswered, 'commit')} without an "
        f"answer {there} were there and {unanswered - there} not; {varying.get('verified tables', 0):,} times verified"
    )


def _tables(seen: Seen) -> Iterator[str]:
    if seen.dropped:
        yield f"{counted(len(seen.dropped), 'table')} of its own made and dropped"
    if seen.left:
        yield f"left on the server: {', '.join(seen.left)}"
