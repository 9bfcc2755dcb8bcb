"""`tornproof campaign --spec FILE --out DIR`: many seeded runs of the simulator, on Spark, and their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tornproof.cli.check_report import STYLES
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.findings import finding_document
from tornproof.cli.interruption import remove_at_end, say_if_interrupted
from tornproof.cli.numbers import within
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, write_document, write_json
from tornproof.cli.progress import Unseen, progress_bar
from tornproof.cli.report_writing import HTML, JUNIT, write_report
from tornproof.cli.spark_options import ConfOption, MasterOption, settings_of
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.seeded import SEEDED
from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign.directory import sums_document
from tornproof.pipeline.campaign.job import FORMAT, claim, run_campaign
from tornproof.pipeline.campaign.results import Detection, Summary
from tornproof.pipeline.campaign.spec import TASKS_MAX, Spec, load_spec
from tornproof.pipeline.campaign.tally import Tally
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS
from tornproof.pipeline.files import Location, local_path, location_of
from tornproof.pipeline.spark.session import spark_session
from tornproof.pipeline.whole_file import PARTIAL

FINDINGS = "findings"
SUMMARY_FILE = "summary.json"
"""The result as `--json` writes it; it is in DIR once the campaign is complete."""


def campaign(
    spec: Annotated[Path, typer.Option("--spec", metavar="FILE", help="TOML file that says what to run.")],
    out: Annotated[
        Location,
        typer.Option(
            "--out",
            parser=location_of,
            metavar="DIR",
            help="Directory for results and findings, also s3:// or hdfs://; an interrupted campaign resumes there.",
        ),
    ],
    master: MasterOption = None,
    conf: ConfOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            callback=within(1, TASKS_MAX),
            metavar="N",
            help="Spread the tasks over N Spark partitions; one per task by default.",
        ),
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Write report.html into DIR at the end.")] = False,
    json_target: JsonOption = None,
) -> int:
    """Run the simulator on scenarios, presets and planted faults: one run per seed, with a verdict and a history."""
    wanted, settings = load_spec(spec), settings_of(conf)
    folder = local_path(out)
    pages = (folder / HTML, folder / JUNIT) if report and folder is not None else ()
    check_outputs(json_target, *pages, folder=folder)
    claim(wanted, out)
    console = result_console(json_target)
    findings = Findings(wanted, out / FINDINGS)
    say_if_interrupted(f"the results so far are in {out}; the same command resumes there")
    for kind in (EVENTS, RESULTS):
        if out.is_local:
            remove_at_end((out / kind).local, f"group=*/.*{PARTIAL}")
    sums: list[Tally] = []
    name = f"tornproof campaign {wanted.name}"
    with spark_session(master, name=name, settings=settings) as spark, progress_bar() as progress:
        task = progress.add_task("runs", total=None)

        def show(detection: Detection) -> None:
            file = findings.save(detection)
            _print_finding(console if isinstance(progress, Unseen) else progress.console, detection, file)

        def report_progress(done: int, total: int, found: int) -> None:
            progress.update(task, description=f"runs, {found} findings", completed=done, total=total)
            say_if_interrupted(
                f"{done:,} of {total:,} runs are in {out}, {found} findings; the same command resumes there"
            )

        summary = run_campaign(
            spark,
            wanted,
            out,
            partition_count=partitions,
            on_detection=show,
            on_progress=report_progress,
            on_sums=sums.append,
        )
    saved = [(detection, findings.save(detection)) for detection in summary.detections]
    document = _document(wanted, out, summary, saved)
    written = None
    try:
        write_document(document, out / SUMMARY_FILE)
        if report:
            written = write_report(out, sums=lambda _: sums_document(sums[0]))
        write_json(document, json_target)
    finally:
        _print(console, wanted, summary)
    if written is not None:
        written.print(console)
    return ExitCode[summary.verdict.name]


class Findings:
    """A file for the finding of each signature, at the end that of the first run with this signature."""

    def __init__(self, spec: Spec, directory: Location) -> None:
        """Write to a directory."""
        self._spec = spec
        self._directory = directory

    def save(self, detection: Detection) -> Location:
        """Write the finding of a run, unless its file exists already; raises UsageError, StorageError."""
        file = self._directory / f"campaign-{detection.signature.digest()}.json"
        if not _is_of(file, detection):
            write_document(finding_document(detection.finding(), f"campaign {self._spec.name}", {}), file)
        return file


def _is_of(file: Location, detection: Detection) -> bool:
    try:
        run = json.loads(file.read_bytes())["evidence"][SEEDED]
        return bool(run["seed"] == detection.seed and run["scenario"]["name"] == detection.task.cell.scenario.name)
    except (StorageError, ValueError, KeyError, TypeError):
        # A file that cannot be read is written again.
        return False


def _print_finding(console: Console, detection: Detection, file: Location) -> None:
    console.print(Text.assemble(("finding ", "bold red"), detection.sentence))
    console.print(f"  in {detection.where}", soft_wrap=True)
    console.print(f"  replay: tornproof replay {shell_word(str(file))}", soft_wrap=True)


def _document(spec: Spec, out: Location, summary: Summary, saved: list[tuple[Detection, Location]]) -> dict[str, Any]:
    """Return the JSON form of a campaign."""
    return {
        "format": FORMAT,
        "campaign": spec.name,
        "seed": spec.seed,
        "directory": str(out),
        "verdict": summary.verdict.name,
        "result_hash": summary.result_hash,
        "runs": summary.run_count,
        "tasks": summary.task_count,
        "test_cases": summary.case_count,
        "steps": summary.step_count,
        "events": summary.event_count,
        "groups": {name: dict(counts) for name, counts in summary.group_counts.items()},
        "injected_faults": dict(summary.injected_faults),
        "reached": dict(summary.reached),
        "coverage": [
            {"step": step, "injected_fault": injected_fault, "runs": runs}
            for (step, injected_fault), runs in summary.coverage.items()
        ],
        "controls": dict(summary.controls),
        "notes": list(summary.notes),
        "findings": [
            {
                "file": str(file),
                "property": detection.signature.property,
                "phase": "campaign",
                "sentence": detection.sentence,
                "group": detection.task.group,
                "scenario": detection.task.cell.scenario.name,
                "preset": detection.task.cell.preset,
                "fault": detection.task.cell.fault,
                "seed": detection.seed,
            }
            for detection, file in saved
        ],
    }


def _print(console: Console, spec: Spec, summary: Summary) -> None:
    grid = result_grid("group", *(f">{verdict.name}" for verdict in Verdict), wraps=["group"])
    for name, counts in summary.group_counts.items():
        grid.add_row(name, *(f"{counts.get(verdict.name, 0):,}" for verdict in Verdict))
    console.print(grid)
    injected_faults = ", ".join(f"{name} {count:,}" for name, count in summary.injected_faults.items())
    console.print(f"injected faults: {injected_faults}")
    failed = [name for name, came in summary.controls.items() if came != "passed"]
    passed = len(summary.controls) - len(failed)
    console.print(f"positive controls: {passed} of {len(summary.controls)} detected")
    for note in summary.notes:
        console.print(note)
    console.print(
        f"{summary.run_count:,} runs of {summary.case_count:,} test cases in {summary.task_count:,} tasks, "
        f"{summary.step_count:,} steps, {summary.event_count:,} events, {len(summary.detections):,} findings; "
        f"result hash {summary.result_hash}",
    )
    console.print(Text.assemble(f"{spec.name}: ", (summary.verdict.name, STYLES[summary.verdict])))
