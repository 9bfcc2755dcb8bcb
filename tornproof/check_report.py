"""What `check` says: a table of phases with their denominators, then what became of the damage, field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from harness.explore.damage_judge import Outcome
from harness.verdict import Phase, Verdict, worst

ALWAYS_SHOWN = (Outcome.REJECTED, Outcome.HARMLESS, Outcome.SILENT)
STYLES = {Verdict.VALID: "bold green", Verdict.UNKNOWN: "bold yellow", Verdict.INVALID: "bold red"}


def check_document(
    table: str, preset: str, seed: int, phases: list[Phase], saved: list[dict[str, str]]
) -> dict[str, Any]:
    """Return the JSON form of a check (design, section 11)."""
    return {
        "format": 1,
        "target": table,
        "preset": preset,
        "seed": seed,
        "verdict": worst(phase.verdict for phase in phases).name,
        "phases": [
            {
                "name": phase.name,
                "explored": phase.explored,
                "complete": phase.complete,
                "bound": phase.bound,
                "verdict": phase.verdict.name,
                "seconds": round(phase.seconds, 3),
                "counts": phase.counts,
                "exposures": phase.exposures,
                "reached": phase.reached,
                "controls": phase.controls,
                "note": phase.note,
                "fields": phase.fields,
                "situations": phase.situations,
            }
            for phase in phases
        ],
        "findings": saved,
    }


def print_check(console: Console, table: str, phases: list[Phase], saved: list[dict[str, str]]) -> None:
    """Print a check for a person."""
    for phase in phases:
        if phase.fields:
            console.print(_damage_grid(phase))
    console.print(_phase_grid(phases))
    for phase in phases:
        console.print(f"{phase.name} bound: {phase.bound}", markup=False)
        if phase.note:
            console.print(f"{phase.name}: {phase.note}", markup=False)
        if any(phase.exposures.values()):
            exposed = ", ".join(f"{count} in {place}" for place, count in phase.exposures.items())
            console.print(f"exposures (this format cannot notice them): {exposed}", markup=False)
    for finding in saved:
        console.print(Text.assemble(("finding ", "bold red"), finding["sentence"]))
        console.print(f"  replay: tornproof replay {finding['file']}", markup=False, soft_wrap=True)
    verdict = worst(phase.verdict for phase in phases)
    console.print(Text.assemble(f"{table}: ", (verdict.name, STYLES[verdict])))


def _phase_grid(phases: Iterable[Phase]) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold", title_justify="left")
    grid.add_column("phase")
    grid.add_column("explored", justify="right")
    grid.add_column("complete")
    grid.add_column("seconds", justify="right")
    grid.add_column("controls")
    grid.add_column("verdict")
    for phase in phases:
        grid.add_row(
            phase.name,
            f"{phase.explored:,}",
            "yes" if phase.complete else "no",
            f"{phase.seconds:.1f}",
            Text(phase.controls),
            Text(phase.verdict.name, STYLES[phase.verdict]),
        )
    return grid


def _damage_grid(phase: Phase) -> Grid:
    """One row a field; partitions of one table are added up, because their fields are the same."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for file, by_field in phase.fields.items():
        for name, found in by_field.items():
            rows.setdefault((file.rpartition("/")[2], name), Counter()).update(found)
    outcomes = [outcome for outcome in Outcome if phase.counts[outcome.value] or outcome in ALWAYS_SHOWN]
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("first damaged byte", no_wrap=True)
    for outcome in outcomes:
        grid.add_column(outcome.value, justify="right", no_wrap=True)
    previous = ""
    for (file, name), found in rows.items():
        if file != previous:
            grid.add_row(Text(file, "bold"))
        counts = [f"{found[outcome.value]:,}" if found[outcome.value] else "" for outcome in outcomes]
        grid.add_row(Text(f"  {name}"), *counts)
        previous = file
    totals = [f"{phase.counts[outcome.value]:,}" for outcome in outcomes]
    grid.add_row("all", *totals, style="bold")
    return grid
