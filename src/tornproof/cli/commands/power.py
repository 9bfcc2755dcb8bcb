"""`tornproof power TRACE`: give every disk that a crash of a recorded program may leave to a checker."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tornproof.cli.check_report import STYLES, Asked, check_document
from tornproof.cli.console import result_console
from tornproof.cli.effort_option import METAVAR, parse_effort
from tornproof.cli.findings import ANSWERS, FindingsOption, findings_directories, save_findings
from tornproof.cli.numbers import CORES, seconds_within, workers_within
from tornproof.cli.output import ExitCode, JsonOption, visible, write_json
from tornproof.cli.progress import progress_bar
from tornproof.cli.report_writing import ReportOption, add_run, prepare_outputs
from tornproof.cli.spark_options import ConfOption, MasterOption, settings_of
from tornproof.harness.common.effort import DEFAULT, Bounds
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.common.verdict import Finding, Phase
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import (
    ALL_MODELS,
    COUNTED_MAX,
    PHASE,
    STATES_OF_AN_EFFORT,
    RecordedQuestion,
    check_one,
    explore_recorded,
)
from tornproof.harness.parallel.tasks import Outcome, explore
from tornproof.harness.recording.steps import Trace
from tornproof.harness.recording.trace_file import digest_of, read_content, trace_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import UsageError

CHECK_SECONDS = 10.0
RECORDED = "recorded program"
"""What stands for the preset where a recorded program is checked."""


def power(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A file that `tornproof record` wrote.")],
    check: Annotated[
        str,
        typer.Option(
            metavar="'COMMAND {dir} {acks}'",
            help="Accepts a directory with exit code 0; {acks} is a file with the acknowledgements before the crash.",
        ),
    ],
    models: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Models of what a crash leaves (docs/guarantees.md); all but D."),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            parser=parse_effort,
            metavar=METAVAR,
            help=f"How many states are checked at most: {STATES_OF_AN_EFFORT} times the effort.",
        ),
    ] = DEFAULT,  # type: ignore[assignment]  # the parser turns it into a number
    check_seconds: Annotated[
        float, typer.Option(callback=seconds_within(), help="A check that takes longer is a finding.")
    ] = CHECK_SECONDS,
    seconds: Annotated[
        float | None,
        typer.Option(callback=seconds_within(), help="Time limit; what it cuts off is missing from the bound."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(callback=workers_within(), help="Number of worker processes.", show_default=str(CORES)),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    only_state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Check this one state: exit 1 if it is rejected again.")
    ] = None,
    findings: FindingsOption = None,
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Give every disk that a crash of a recorded program may leave to a command of yours that checks it."""
    if master is not None and (workers is not None or seconds is not None):
        raise UsageError("--workers and --seconds are for this machine, and --master is for Spark")
    if master is None and conf:
        raise UsageError("--conf is for Spark, and needs --master")
    if not check.strip():
        raise UsageError("--check: the command is empty, as of a variable that is not set; it would accept all states")
    settings = settings_of(conf)
    folders = findings_directories(findings, report)
    prepare_outputs(report, json_target, findings=folders[-1])
    checker, names = Checker(command=check, seconds=check_seconds), _models(models)
    recorded, digest = _read(trace)
    question = RecordedQuestion(
        trace=recorded,
        checker=checker,
        models=names,
        states_max=STATES_OF_AN_EFFORT * effort,
    )
    if only_state is not None:
        return _one_state(question, only_state, json_target)
    asked = Asked(target=str(trace), path=os.path.realpath(trace), preset=RECORDED, seed=0, effort=effort)
    root = Path.cwd()
    if master is None:
        outcome = _explored_here(question, workers or CORES, seconds)
    else:
        outcome = Outcome(phases=[_explored_on_spark(question, master, settings)])
    phase = _with_lines(outcome.phases[0], trace, digest, checker)
    outcome.phases = [phase]
    console, saved = result_console(json_target), []
    try:
        for folder in folders:
            saved = save_findings([phase], str(trace), "", DiskImage(), folder, root=root)
        document = check_document(asked, Bounds.of(effort), outcome, saved, workers or CORES)
        document["bounds"] = {"states": question.states_max}
        written = add_run(document, report)
        write_json(document, json_target)
    finally:
        _print(console, phase, saved)
    if written is not None:
        written.print(console)
    if outcome.interrupted_by is not None:
        signal.raise_signal(outcome.interrupted_by)
    return ExitCode[phase.verdict.name]


def _read(file: Path) -> tuple[Trace, str]:
    """Return a trace and its digest, of the same bytes: the file may be replaced or removed before the end."""
    content = read_content(file)
    return trace_of(content, file), digest_of(content)


def _explored_here(question: RecordedQuestion, workers: int, seconds: float | None) -> Outcome:
    with progress_bar() as progress:
        task = progress.add_task("states", total=None)
        return explore(
            {PHASE: explore_recorded(question)},
            question,
            workers=workers,
            seconds=seconds,
            on_progress=lambda done: progress.update(task, completed=done.cases),
        )


def _explored_on_spark(question: RecordedQuestion, master: str, settings: dict[str, str]) -> Phase:
    from tornproof.pipeline.exploration import explore_on_spark
    from tornproof.pipeline.spark.session import spark_session

    with spark_session(master, name="tornproof power", settings=settings) as spark, progress_bar() as progress:
        task = progress.add_task("tasks", total=None)
        return explore_on_spark(
            spark,
            explore_recorded(question),
            question,
            lambda done, total: progress.update(task, completed=done, total=total),
        )


def _models(text: str | None) -> tuple[str, ...]:
    known = [model.name for model in ALL_MODELS]
    names = known if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--models {unknown[0]!r}: there are {', '.join(known)}")
    return tuple(dict.fromkeys(names))


def _one_state(question: RecordedQuestion, name: str, json_target: str | None) -> int:
    checked = check_one(question, name)
    answer = checked.answer
    write_json({"format": 1, "state": name, "accepted": answer.accepts, "checker": answer._asdict()}, json_target)
    console = result_console(json_target)
    for sentence in filter(None, (*checked.sentences, checked.doubt)):
        console.print(sentence, soft_wrap=True)
    console.print(ANSWERS[checked.verdict])
    return ExitCode[checked.verdict.name]


def _count(count: int) -> str:
    return f"{count:,}" if count < COUNTED_MAX else "over 10^18"


def _with_lines(phase: Phase, trace: Path, digest: str, checker: Checker) -> Phase:
    """Return the phase whose findings have the line that repeats them, and what `replay` needs of it."""
    command = f"tornproof power {shell_word(str(trace))} --check {shell_word(checker.command)}"
    if checker.seconds != CHECK_SECONDS:
        command += f" --check-seconds {checker.seconds}"
    given = {
        "trace": str(trace),
        "trace_digest": digest,
        "check": checker.command,
        "check_seconds": checker.seconds,
    }

    def with_line(finding: Finding) -> Finding:
        line = f"{command} --only-state {shell_word(finding.evidence['state'])}"
        return replace(finding, evidence=finding.evidence | given | {"replay": line})

    return replace(phase, findings=tuple(map(with_line, phase.findings)))


def _print(console: Console, phase: Phase, saved: list[dict[str, Any]]) -> None:
    """Print the verdict, what was covered, and each finding with the line that repeats it."""
    console.print(Text(f"{phase.verdict.name}: {phase.explored:,} states checked", STYLES[phase.verdict]))
    console.print(f"bound: {phase.bound}", soft_wrap=True)
    if phase.counts:
        console.print(", ".join(f"{_count(count)} {name}" for name, count in phase.counts.items()))
    console.print(f"controls: {phase.controls}")
    if phase.note:
        console.print(f"note: {visible(phase.note)}", soft_wrap=True)
    for finding, entry in zip_longest(phase.findings, saved):
        console.print(Text.assemble(("finding ", "bold red"), f"({finding.evidence['states']:,} states)"))
        for sentence in finding.evidence["sentences"]:
            console.print(f"  {sentence}", soft_wrap=True)
        console.print(f"  {finding.evidence['replay']}", soft_wrap=True)
        if entry is not None:
            console.print(f"  in {entry['file']}", soft_wrap=True)
