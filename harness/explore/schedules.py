"""The schedules explorer: every order of dependent calls while there is time for it, and samples of what is left.

Three methods look at the same processes. DPOR runs one schedule for each order of dependent calls. Reader cuts settle
readers that only read, however many there are. Uniform random schedules and PCT run side by side; where DPOR is done,
they are held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.explore.dpor import Counts
from harness.explore.schedule_controls import failed_controls
from harness.explore.schedule_exploration import PHASE, CutCounts, Exploration
from harness.explore.schedule_points import POINTS
from harness.explore.situation import Situation
from harness.verdict import Clock, OnProgress, Phase, Verdict

CUTS_SHARE, LONGER_CUTS_SHARE, DPOR_SHARE = 0.15, 0.1, 0.5
ROUNDS_BESIDE_DPOR = 64
ROUNDS_MAX = 1 << 40
GRANULARITY = (
    "a range within a page is one step, a _txn record is read as one range and stored word by word, and syncs and "
    "fences are no steps"
)


def explore_schedules(
    situation: Situation,
    *,
    clock: Clock,
    seconds: float,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Run the first life of a situation's writer beside its readers in every order that can matter.

    Runs for about `seconds` of `clock`; what is not done then is sampled, and the bound says so. Raises
    NotExplorableError.
    """
    begin = clock()
    limit = begin

    def until(share: float) -> Callable[[], bool]:
        nonlocal limit
        limit = min(max(limit, clock()) + share * seconds, begin + seconds)
        return lambda end=limit: clock() < end  # type: ignore[misc]

    controls = failed_controls(seed)
    exploration = Exploration(situation, on_progress)
    try:
        cuts = exploration.cut(situation.first_life, until(CUTS_SHARE))
        longer: tuple[CutCounts, ...] = ()
        if situation.second_life and cuts and _are_done(cuts):
            longer = exploration.cut((*situation.first_life, *situation.second_life), until(LONGER_CUTS_SHARE))
        counts = exploration.reduce(until(DPOR_SHARE))
        exploration.sample(seed, ROUNDS_BESIDE_DPOR if counts.is_done else ROUNDS_MAX, until(1.0))
    finally:
        exploration.close()
    return _phase(situation, exploration, counts, (cuts, longer), controls, clock() - begin)


def _phase(
    situation: Situation,
    exploration: Exploration,
    counts: Counts,
    cuts: tuple[Sequence[CutCounts], Sequence[CutCounts]],
    controls: Sequence[str],
    seconds: float,
) -> Phase:
    notes = []
    if controls:
        notes.append("a positive control failed")
    if counts.is_done and not exploration.sampled <= exploration.reduced:
        notes.append("a random schedule had an outcome that no reduced one had")
    cut_count = sum(each.runs for group in cuts for each in group)
    findings = tuple(exploration.findings.values())
    return Phase(
        name=PHASE,
        explored=counts.complete + exploration.sample_count + cut_count,
        complete=counts.is_done or (bool(cuts[0]) and _are_done(cuts[0])),
        bound=f"{_processes(situation)}: {'; '.join(_bounds(situation, exploration, counts, cuts))}; {GRANULARITY}",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts={
            "reduced schedules": counts.complete,
            "blocked schedules": counts.blocked,
            "calls in reduced schedules": counts.steps,
            "reader runs of cuts": cut_count,
            **exploration.counts,
            "distinct sampled schedules": len(exploration.traces),
            "outcomes": len(exploration.reduced | exploration.sampled),
        },
        reached={name: exploration.reached[name] for name in POINTS},
        controls="; ".join(controls) if controls else "passed",
        note="; ".join(notes),
        findings=findings,
    )


def _processes(situation: Situation) -> str:
    readers = [
        f"{group.count} {group.style} reader{'s' * (group.count > 1)} x {group.read_count} reads"
        for group in situation.readers
    ]
    return f"{len(situation.first_life)} commits beside {' and '.join(readers) or 'no reader'}"


def _bounds(
    situation: Situation,
    exploration: Exploration,
    counts: Counts,
    cuts: tuple[Sequence[CutCounts], Sequence[CutCounts]],
) -> list[str]:
    """Say what each method has covered."""
    if counts.is_done:
        bounds = [f"every order of dependent calls, in {counts.complete} schedules"]
    else:
        bounds = [f"sampled, {counts.complete} reduced schedules and {len(exploration.traces)} distinct random ones"]
    life, whole = len(situation.first_life), len(situation.first_life) + len(situation.second_life)
    for commit_count, group in zip((life, whole), cuts, strict=True):
        if group and _are_done(group):
            bounds.append(f"any number of such readers beside {commit_count} commits, by cuts of one")
    return bounds


def _are_done(cuts: Sequence[CutCounts]) -> bool:
    return all(each.is_done for each in cuts)
