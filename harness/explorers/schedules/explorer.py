"""The schedules explorer: every order of dependent calls, or the first ones and a sample of the rest.

Three methods explore the same processes. DPOR runs one schedule for each order of dependent calls. The reader reduction
covers any number of readers that only read by exploring one. Random schedules, uniform and by PCT, check DPOR: where it
is complete, they must have no outcome that it did not have.
"""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.harness.common.verdict import HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.schedules.controls import failed_controls
from tornproof.harness.explorers.schedules.exploration import METHODS, PHASE, Exploration, ReductionCounts
from tornproof.harness.explorers.schedules.points import POINTS
from tornproof.harness.search.dpor import Counts
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.case import TestCase

ROUNDS = 24
"""Schedules of each random method that run in addition to a complete reduction."""
GRANULARITY = (
    "a range within a page is one step, a _txn record is read as one range and stored word by word, and syncs and "
    f"fences are not steps; a process gives up waiting only when nobody else can go on; {STEP_BOUND}"
)


def explore_schedules(
    case: TestCase,
    *,
    schedules_max: int | None = None,
    seed: int = 0,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    controls: Sequence[str] | None = None,
) -> Phase:
    """Run the first session of a test case's writer with its readers in every order that can matter.

    Of more than `schedules_max` orders, or different runs of a reader beside the writer, that many are run, and as many
    random schedules; the bound says so. `controls` are the failed ones, if they were already tried. Raises
    NotExplorableError.
    """
    controls = failed_controls(seed) if controls is None else controls
    exploration = Exploration(case, on_progress)
    try:
        first = exploration.reduce_readers(case.first_session, has_time, schedules_max)
        both: tuple[ReductionCounts, ...] = ()
        if case.second_session and first and _are_done(first):
            both = exploration.reduce_readers((*case.first_session, *case.second_session), has_time, schedules_max)
        counts = exploration.reduce(has_time, schedules_max)
        rounds = ROUNDS if counts.is_done or schedules_max is None else max(ROUNDS, schedules_max // len(METHODS))
        exploration.sample(seed, rounds, has_time)
    finally:
        exploration.close()
    return _phase(case, exploration, counts, (first, both)).with_controls(controls)


def _phase(
    case: TestCase,
    exploration: Exploration,
    counts: Counts,
    reader_counts: tuple[Sequence[ReductionCounts], Sequence[ReductionCounts]],
) -> Phase:
    notes = []
    if counts.is_done and not exploration.sampled <= exploration.reduced:
        notes.append("a random schedule had an outcome that no reduced one had")
    reader_run_count = sum(each.runs for session in reader_counts for each in session)
    findings = tuple(exploration.findings.values())
    return Phase(
        name=PHASE,
        explored=counts.complete + exploration.sample_count + reader_run_count,
        complete=counts.is_done or (bool(reader_counts[0]) and _are_done(reader_counts[0])),
        bound=f"{_processes(case)}: {'; '.join(_bounds(case, exploration, counts, reader_counts))}; {GRANULARITY}",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        counts={
            "reduced schedules": counts.complete,
            "blocked schedules": counts.blocked,
            "calls in reduced schedules": counts.steps,
            "reader runs of cuts": reader_run_count,
            **exploration.counts,
            "distinct sampled schedules": len(exploration.traces),
            "outcomes": len(exploration.reduced | exploration.sampled),
        },
        reached={name: exploration.reached[name] for name in POINTS},
        note="; ".join(notes),
        findings=findings,
    )


def _processes(case: TestCase) -> str:
    readers = [
        f"{group.count} {group.style} reader{'s' * (group.count > 1)} x {group.read_count} reads"
        for group in case.readers
    ]
    return f"{len(case.first_session)} commits beside {' and '.join(readers) or 'no reader'}"


def _bounds(
    case: TestCase,
    exploration: Exploration,
    counts: Counts,
    reader_counts: tuple[Sequence[ReductionCounts], Sequence[ReductionCounts]],
) -> list[str]:
    """Return what each method has covered."""
    if counts.is_done:
        bounds = [f"every order of dependent calls, in {counts.complete} schedules"]
    else:
        bounds = [f"the first {counts.complete} reduced schedules, and {len(exploration.traces)} distinct random ones"]
    if counts.late:
        bounds.append(f"in {counts.late} schedules a process went on by itself when nobody could, in one order only")
    first, both = len(case.first_session), len(case.first_session) + len(case.second_session)
    for commit_count, session in zip((first, both), reader_counts, strict=True):
        if session and _are_done(session):
            bounds.append(f"any number of such readers beside {commit_count} commits, by reduction to one")
        elif session:
            run_count = sum(each.runs for each in session)
            bounds.append(f"the first {run_count} runs of one such reader beside {commit_count} commits")
    return bounds


def _are_done(session: Sequence[ReductionCounts]) -> bool:
    return all(each.is_done for each in session)
