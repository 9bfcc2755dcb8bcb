"""The command line: one module a command below `tornproof.commands`."""

from __future__ import annotations

import os
import sys
import traceback

import typer
from typer.exceptions import TyperException

from impl.errors import TornproofError
from tornproof.commands.check import check
from tornproof.commands.inspect import inspect
from tornproof.commands.read import read
from tornproof.commands.replay import replay
from tornproof.commands.verify import verify
from tornproof.output import ExitCode, complain, exit_code_of

app = typer.Typer(
    name="tornproof",
    help="Finds out whether a commit of QuestDB's partition format can tear, and whether a real table is sound.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (check, verify, inspect, read, replay):
    app.command()(command)


def main() -> None:
    """Run the command line; whatever goes wrong becomes one sentence and an exit code."""
    try:
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else ExitCode.VALID)
    except TornproofError as error:
        complain(str(error))
        sys.exit(exit_code_of(error))
    except TyperException as error:
        complain(f"{error.format_message()} (tornproof --help tells more)")
        sys.exit(ExitCode.USAGE)
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not complain about it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.VALID)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        sys.exit(128 + 2)
    except Exception as error:
        if os.environ.get("TORNPROOF_TRACEBACK"):
            traceback.print_exc()
        complain(f"this is a defect of tornproof, not an answer: {type(error).__name__}: {error}")
        complain("set TORNPROOF_TRACEBACK=1 to see where it happened")
        sys.exit(ExitCode.UNKNOWN)
