"""Ways to run `tornproof inspect` in tests: in this process for its document, in another one for its exit code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import TIMEOUT_SECONDS
from typer.testing import CliRunner

from tornproof.cli.commands.inspect import inspect

ROOT = Path(__file__).parents[2]

app = typer.Typer()
app.command()(inspect)


def document_of(*arguments: object) -> Any:
    """The JSON document, whose problems must agree with the exit code; errors are raised."""
    line = [*map(str, arguments), "--json", "-"]
    result = CliRunner().invoke(app, line, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    document = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert result.return_value == (1 if document["problems"] else 0)
    return document


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    line = [sys.executable, "-m", "tornproof", "inspect", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
