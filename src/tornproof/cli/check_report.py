"""The output of `check`: a verdict, what each phase asked, covered and found, bounds if wanted, the next command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tornproof.cli.console import result_grid
from tornproof.cli.explanation_print import print_finding
from tornproof.harness.check import PhaseName
from tornproof.harness.common.effort import EFFORTS, Bounds
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.common.verdict import Phase, Verdict, worst
from tornproof.harness.explorers.corruption.judge import Outcome
from tornproof.harness.parallel.tasks import Outcome as CheckOutcome

ALWAYS_SHOWN = (Outcome.REJECTED, Outcome.HARMLESS, Outcome.SILENT)
STYLES = {Verdict.VALID: "bold green", Verdict.UNKNOWN: "bold yellow", Verdict.INVALID: "bold red"}
QUESTIONS = {
    PhaseName.VERIFY: "Is the table sound on disk?",
    PhaseName.STORAGE: "Do files answer as simulated ones do?",
    PhaseName.ROUNDTRIP: "Does each form of a fact say the same?",
    PhaseName.DAMAGE: "Does corruption cause a wrong read?",
    PhaseName.STATEFUL: "Do random operations match the model?",
    PhaseName.SCHEDULES: "Does an order of calls mislead a reader?",
    PhaseName.PRODUCT: "Does a crash mislead a running reader?",
    PhaseName.POWER: "Does a power cut lose or tear a commit?",
    PhaseName.MEMORY: "Do reordered stores mislead a reader?",
    PhaseName.RANDOM: "Does a random scenario break anything?",
    PhaseName.CRASH: "Does a kill or an error lose a commit?",
    PhaseName.PROCESSES: "Do killed processes lose a commit?",
    PhaseName.SERVER: "Does a live server lose or tear a commit?",
}
FINDINGS_SHOWN_MAX = 10
LIVE_SERVER = "live server"
"""What stands for the preset where a server is checked, whose protocol is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked: the target in words, the preset, the seed and the effort.

    `path` is the target's in full if it is on this machine, `arguments` are the words for a shell that repeat the
    question but for seed and effort.
    """

    target: str
    path: str = ""
    arguments: tuple[str, ...] = ()
    preset: str
    seed: int
    effort: int


def check_document(
    asked: Asked, bounds: Bounds, outcome: CheckOutcome, saved: list[dict[str, Any]], workers: int
) -> dict[str, Any]:
    """Return the JSON form of a check (docs/reports.md).

    Two runs of the same question differ only in `times`, and in `varying`, counts of processes that are not scheduled.
    """
    phases = outcome.phases
    return {
        "format": 2,
        "target": asked.target,
        "path": asked.path,
        "preset": asked.preset,
        "seed": asked.seed,
        "effort": asked.effort,
        "bounds": asdict(bounds),
        "cut_by": outcome.cut_by,
        "verdict": _verdict(phases).name,
        "phases": [
            {
                "name": phase.name,
                "explored": phase.explored,
                "complete": phase.complete,
                "bound": phase.bound,
                "verdict": phase.verdict.name,
                "counts": phase.counts,
                "exposures": phase.exposures,
                "reached": phase.reached,
                "controls": phase.controls,
                "note": phase.note,
                "fields": phase.fields,
                "test_cases": phase.test_cases,
            }
            for phase in phases
        ],
        "findings": saved,
        "varying": {phase.name: phase.varying for phase in phases if phase.varying},
        "times": {
            "workers": workers,
            "first_finding_cpu_seconds": outcome.first_finding_cpu_seconds,
            "phases": {
                phase.name: {"seconds": round(phase.seconds, 3), "cpu_seconds": round(phase.cpu_seconds, 3)}
                for phase in phases
            },
        },
    }


def print_check(
    console: Console, asked: Asked, outcome: CheckOutcome, saved: list[dict[str, Any]], *, with_bounds: bool = False
) -> None:
    """Print a check for a person; none of its findings are `saved` if that failed."""
    phases = outcome.phases
    console.print(Text(_headline(asked, phases), STYLES[_verdict(phases)]))
    console.print()
    console.print(_phase_grid(phases))
    for line in _remarks(outcome):
        console.print(line)
    findings = [finding for phase in phases for finding in phase.findings]
    for finding, entry in zip_longest(findings[:FINDINGS_SHOWN_MAX], saved[:FINDINGS_SHOWN_MAX]):
        print_finding(console, finding)
        if entry is not None:
            console.print(f"  tornproof replay {shell_word(entry['file'])}", soft_wrap=True)
    if len(findings) > FINDINGS_SHOWN_MAX:
        console.print(f"and {len(findings) - FINDINGS_SHOWN_MAX} more findings")
    if with_bounds:
        _print_bounds(console, phases)
    console.print(f"next: {_next_command(asked, outcome, saved)}", soft_wrap=True)


def _verdict(phases: Sequence[Phase]) -> Verdict:
    return worst(phase.verdict for phase in phases)


def _headline(asked: Asked, phases: Sequence[Phase]) -> str:
    cases = f"in {sum(phase.explored for phase in phases):,} cases"
    count = sum(len(phase.findings) for phase in phases)
    found = f"{count:,} finding{'' if count == 1 else 's'} {cases}"
    match _verdict(phases):
        case Verdict.VALID:
            return f"sound{'' if asked.preset == LIVE_SERVER else f' and {asked.preset}'}: {found}"
        case Verdict.INVALID:
            return f"broken: {found}"
        case _:
            names = ", ".join(phase.name for phase in phases if phase.verdict is Verdict.UNKNOWN)
            return f"no verdict on {names or 'anything'}: {found}"


def _phase_grid(phases: Iterable[Phase]) -> Grid:
    grid = result_grid("phase", "question", ">cases", "covered", "found")
    for phase in phases:
        covered = "all" if phase.complete else "a sample" if phase.explored else "nothing"
        found = "?" if phase.verdict is Verdict.UNKNOWN else str(len(phase.findings))
        grid.add_row(
            phase.name,
            QUESTIONS[PhaseName(phase.name)],
            f"{phase.explored:,}",
            covered,
            Text(found, STYLES[phase.verdict]),
        )
    return grid


def _remarks(outcome: CheckOutcome) -> Iterator[str]:
    """Yield remarks that the table of phases does not show."""
    for phase in outcome.phases:
        if outcome.is_ended_by_finding and not phase.explored:
            continue
        if phase.verdict is Verdict.UNKNOWN:
            yield f"{phase.name} is UNKNOWN: {phase.note}"
        elif phase.note:
            yield f"{phase.name}: {phase.note}"
    if outcome.interrupted_by:
        yield "interrupted: the bounds cover only what was explored by then"
    if outcome.is_out_of_time:
        yield "cut by --seconds: the bounds cover only what was explored by then"
    if outcome.is_ended_by_finding:
        yield "ended by the first finding: the bounds cover only what was explored by then"
    exposures = Counter[str]()
    for phase in outcome.phases:
        exposures.update(phase.exposures)
    if exposures:
        exposed = ", ".join(f"{count:,} in {location}" for location, count in exposures.items())
        yield f"undetectable corruption, in bytes without a checksum: {exposed}"


def _next_command(asked: Asked, outcome: CheckOutcome, saved: Sequence[dict[str, str]]) -> str:
    """Return the one command that is most useful next."""
    if saved:
        return f"tornproof replay {shell_word(saved[0]['file'])}"
    command = ["tornproof", "check", *asked.arguments]
    if asked.seed:
        command += ["--seed", str(asked.seed)]
    # Findings that could not be saved have to be found again.
    if outcome.interrupted_by or outcome.is_out_of_time or _verdict(outcome.phases) is Verdict.INVALID:
        return " ".join([*command, "--effort", _word(asked.effort)])
    if _verdict(outcome.phases) is Verdict.UNKNOWN:
        return " ".join([*command, "--effort", _word(asked.effort), "--bounds"])
    larger = next((word for word, effort in EFFORTS.items() if effort > asked.effort), str(10 * asked.effort))
    return " ".join([*command, "--effort", larger])


def _word(effort: int) -> str:
    return next((word for word, number in EFFORTS.items() if number == effort), str(effort))


def _print_bounds(console: Console, phases: Iterable[Phase]) -> None:
    """Print what each phase covered, and the outcomes of corruption by field."""
    for phase in phases:
        console.print()
        console.print(Text.assemble((phase.name, "bold"), f" ({phase.cpu_seconds:.1f} s of CPU time)"))
        for part in phase.bound.split("; "):
            console.print(Padding(Text(part), (0, 0, 0, 2), expand=False))
        if phase.controls not in ("", "none needed"):
            console.print(Padding(Text(f"positive controls: {phase.controls}"), (0, 0, 0, 2), expand=False))
        if phase.fields:
            console.print(_damage_grid(phase))
    console.print()


def _damage_grid(phase: Phase) -> Grid:
    """Return a row for each field; partitions of one table are added up, because their fields are the same."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for file, by_field in phase.fields.items():
        for name, found in by_field.items():
            rows.setdefault((file.rpartition("/")[2], name), Counter()).update(found)
    outcomes = [outcome for outcome in Outcome if phase.counts[outcome.value] or outcome in ALWAYS_SHOWN]
    grid = result_grid(
        "first damaged byte", *(f">{outcome.value}" for outcome in outcomes), wraps=["first damaged byte"]
    )
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
