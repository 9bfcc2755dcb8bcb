"""The page of trials of planted faults: what is missed, how soon the others are found, and by which explorers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from tornproof.reports.faults.trials import (
    BENIGN,
    JUDGES,
    KEY,
    TOTAL_TITLES,
    Attempt,
    Trial,
    faults_of,
    not_as_wanted,
    read_trials,
    read_wanted_count,
    told_of,
    totals,
    untold_of,
    verdict_on,
)
from tornproof.reports.kit.json_fields import counted
from tornproof.reports.kit.page import Page, fill
from tornproof.reports.kit.survival import milestones, plot_of_curves, survival

TITLE = "Planted faults"
FAULTS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a phase made of a fault, over all seeds: `level` is one of found, doubted, triggered, reached, unreached."""

    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault, and what each phase made of it; None for a phase that was not tried."""

    fault: str
    family: str
    argument: str
    cells: tuple[Cell | None, ...]


def faults_page(path: Path) -> Page:
    """Return the page of a file of trials; raises ResultError if it is not one."""
    trials, wanted_count = read_trials(path), read_wanted_count(path)
    checks = untold_of(trials)
    wanted, failed = faults_of(checks), not_as_wanted(trials)
    phases = tuple(dict.fromkeys(attempt.phase for trial in trials for attempt in trial.attempts))
    rows = _rows(trials, phases)
    body = fill(
        "faults.html.j2",
        lead=" ".join(_lead(trials, wanted_count)),
        titles=TOTAL_TITLES,
        totals=totals(checks),
        told=totals(told_of(trials))[-1] if told_of(trials) else None,
        missed=faults_of(failed),
        alarms=[each for each in failed if each.family == BENIGN],
        unnoticed=[each for each in failed if each.family == JUDGES],
        curve=_plot(trials) if wanted else None,
        stones=milestones(survival(_times(wanted))) if wanted else [],
        phases=phases,
        rows=rows[:FAULTS_MAX],
        row_count=len(rows),
    )
    return Page(key=KEY, group=TITLE, title=TITLE, verdict=verdict_on(trials, wanted_count), body=body)


def _lead(trials: Sequence[Trial], wanted_count: int | None) -> Iterator[str]:
    if not trials or len(trials) < (wanted_count or 0):
        yield f"{len(trials):,} of {counted(wanted_count or 0, 'trial')} have ended."
    checks, told = faults_of(untold_of(trials)), faults_of(told_of(trials))
    if checks:
        seeds = {each.seed for each in checks}
        each = f" with each of {len(seeds):,} seeds" if len(seeds) > 1 else ""
        yield f"A check that is told nothing finds {_found(checks)}{each}."
    if told:
        yield f"The cheapest explorer, told the scenario, finds {_found(told)}."


def _found(trials: Sequence[Trial]) -> str:
    """Return how many of the faults of trials are found in all of them, in words."""
    faults = {each.fault for each in trials}
    found = faults - {each.fault for each in not_as_wanted(trials)}
    return f"{len(found):,} of {counted(len(faults), 'planted fault')}"


def _times(trials: Sequence[Trial]) -> list[tuple[float, bool]]:
    return [(each.cpu_seconds, each.is_detected) for each in trials]


def _plot(trials: Sequence[Trial]) -> Markup:
    """Return a plot of the share of undetected faults by CPU seconds: told nothing (A), and told the scenario (B)."""
    wanted = faults_of(trials)
    curves = [survival(_times(some)) for some in (untold_of(wanted), told_of(wanted)) if some]
    title = "Share of the planted faults that are not detected, by CPU seconds"
    return plot_of_curves(curves, unit="CPU seconds", title=title)


def _rows(trials: Sequence[Trial], phases: Sequence[str]) -> list[Row]:
    ordered = sorted(trials, key=lambda each: (each.family, each.fault))
    return [
        _row(fault, family, list(group), phases)
        for (family, fault), group in groupby(ordered, key=lambda each: (each.family, each.fault))
    ]


def _row(fault: str, family: str, trials: Sequence[Trial], phases: Sequence[str]) -> Row:
    return Row(
        fault=fault,
        family=family,
        argument=trials[0].argument,
        cells=tuple(
            _cell([each for trial in trials for each in trial.attempts if each.phase == name]) for name in phases
        ),
    )


def _cell(attempts: Sequence[Attempt]) -> Cell | None:
    if not attempts:
        return None
    found = [each for each in attempts if each.is_found]
    if found:
        seconds = sorted(each.cpu_seconds for each in found)[len(found) // 2]
        share = "" if len(attempts) == 1 else f"{len(found)} of {len(attempts)}, "
        return Cell(level="found", text=f"✓ {share}{seconds:.1f} s")
    for level, is_so in (
        ("doubted", any(each.verdict != "VALID" for each in attempts)),
        ("triggered", any(each.triggered for each in attempts)),
        ("reached", any(each.reached for each in attempts)),
    ):
        if is_so:
            return Cell(level=level, text=level)
    return Cell(level="unreached", text="not reached")
