"""The page of a campaign: its verdict, coverage, what is still unseen, and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from tornproof.harness.common.campaign_sums import CellRuns
from tornproof.reports.campaign.coverage import heat_map
from tornproof.reports.campaign.data import CampaignData, Signature, Sums, read_campaign, totals
from tornproof.reports.campaign.discovery import Yield, about, at_most
from tornproof.reports.campaign.faults import GROUPS_MAX as FAULT_GROUPS_MAX
from tornproof.reports.campaign.faults import curves_of, fault_groups, survival_plot
from tornproof.reports.campaign.plots import behaviours_plot, chance_plot
from tornproof.reports.kit.page import VERDICTS, Page, as_key, fill, worst
from tornproof.reports.kit.survival import LETTERS, milestones

KEY = "campaign"
FINDINGS_MAX = 100
GROUPS_MAX = 100
CONTROLS_MAX = 150
POINTS_MAX = 60
SLOWEST_MAX = 10
YIELD_ROWS = 8
Control: TypeAlias = tuple[tuple[str, str], CellRuns]
"""The group and the fault or preset to detect, and its runs."""


def campaign_page(directory: Path, sums: Sums) -> Page:
    """Return the page of a campaign's directory with the sums of its results; raises ResultError if it is not one.

    The page lists results that are missing or unreadable.
    """
    data = read_campaign(directory, sums)
    judged, controls = _judged(data), _controls(data)
    notes = _notes(data, controls)
    verdict = _verdict(data, judged, notes)
    body = fill(
        "campaign.html.j2",
        data=data,
        lead=_lead(data, judged),
        facts=_facts(data, judged),
        notes=notes,
        verdicts=VERDICTS,
        # The controls of every campaign first.
        groups=sorted(data.groups.values(), key=lambda group: group.seed_count is not None)[:GROUPS_MAX],
        controls=controls[:CONTROLS_MAX],
        control_count=len(controls),
        findings=_findings(data)[:FINDINGS_MAX],
        discovery=_discovery(data),
        heat=heat_map(data.crash_points),
        reached=data.reached.most_common(POINTS_MAX),
        injected_faults=data.injected_faults.most_common(POINTS_MAX),
        costs=_costs(data),
        about=about,
        at_most=at_most,
        **_planted(data),
    )
    title = f"Campaign {data.spec.name}"
    # Runs are drawn by seeds, so VALID is that of a sample.
    return Page(key=KEY, group="Campaign", title=title, verdict=verdict, complete=False, body=body)


def _judged(data: CampaignData) -> Counter[str]:
    """Return the verdicts of the runs without controls."""
    counts: Counter[str] = Counter()
    for (group, verdict), count in data.verdicts.items():
        if not data.groups[group].is_control:
            counts[verdict] += count
    return counts


def _verdict(data: CampaignData, judged: Mapping[str, int], notes: Sequence[str]) -> str:
    """Return the worst verdict of the runs, of the final result and of the notes."""
    is_unknown = bool(notes or data.problem_count)
    return worst([*judged, *(["UNKNOWN"] if is_unknown else []), *([data.end.verdict] if data.end else [])])


def _notes(data: CampaignData, controls: Sequence[Control]) -> list[str]:
    """Return the reasons why the runs do not suffice for VALID, a sentence each."""
    if data.is_whole and data.end is not None:
        return list(data.end.notes)
    notes = []
    if data.end is None:
        notes.append("The campaign is not complete, or was written by an older release. Run it again.")
    else:
        there = f"{data.run_count:,} runs in {data.task_count:,} tasks"
        notes.append(
            f"At its end there were {data.end.run_count:,} runs in {data.end.task_count:,} tasks; now {there}."
        )
    if data.missing_task_count:
        notes.append(f"{data.missing_task_count:,} tasks of the plan have no results, though later ones have.")
    waiting = [name for name in data.groups if not data.task_counts[name]]
    if waiting:
        notes.append(f"{len(waiting):,} groups have no results: {', '.join(waiting[:GROUPS_MAX])}.")
    failed = [f"{group}: {subject}" for (group, subject), runs in controls if not runs.detected_count]
    notes += [f"A positive control failed: {control}." for control in failed[:CONTROLS_MAX]]
    if sum(count for (_, verdict), count in data.verdicts.items() if verdict == "UNKNOWN"):
        notes.append("Some runs did not complete.")
    return notes


def _lead(data: CampaignData, judged: Mapping[str, int]) -> str:
    run_count, broken_count = sum(judged.values()), judged.get("INVALID", 0)
    if not run_count:
        return "There is no run to judge."
    if not broken_count:
        return f"None of {run_count:,} runs violates a property."
    ways = "one way" if len(data.signatures) == 1 else f"{len(data.signatures):,} ways"
    return f"{broken_count:,} of {run_count:,} runs violate a property, in {ways}."


def _facts(data: CampaignData, judged: Mapping[str, int]) -> list[tuple[str, object]]:
    run_count = sum(judged.values())
    facts: list[tuple[str, object]] = [
        ("Runs", f"{run_count:,}"),
        ("Runs of controls", f"{data.run_count - run_count:,}"),
        ("Tasks", f"{data.task_count:,}"),
        ("Scenarios", f"{len({cell.scenario for cell in data.cells}):,}"),
        ("Steps", f"{data.step_count:,}"),
        ("Events", f"{data.event_count:,}"),
        ("Campaign seed", f"{data.spec.seed}"),
    ]
    if data.is_whole and data.end is not None:
        facts.append(("Result hash", Markup("<code>{}</code>").format(data.end.result_hash)))
    return facts


def _controls(data: CampaignData) -> list[Control]:
    cells = {cell: runs for cell, runs in data.cells.items() if data.groups[cell.group].is_control}
    return list(totals(cells, lambda cell: (cell.group, cell.subject)).items())


def _findings(data: CampaignData) -> list[tuple[Signature, str]]:
    """Return the signatures in the order of the plan, each with the key of its finding's page where there is one."""
    return [
        (signature, as_key("finding", stem) if (data.directory / "findings" / f"{stem}.json").is_file() else "")
        for stem, signature in data.signatures.items()
    ]


def _discovery(data: CampaignData) -> dict[str, object] | None:
    """Return how much new the runs have shown, and estimates for further runs."""
    points = data.behaviours
    if not points:
        return None
    stride = -(-len(points) // YIELD_ROWS)
    return {
        "behaviours": points[-1],
        "outcomes": data.outcomes[-1],
        "rows": _some(points, stride),
        "behaviours_max": data.behaviours_max,
        "growth": behaviours_plot(points, data.group_starts),
        "chance": chance_plot(points, data.group_starts),
    }


def _some(points: Sequence[Yield], stride: int) -> list[Yield]:
    """Return every `stride`-th point, counted from the last one."""
    return list(reversed(points[::-1][::stride]))


def _planted(data: CampaignData) -> dict[str, object]:
    groups = fault_groups(data.cells)
    curves = curves_of(groups)
    return {
        "fault_groups": groups[:FAULT_GROUPS_MAX],
        "fault_group_count": len(groups),
        "survival": survival_plot(curves) if curves else None,
        "curves": [(letter, group, milestones(group.survival)) for letter, group in zip(LETTERS, curves, strict=False)],
    }


def _costs(data: CampaignData) -> list[tuple[str, CellRuns]]:
    """Return the scenarios whose runs take the most steps."""
    of_scenarios = totals(data.cells, lambda cell: cell.scenario)
    return sorted(of_scenarios.items(), key=lambda item: (-item[1].steps_a_run, item[0]))[:SLOWEST_MAX]
