"""The command line: one module a command below `tornproof.cli.commands`."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from tornproof import __version__
from tornproof.cli import interruption
from tornproof.cli.output import ExitCode, complain, exit_code_of
from tornproof.impl.errors import TornproofError

COMPLETION = "_TORNPROOF_COMPLETE"
COMMANDS = {
    "check": "Explore a table from a copy: flipped bits, commits beside readers, kills at every step, failing calls.",
    "verify": "Say whether a table on disk is sound, and name what is wrong: file, field, offset, expected, found.",
    "recover": "Cut off what a killed writer left, so that every release can go on from the committed version.",
    "migrate": "Give every parquet partition that has no _pm its own, made from data.parquet as it is committed.",
    "inspect": "Show what stands in a file: structure, statistics, what every byte is for, and what is wrong.",
    "read": "Return the rows of the committed version's parquet partitions; native partitions are named and left out.",
    "replay": "Run a finding again from its file: exit 1 if it happens again, 0 if not.",
    "report": "Make report.html and junit.xml of the results in a folder; the exit code is the verdict of the "
    "newest ones.",
    "barriers": "Find out which barriers F1 to F6 a commit needs: all 64 sets, under every model of what a crash may "
    "leave.",
    "campaign": "Run the simulator by seed on scenarios, presets and planted faults; each run has a verdict and a "
    "history.",
    "history": "Judge recorded events for snapshot isolation, monotonic reads, real-time visibility and durability.",
    "archive": "Add files of telemetry frames to a table of parquet partitions, sorted by time; nothing is added "
    "twice.",
}
"""What each command says of itself first, for those who ask what there is: some take long to import."""


def _convert_no_more_than_needed(parameters: Sequence[Any]) -> None:
    """Take text for text, and what is left out for left out.

    Typer asks pydantic about these too, which takes longer to import than a small table to verify.
    """
    for parameter in parameters:
        parameter.process_value = partial(_processed, parameter, parameter.process_value)


def _processed(parameter: Any, convert: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    is_text = isinstance(value, str) and parameter.type_descriptor.annotation is str
    if not is_text and (value is not None or parameter.required or parameter.multiple):
        return convert(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _convert_no_more_than_needed(self.get_params(ctx))
        return super().parse_args(ctx, args)


class _Commands(TyperGroup):
    """Each command is a module of its name, imported when it is run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=sentence) for name, sentence in COMMANDS.items()}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _convert_no_more_than_needed(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and name in COMMANDS:
            own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            own.command(name, cls=_Command)(getattr(import_module(f"tornproof.cli.commands.{name}"), name))
            command = typer.main.get_command(own)
        return name, command, rest


def _say_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tornproof {__version__}")
        raise typer.Exit


def _of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which release this is.")
    ] = False,
) -> None:
    """Take what can be asked without a command."""


app = typer.Typer(
    name="tornproof",
    help="Finds out whether a commit of QuestDB's partition format can tear, and whether a real table is sound.",
    cls=_Commands,
    callback=_of_all,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; whatever goes wrong becomes one sentence and an exit code."""
    interruption.handle(interruption.raise_once)
    if sys.stdout is None:
        # Started with standard output closed: there is nobody to write to, and the exit code still says it all.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it lives as long as the process)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error has it: a name that the terminal's encoding lacks is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    code: int = ExitCode.VALID
    failure: BaseException | None = None
    try:
        code = _run(sys.argv[1:] or ["--help"])
        sys.stdout.flush()
    except BaseException as error:
        failure = error
    interruption.handle(interruption.ignore)
    if interruption.received() or isinstance(failure, (KeyboardInterrupt, typer.Abort)):
        code = _interrupted()
    elif failure is not None:
        code = _explained(failure)
    sys.exit(code)


def _interrupted() -> int:
    """Say that somebody interrupted the run, whatever exception a library made of that."""
    complain(interruption.sentence())
    interruption.has_said()
    try:
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()
    return interruption.SIGNAL_BASE + (interruption.received() or signal.SIGINT)


def _explained(failure: BaseException) -> int:
    """Say in a sentence what ended a command, and return its exit code."""
    match failure:
        case SystemExit():
            raise failure
        case TornproofError():
            complain(str(failure))
            return exit_code_of(failure)
        case TyperException():
            complain(f"{failure.format_message()} (tornproof --help tells more)")
            return ExitCode.USAGE
        case BrokenPipeError():
            # Whoever read the output has seen enough, and asked for no verdict.
            _abandon_stdout()
            return interruption.SIGNAL_BASE + signal.SIGPIPE
        case OSError():
            # The storage wraps what happens to tables, so this happened to the output.
            _abandon_stdout()
            complain(f"{failure.filename or 'standard output'}: cannot write: {failure.strerror or failure}")
            return ExitCode.USAGE
    if os.environ.get("TORNPROOF_TRACEBACK"):
        traceback.print_exception(failure)
    complain(f"this is a defect of tornproof, not an answer: {type(failure).__name__}: {failure}")
    complain("set TORNPROOF_TRACEBACK=1 to see where it happened")
    return ExitCode.UNKNOWN


def _run(arguments: list[str]) -> int:
    """Run a command; not by the application's own `main`, which takes a broken pipe for exit code 1."""
    command = typer.main.get_command(app)
    if COMPLETION in os.environ:
        # A shell asks what may follow.
        command.main(arguments, prog_name="tornproof")
    try:
        with command.make_context("tornproof", arguments) as context:
            code = command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    return code if isinstance(code, int) else ExitCode.VALID


def _abandon_stdout() -> None:
    """Keep Python from flushing at exit what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
