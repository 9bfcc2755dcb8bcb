"""`tornproof record -- COMMAND`: run a program of any language, and write what it did to its files as a trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tornproof import __version__
from tornproof.cli.console import result_console
from tornproof.cli.numbers import within
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, replacing, write_json
from tornproof.cli.progress import progress_bar
from tornproof.harness.recording.recorder import Recording, counts_of
from tornproof.harness.recording.recorder import record as record_program
from tornproof.harness.recording.trace_file import write_trace
from tornproof.impl.errors import UsageError

DESCRIPTOR_MAX = 9
"""A shell opens the descriptor, and knows only one digit."""


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The program and its arguments.")],
    directory: Annotated[
        Path, typer.Option("--dir", help="Directory of the program's data; only what is below it is recorded.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="TRACE", help="File that the trace is written to.")],
    ack: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Lines of the program's standard output that match are acknowledgements."),
    ] = None,
    ack_fd: Annotated[
        int | None,
        typer.Option(
            callback=within(3, DESCRIPTOR_MAX), help="Each line that the program writes there is an acknowledgement."
        ),
    ] = None,
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Also record who made each call; this takes longer.")
    ] = False,
    json_target: JsonOption = None,
) -> int:
    """Run a program, and record what it does to the files below a directory: Linux, by strace, as any user."""
    check_outputs(out, json_target)
    recording = Recording(
        command=tuple(command),
        directory=directory,
        acknowledges=None if ack is None else _pattern(ack),
        descriptor=ack_fd,
        with_stacks=stacks,
        prints_as_errors=json_target == "-",
        version=__version__,
    )
    with progress_bar() as progress:
        task = progress.add_task("calls", total=None)
        trace = record_program(recording, on_call=lambda count: progress.update(task, completed=count))
    with replacing(out) as partial:
        write_trace(trace, partial)
    counts = counts_of(trace)
    document = {"format": 1, "trace": str(out), "exit_code": trace.end.exit_code, "notes": list(trace.end.notes)}
    write_json({**document, **counts}, json_target)
    console = result_console(json_target)
    console.print(
        f"{out}: {counts['calls']:,} calls, {counts['bytes']:,} bytes written, {counts['syncs']:,} syncs, "
        f"{counts['acknowledgements']:,} acknowledgements",
        soft_wrap=True,
    )
    for note in trace.end.notes:
        console.print(f"note: {note}")
    if trace.end.exit_code:
        console.print(f"the program ended with exit code {trace.end.exit_code}")
    return ExitCode.INVALID if trace.end.exit_code else ExitCode.VALID


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        raise UsageError(f"--ack {text!r}: {error}") from error
