"""Finding files of the pytest plugin: those of `check`, with the test and exploration that they come from."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from tornproof.cli.findings import finding_document, load_finding
from tornproof.cli.output import write_json
from tornproof.harness.common.verdict import Finding
from tornproof.impl.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A finding to replay: its test, and the number of the exploration in that test, from 0."""

    file: str
    finding: Finding
    test: str
    number: int


def write_replay(finding: Finding, test: str, number: int, directory: Path) -> Path:
    """Write the finding to a file named by a hash of its content, in a directory that git ignores.

    Raises UsageError if that fails.
    """
    document = {**finding_document(finding, finding.evidence["target"], {}), "test": test, "exploration": number}
    digest = zlib.crc32(json.dumps(document, sort_keys=True).encode())
    file = directory / f"{finding.phase}-{digest:08x}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{directory}: cannot be made: {error.strerror}") from error
    write_json(document, str(file))
    return file


def read_replay(path: Path, shown: str) -> Replay:
    """Read such a file; raises UsageError for any other."""
    finding, _, _ = load_finding(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Replay(file=shown, finding=finding, test=str(document["test"]), number=int(document["exploration"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{shown}: a finding, but not one of a test") from error
