"""`tornproof replay FINDING`: see a finding again, from its file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.replay import replay_finding
from harness.verdict import Verdict
from tornproof.findings import load_finding
from tornproof.output import ExitCode, JsonOption, result_console, write_json

ANSWERS = {
    Verdict.INVALID: "INVALID: it happens again",
    Verdict.VALID: "VALID: it does not happen any more",
    Verdict.UNKNOWN: "UNKNOWN: this release cannot replay it",
}


def replay(
    finding: Annotated[Path, typer.Argument(help="A file that check wrote.")], json_target: JsonOption = None
) -> int:
    """Run a finding again from its file: exit 1 if it happens again, 0 if not."""
    found, image, path = load_finding(finding)
    verdict = replay_finding(found, image, path)
    write_json({"format": 1, "finding": str(finding), "verdict": verdict.name, "sentence": found.sentence}, json_target)
    console = result_console(json_target)
    console.print(found.sentence, markup=False)
    console.print(ANSWERS[verdict], markup=False)
    return ExitCode[verdict.name]
