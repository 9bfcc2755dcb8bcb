"""docs/power.md from trials of planted faults: `python docs/power_page.py FOLDER/faults.parquet … > docs/power.md`.

Where they were tried at several times, each file has what is said of it in front: `"TEXT=FILE"`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.mutation.catalogue import ALL
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.trial import is_set_aside
from tornproof.reports.faults.trials import (
    BENIGN,
    JUDGES,
    TOTAL_TITLES,
    Trial,
    faults_of,
    read_trials,
    told_of,
    totals,
    untold_of,
)
from tornproof.reports.kit.survival import milestones, survival

HEAD = """# What a check finds that is told nothing

Each fault is one change of one place of the implementation ([planted faults](faults.md)), planted into a copy of the
package. A check of the bundled table, which is told nothing of it, then runs up to the first finding.
Generated from trials of `tornproof faults` (`make power` tries all) by `docs/power_page.py`; the page of `tornproof
report` has each cell. CPU seconds are those of the processes, with their start, up to the first finding.

*Reached*: the changed code was executed. *Triggered*: a phase counted or found something that it does not without the
fault. *Detected*: there is a finding, and it replays each time. Faults with an argument why they harm
nobody are counted apart. A third of the faults is *set aside*, drawn by the CRC-32 of their names: nothing was tuned to
them before they were first measured. What was missed then was looked into afterwards, so these numbers are of faults
that are known by now; what a check finds of others, at first sight, is in the draws of
[planting-a-fault.md](planting-a-fault.md).

"""


Run: TypeAlias = tuple[str, Sequence[Trial]]
"""What is said of a run, and its trials."""


def page(runs: Sequence[Run]) -> str:
    """Return the document."""
    return HEAD + "\n".join(_parts(runs))


def _parts(runs: Sequence[Run]) -> Iterator[str]:
    trials = [trial for _, of_run in runs for trial in of_run]
    checks, told = untold_of(trials), told_of(trials)
    wanted = faults_of(checks)
    yield "## Told nothing\n"
    yield markdown_table(
        TOTAL_TITLES, (each.cells for each in totals([each for each in checks if each.family != JUDGES]))
    )
    if wanted:
        aside = {each.name for each in ALL if is_set_aside(each.name) and not each.argument}
        tried = aside & {each.fault for each in wanted}
        yield f"Of the {len(aside)} faults that are set aside and harm somebody, {len(tried)} were tried.\n"
        yield from _runs(runs)
        stones = milestones(survival([(each.cpu_seconds, each.is_detected) for each in wanted]))
        left = "; ".join(f"{time:.0f} s: {100 * share:.0f} %" for time, share in stones)
        yield f"Not detected after so many CPU seconds (Kaplan–Meier): {left}.\n"
    yield "### Missed\n"
    yield from _missed(wanted)
    if told:
        yield "## Told the scenario\n"
        yield "The cheapest explorer of each fault, on the scenario that shows it.\n"
        yield markdown_table(TOTAL_TITLES, (each.cells for each in totals(told)[-1:]))
    yield "## Harmless faults, judges, and changes that are right\n"
    yield from _others(checks)
    yield "## Which phase finds which fault first\n"
    yield markdown_table(("family", "fault", "phase", "cases", "CPU s"), map(_found, wanted))


def _runs(runs: Sequence[Run]) -> Iterator[str]:
    cells = []
    for said, trials in runs:
        wanted = faults_of(untold_of(trials))
        if wanted:
            (*_, whole) = totals(wanted)
            cells.append((said, str(len({each.seed for each in wanted})), *whole.cells[1:]))
    if len(cells) > 1:
        yield markdown_table(("run", "seeds", *TOTAL_TITLES[1:]), cells)


def _missed(wanted: Iterable[Trial]) -> Iterator[str]:
    missed = [each for each in wanted if not each.is_as_wanted]
    for trial in missed:
        aside = ", set aside" if trial.is_set_aside else ""
        yield f"- {trial.fault} ({trial.family}{aside}), {trial.how_far}: {file_named(trial.fault).story}"
    yield "" if missed else "None.\n"


def _others(checks: Sequence[Trial]) -> Iterator[str]:
    harmless = [each for each in checks if each.argument and each.family != BENIGN]
    found = sum(each.is_detected for each in harmless)
    yield f"- Faults that harm nobody: {len(harmless)}, of which {found} are found all the same."
    benign = [each for each in checks if each.family == BENIGN]
    alarms = [each.fault for each in benign if not each.is_as_wanted]
    yield f"- Changes that are right: {len(benign)}; false alarms: {', '.join(alarms) or 'none'}."
    judges = [each for each in checks if each.family == JUDGES]
    noticed = [each for each in judges if each.is_detected]
    yield f"- Mistakes of judges: {len(judges)}, of which {len(noticed)} are noticed by the check itself.\n"


def _found(trial: Trial) -> tuple[str, ...]:
    found = trial.found
    if found is None:
        return (
            trial.family,
            trial.fault,
            "–",
            str(sum(each.case_count for each in trial.attempts)),
            f"{trial.cpu_seconds:.1f}",
        )
    return trial.family, trial.fault, found.phase, str(found.case_count), f"{trial.cpu_seconds:.1f}"


if __name__ == "__main__":
    named = [argument.rpartition("=") for argument in sys.argv[1:]]
    print(page([(said, read_trials(Path(file))) for said, _, file in named]), end="")
