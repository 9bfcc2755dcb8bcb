"""The command line: one module a command below `tornproof.cli.commands`."""

from __future__ import annotations

import gc
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tornproof.harness.common.unexpected import unexpected
from tornproof.impl.errors import EMPTY_PATH, TornproofError, UsageError

COMPLETION = "_TORNPROOF_COMPLETE"
SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/")
"""How a path begins that was an address, after `Path` has made one slash of two."""
PATHS_AS_TEXT = frozenset({"table", "to", "path", "file", "out", "rejects", "json_target"})
"""Parameters whose text is a path of this machine; those that may be addresses have a type of their own."""
COMMANDS = {
    "check": "Explore a copy of a table: flipped bits, commits beside readers, kills at every step, failing calls.",
    "verify": "Say whether a table on disk is sound, and what is wrong: file, field, offset, expected, found.",
    "recover": "Remove what a killed writer left, so that every release can continue from the committed version.",
    "migrate": "Create the _pm of every parquet partition that has none, from its committed data.parquet.",
    "inspect": "Show what a file contains: structure, statistics, the purpose of every byte, and what is wrong.",
    "extend": "Write a Parquet file's footer in FlatBuffers, its numbers in ALP, beside the old or alone; or undo it.",
    "read": "Return the rows of the committed version's parquet partitions; native partitions are named and left out.",
    "replay": "Reproduce a finding from its file: exit 1 if it happens again, 0 if not.",
    "record": "Run a program, and record what it does to the files below a directory: Linux, by strace, as any user.",
    "power": "Give every disk that a crash of a recorded program may leave to a command of yours that checks it.",
    "report": "Write report.html and junit.xml from the results in a folder; the exit code is the verdict of the "
    "newest ones.",
    "barriers": "Find out which barriers F1 to F6 a commit needs: all 64 sets, under every model of what a crash may "
    "leave.",
    "campaign": "Run the simulator on scenarios, presets and planted faults: one run per seed, with a verdict and a "
    "history.",
    "faults": "Plant mistakes into copies of tornproof, and see which of them a check finds that is told nothing.",
    "history": "Check recorded events for snapshot isolation, monotonic reads, real-time visibility and durability.",
    "archive": "Add files of telemetry frames to a table of parquet partitions, sorted by time; nothing is added "
    "twice.",
}
"""The first line of each command's help, because importing all commands for `--help` would take long."""


def _convert_no_more_than_needed(parameters: Sequence[Any]) -> None:
    """Keep Typer from converting text options and options that were not given.

    It would import pydantic for that, which takes longer than verifying a small table.
    """
    for parameter in parameters:
        parameter.process_value = partial(_processed, parameter, parameter.process_value)


def _processed(parameter: Any, convert: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    # Typer does not document this; a release without it converts as usual.
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if value == "" and (annotation is Path or parameter.name in PATHS_AS_TEXT):
        # `Path` would make this directory of it.
        raise UsageError(f"{_shown(parameter)}: {EMPTY_PATH}")
    is_text = isinstance(value, str) and annotation is str
    if not is_text and (value is not None or parameter.required or parameter.multiple):
        return convert(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parameters = self.get_params(ctx)
        _convert_no_more_than_needed(parameters)
        rest = super().parse_args(ctx, args)
        for parameter in parameters:
            given = ctx.params.get(parameter.name)
            for path in given if isinstance(given, (list, tuple)) else [given]:
                _reject_address(parameter, path)
        return rest


def _reject_address(parameter: Any, path: object) -> None:
    """Raise UsageError for a path that is an address, before a folder of its scheme's name is made."""
    is_path = isinstance(path, Path) or (isinstance(path, str) and parameter.name in PATHS_AS_TEXT)
    if is_path and (found := SCHEME.match(str(path))):
        hint = "leave out file://" if found[1] == "file" else "copy it, or mount it as a folder"
        raise UsageError(
            f"{_shown(parameter)}: {path}: only paths of this machine's file systems are read and written; {hint}"
        )


def _shown(parameter: Any) -> str:
    name: str = parameter.opts[0]
    return name if name.startswith("-") else name.upper()


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
            # From here on there may be garbage, but none among the modules.
            gc.freeze()
            gc.enable()
        return name, command, rest


def _say_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tornproof {__version__}")
        raise typer.Exit


def _of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle options that need no command."""


app = typer.Typer(
    name="tornproof",
    help="Finds out whether a commit of QuestDB's partition format can tear, and whether a real table is sound.",
    cls=_Commands,
    callback=_of_all,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; every error becomes one sentence and an exit code."""
    interruption.handle(interruption.raise_once)
    if sys.stdout is None:
        # Started with standard output closed: the exit code is still the verdict. What is asked for itself fails.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (open as long as the process)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error does: a name that the terminal cannot encode is no reason to fail.
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
    """Print that the run was interrupted, whatever exception a library turned that into."""
    complain(interruption.sentence())
    interruption.has_said()
    try:
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()
    return interruption.SIGNAL_BASE + (interruption.received() or signal.SIGINT)


def _explained(failure: BaseException) -> int:
    """Print in a sentence what ended a command, and return its exit code."""
    match failure:
        case SystemExit(__context__=BrokenPipeError()):
            # Rich, which prints the help, has abandoned standard output, and ends with the code of damage.
            return interruption.SIGNAL_BASE + signal.SIGPIPE
        case SystemExit():
            raise failure
        case TornproofError():
            complain(str(failure))
            return exit_code_of(failure)
        case TyperException():
            complain(f"{failure.format_message()} (see tornproof --help)")
            return ExitCode.USAGE
        case BrokenPipeError():
            # The reader of the output closed it, and expects no verdict.
            _abandon_stdout()
            return interruption.SIGNAL_BASE + signal.SIGPIPE
        case FileNotFoundError(filename=None) if not _has_working_directory():
            complain("the working directory is not there any more; change to one that is")
            return ExitCode.USAGE
        case OSError():
            # Errors of tables are StorageError, so this one is of the output.
            _abandon_stdout()
            complain(f"{failure.filename or 'standard output'}: cannot write: {failure.strerror or failure}")
            return ExitCode.USAGE
    if os.environ.get("TORNPROOF_TRACEBACK"):
        traceback.print_exception(failure)
    complain(unexpected(failure))
    complain("set TORNPROOF_TRACEBACK=1 to see where it happened")
    return ExitCode.UNKNOWN


def _has_working_directory() -> bool:
    """Return whether the working directory is there; it may have been removed by another process."""
    with suppress(FileNotFoundError):
        return bool(Path.cwd())
    return False


def _run(arguments: list[str]) -> int:
    """Run a command; not by the application's own `main`, which ends with 1 on a broken pipe."""
    command = typer.main.get_command(app)
    if COMPLETION in os.environ:
        # A shell asks for completions.
        command.main(arguments, prog_name="tornproof")
    try:
        with command.make_context("tornproof", arguments) as context:
            code = command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    return code if isinstance(code, int) else ExitCode.VALID


def _abandon_stdout() -> None:
    """Keep Python from flushing at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
