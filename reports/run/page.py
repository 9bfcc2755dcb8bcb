"""The page of a run of `check`: what was explored, the bounds, and the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tornproof.reports.kit.dedupe import Fold, by_property, folded
from tornproof.reports.kit.json_fields import counted, shortened
from tornproof.reports.kit.page import Page, fill
from tornproof.reports.run.document import Listed, PhaseResult, Run

GROUP = "Runs"
TITLE_CHARACTERS_MAX = 120
ROWS_SHOWN = 400
FOLDED_SHOWN = 50
OUTCOMES = ("rejected", "harmless", "legal state", "rollback", "exposure", "forged", "silent")
ALWAYS_SHOWN = ("rejected", "harmless", "silent")
"""Shown even if zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Outcomes of corruption: a row for each file and field, with the counts of `outcomes`."""

    outcomes: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[int]]]
    totals: Sequence[int]


def run_page(run: Run, *, trend: Markup, links: Mapping[str, str]) -> Page:
    """Return the page of a run; `links` are the keys of the findings that have a page, by the names of their files."""
    folds = folded(run.findings)
    body = fill(
        "run.html.j2",
        run=run,
        sentence=verdict_sentence(run),
        reasons=reasons_of(run),
        facts=_facts(run),
        groups=by_property(folds),
        found_by=Counter(finding.phase for finding in run.findings),
        link_of=lambda listed: links.get(listed.stem, ""),
        phases_of=_phases_of,
        counted=counted,
        damages={phase.name: damage_of(phase) for phase in run.phases if phase.fields},
        rows_shown=ROWS_SHOWN,
        folded_shown=FOLDED_SHOWN,
        trend=trend,
    )
    title = shortened(f"{run.name[:1].upper()}{run.name[1:]}: {run.target}, {run.preset}", TITLE_CHARACTERS_MAX)
    return Page(key=run.key, group=GROUP, title=title, verdict=run.verdict, complete=run.is_complete, body=body)


def verdict_sentence(run: Run) -> str:
    """Return the result of a run, in a sentence."""
    if not run.phases:
        return "No phase was run."
    phases = counted(len(run.phases), "phase")
    if run.verdict == "INVALID":
        folds = folded(run.findings)
        properties = counted(len(by_property(folds)), "property", "properties")
        kinds = "" if len(folds) == len(run.findings) else f" of {counted(len(folds), 'kind')}"
        verb = "violates" if len(run.findings) == 1 else "violate"
        return f"{counted(len(run.findings), 'finding')}{kinds} {verb} {properties}."
    if run.verdict == "UNKNOWN":
        without = [phase.name for phase in run.phases if phase.verdict == "UNKNOWN"]
        return f"Nothing was found, but {_listed(without)} of {phases} gave no verdict."
    if run.is_complete:
        return f"Nothing was found by {phases}, each explored to the end of its bound."
    complete = sum(phase.complete for phase in run.phases)
    return f"Nothing was found by {phases}: {complete} explored to the end of the bound, the others a sample."


def reasons_of(run: Run) -> list[tuple[str, str]]:
    """Return the notes of phases, and controls that failed, which limit the verdict."""
    reasons = [(phase.name, phase.note) for phase in run.phases if phase.note]
    reasons += [
        (phase.name, f"positive controls: {phase.controls}") for phase in run.phases if not phase.are_controls_passed
    ]
    return reasons


def damage_of(phase: PhaseResult) -> Damage:
    """Return the corruption outcomes of a phase; partitions of a table are added up: they have the same fields."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for file, by_field in phase.fields.items():
        for name, counts in by_field.items():
            found.setdefault((file.rpartition("/")[2], name), Counter()).update(counts)
    totals = sum(found.values(), Counter[str]())
    known = [outcome for outcome in OUTCOMES if totals[outcome] or outcome in ALWAYS_SHOWN]
    outcomes = known + sorted(set(totals) - set(OUTCOMES))
    return Damage(
        outcomes=outcomes,
        rows=[(file, name, [counts[outcome] for outcome in outcomes]) for (file, name), counts in found.items()],
        totals=[totals[outcome] for outcome in outcomes],
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _phases_of(fold: Fold[Listed]) -> str:
    return ", ".join(dict.fromkeys(finding.phase for finding in fold.all))


def _facts(run: Run) -> list[tuple[str, str]]:
    return [
        ("Checked", run.target),
        ("Preset", run.preset),
        ("Seed", str(run.seed)),
        ("Phases", str(len(run.phases))),
        ("Explored to the end", f"{sum(phase.complete for phase in run.phases)} of {len(run.phases)}"),
        ("Seconds", f"{run.seconds:,.1f}"),
        ("Result", run.file),
    ]
