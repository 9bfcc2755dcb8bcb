"""Trials of planted faults as a file, as JSON and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tornproof.cli.output import replacing
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES
from tornproof.harness.trial import SCHEMA, Row
from tornproof.reports.faults.trials import ALL, TRIALS_FILE, Total, Trial, told_of, totals, trials_of, untold_of


def write_trials(rows: Sequence[Row], folder: Path) -> None:
    """Write rows to the file in a folder from which a report makes its page."""
    with replacing(folder / TRIALS_FILE) as partial:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial)


def trials_document(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the JSON form of trials; `not_as_wanted` are missed faults, unnoticed judges and false alarms."""
    tried = trials_of(rows)
    return {
        "format": 1,
        "totals": [
            {name: getattr(each, name) for name in Total.__dataclass_fields__} for each in totals(untold_of(tried))
        ],
        "not_as_wanted": sorted({each.fault for each in tried if not _is_as_wanted(each)}),
        "trials": list(rows),
    }


def print_trials(console: Console, rows: Sequence[Row]) -> None:
    """Print totals by family, and each trial that did not end as it should."""
    tried = trials_of(rows)
    for title, trials in (("told the scenario", told_of(tried)), ("told nothing", untold_of(tried))):
        if trials:
            console.print(_table(f"Faults that an explorer finds which is {title}", trials))
    for trial in tried:
        if trial.family in (JUDGES, BENIGN) and (noticed := trial.noticed) is not None:
            console.print(f"noticed {trial.fault}: {noticed.phase}: {noticed.sentence}", markup=False)
        if not _is_as_wanted(trial):
            kind = "alarm " if trial.family == BENIGN else "missed"
            reached = "triggered" if trial.triggered else "reached" if trial.reached else "not reached"
            seed = "told" if trial.is_told else f"seed {trial.seed}"
            console.print(f"{kind} {trial.fault} ({trial.family}, {seed}): {reached}", markup=False)


def _table(title: str, trials: Sequence[Trial]) -> Table:
    table = Table(title=title)
    table.add_column("family", overflow="fold")
    for column in ("trials", "reached", "triggered", "detected", "CPU s, median", "95 %"):
        table.add_column(column, justify="right")
    for each in totals(trials):
        counts = (each.trial_count, each.reached_count, each.triggered_count, each.detected_count)
        times = (each.median_seconds, each.percentile_seconds)
        cells = [f"{count:,}" for count in counts] + ["–" if time is None else f"{time:.1f}" for time in times]
        table.add_row(each.name, *cells, style="bold" if each.name == ALL else None)
    return table


def _is_as_wanted(trial: Trial) -> bool:
    return trial.noticed is None if trial.family == BENIGN else trial.is_detected or not trial.is_fault
