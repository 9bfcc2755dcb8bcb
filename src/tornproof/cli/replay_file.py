"""A finding of somebody's test as a file: what `check` writes of a finding, and the exploration that it is from."""

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
    """A finding to be seen again: in which test, and by its how-manieth exploration (from 0)."""

    file: str
    finding: Finding
    test: str
    number: int


def write_replay(finding: Finding, test: str, number: int, directory: Path) -> Path:
    """Write the finding to a file whose name follows from its content; git is told to leave the folder alone.

    Raises UsageError where that cannot be written.
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
    """Read it back; raises UsageError for any other file."""
    finding, _, _ = load_finding(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Replay(file=shown, finding=finding, test=str(document["test"]), number=int(document["exploration"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{shown}: a finding, but not one of a test") from error
