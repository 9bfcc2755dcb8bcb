"""Trials of planted faults as a file, as JSON and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tornproof.cli.output import replacing, without_surrogates
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES
from tornproof.harness.trial import SCHEMA, Row
from tornproof.reports.faults.trials import (
    ALL,
    TOTAL_TITLES,
    TRIALS_FILE,
    WANTED,
    Total,
    Trial,
    not_as_wanted,
    told_of,
    totals,
    trials_of,
    untold_of,
    verdict_on,
)


def write_trials(rows: Sequence[Row], wanted_count: int, folder: Path) -> None:
    """Write the rows of as many trials as have ended to the file in a folder from which a report makes its page."""
    schema = SCHEMA.with_metadata({WANTED: str(wanted_count)})
    with replacing(folder / TRIALS_FILE) as partial:
        pq.write_table(pa.Table.from_pylist(without_surrogates(rows), schema=schema), partial)


def trials_document(rows: Sequence[Row], wanted_count: int) -> dict[str, Any]:
    """Return the JSON form of trials; `not_as_wanted` are missed faults, unnoticed judges and false alarms."""
    tried = trials_of(rows)
    return {
        "format": 1,
        "verdict": verdict_on(tried, wanted_count),
        "totals": [
            {name: getattr(each, name) for name in Total.__dataclass_fields__} for each in totals(untold_of(tried))
        ],
        "not_as_wanted": sorted({each.fault for each in not_as_wanted(tried)}),
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
        if not trial.is_as_wanted:
            kind = "alarm " if trial.family == BENIGN else "missed"
            console.print(f"{kind} {trial.fault} ({trial.family}, {trial.asked}): {trial.how_far}", markup=False)


def _table(title: str, trials: Sequence[Trial]) -> Table:
    table = Table(title=title)
    for column in TOTAL_TITLES:
        table.add_column(column, justify="left" if column == TOTAL_TITLES[0] else "right", overflow="fold")
    for each in totals(trials):
        table.add_row(*each.cells, style="bold" if each.name == ALL else None)
    return table
