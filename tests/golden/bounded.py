"""The command line in this process, with bounds of exploring that are smaller than those of any effort."""

from __future__ import annotations

import pytest
from command_line import Run
from typer.testing import CliRunner

from harness.effort import Bounds
from tornproof.cli import app


def bounded_run(bounds: Bounds, *arguments: object) -> Run:
    """Run the command line as if every effort had these bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bounds, "of", lambda effort: bounds)
        result = CliRunner().invoke(app, list(map(str, arguments)), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return Run(code=result.return_value, out=result.stdout, err=result.stderr)
