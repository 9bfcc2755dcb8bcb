"""`tornproof history EVENTS…`: check recorded events for snapshot isolation, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tornproof.cli.check_report import STYLES
from tornproof.cli.console import result_console
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, write_json
from tornproof.cli.progress import progress_bar
from tornproof.cli.spark_options import ConfOption, MasterOption, settings_of
from tornproof.harness.checkers.snapshot_isolation import Anomaly
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.files import Location, local_path, location_of
from tornproof.pipeline.history.check import Terms
from tornproof.pipeline.history.job import ONLY, Dataset, Report, check_dataset, open_dataset
from tornproof.pipeline.spark.progress import watched
from tornproof.pipeline.spark.session import spark_session

EXAMPLES_SHOWN = 20
FORMAT = 2
"""Of the JSON: `histories` are the worst ones where there are many."""
SHOWN = ("events", "reads", "refused_reads", "readers", "commits", "acknowledged_commits", "kills", "recoveries")


def history(
    events: Annotated[
        list[Location],
        typer.Argument(
            parser=location_of,
            metavar="EVENTS…",
            help="Parquet files of events, or directories; also s3:// and hdfs://.",
        ),
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Key column of a history; by default all columns that events do not have."
        ),
    ] = None,
    excused: Annotated[
        list[str] | None,
        typer.Option("--excuse", metavar="REASON", help="Allow reads to fail with these details, unless pinned."),
    ] = None,
    power_cut: Annotated[
        bool, typer.Option("--power-cut", help="Allow the loss of versions that were seen but not acknowledged.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Also check with Spark SQL, and compare the results.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    scratch: Annotated[
        Location | None,
        typer.Option(
            "--scratch",
            parser=location_of,
            metavar="DIR",
            help="Directory for sorting events that are out of order; all executors must reach it.",
        ),
    ] = None,
    out: Annotated[
        Location | None,
        typer.Option(
            "--out", parser=location_of, metavar="DIR", help="Write the judgements on all histories as Parquet there."
        ),
    ] = None,
    json_target: JsonOption = None,
) -> int:
    """Check recorded events for snapshot isolation, monotonic reads, real-time visibility and durability."""
    check_outputs(json_target, other_folders=[local_path(out)])
    dataset = open_dataset(events, keys=by)
    terms = Terms(excused=tuple(excused or ()), seen_survives=not power_cut)
    settings = settings_of(conf)
    with progress_bar() as progress, spark_session(master, name="tornproof history", settings=settings) as spark:
        task = progress.add_task(f"checking {dataset.event_count:,} events", total=None)
        report = watched(
            spark,
            lambda: check_dataset(spark, dataset, terms=terms, with_sql=sql, scratch=scratch, out=out),
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    try:
        write_json(report_document(dataset, report), json_target)
    finally:
        print_report(result_console(json_target), report)
    return ExitCode[report.verdict.name]


def report_document(dataset: Dataset, report: Report) -> dict[str, Any]:
    """Return the JSON form of a report (docs/history.md)."""
    return {
        "format": FORMAT,
        "events": [str(path) for path in dataset.paths],
        "keys": list(dataset.keys),
        "verdict": report.verdict.name,
        "counts": report.counts,
        "denominators": {"histories": report.judged.history_count, **report.denominators},
        "verdicts": {verdict.name: report.judged.verdicts[verdict] for verdict in Verdict},
        "sql": None if report.sql is None else asdict(report.sql),
        "histories": [
            {
                "history": name,
                "verdict": judgement.verdict.name,
                "reason": judgement.reason,
                "counts": judgement.counts,
                "denominators": judgement.denominators,
                "anomalies": [
                    {"kind": each.kind, "sentence": each.sentence, "events": list(each.events)}
                    for each in judgement.anomalies
                ],
            }
            for name, judgement in report.judgements.items()
        ],
    }


def print_report(console: Console, report: Report) -> None:
    """Print a report for a person."""
    examples = list(_examples(report))
    for name, anomaly in examples[:EXAMPLES_SHOWN]:
        console.print(Text.assemble(_prefix(name), (anomaly.kind, "bold"), f": {anomaly.sentence}"))
        for event in anomaly.events:
            console.print(Text(f"  {_shown(event)}", style="dim"))
    if len(examples) > EXAMPLES_SHOWN:
        console.print(f"and {len(examples) - EXAMPLES_SHOWN} more examples (--json lists them)")
    unknown = [(name, each.reason) for name, each in report.judgements.items() if each.reason]
    for name, reason in unknown[:EXAMPLES_SHOWN]:
        console.print(Text.assemble(_prefix(name), ("not checked", "bold yellow"), f": {reason}"))
    if report.sql is not None:
        for name, said in list(report.sql.disagreements.items())[:EXAMPLES_SHOWN]:
            console.print(Text.assemble(_prefix(name), ("the checkers disagree", "bold red"), f" on {said}"))
        if report.sql.failure:
            console.print(Text.assemble(("SQL has no answer", "bold yellow"), f": {report.sql.failure}"))
    if report.counts:
        console.print("anomalies: " + ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items()))
    verdicts = report.judged.verdicts
    said = ", ".join(f"{verdicts[verdict]:,} {verdict.name}" for verdict in Verdict if verdicts[verdict])
    agreed = "; SQL agrees on all" if report.sql is not None and report.sql.agrees else ""
    console.print(Text.assemble((report.verdict.name, STYLES[report.verdict]), f": histories: {said}{agreed}"))
    looked_at = ", ".join(f"{report.denominators.get(name, 0):,} {name.replace('_', ' ')}" for name in SHOWN)
    console.print(f"looked at {looked_at}", style="dim")


def _examples(report: Report) -> Iterator[tuple[str, Anomaly]]:
    for name, judgement in report.judgements.items():
        for anomaly in judgement.anomalies:
            yield name, anomaly


def _prefix(name: str) -> str:
    return "" if name == ONLY else f"{name} "


def _shown(event: dict[str, Any]) -> str:
    version = "" if event["version"] is None else f" version {event['version']}"
    digest = "" if event["digest"] is None else f" content {event['digest']}"
    where = f"event {event['sequence']} of {event['process']}"
    return f"{event['time_ns']} ns: {event['client']} {event['kind']}{version}{digest} ({where})"
