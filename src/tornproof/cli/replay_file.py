"""Finding files of the pytest plugin: those of `check`, with the test and exploration that they come from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from tornproof.cli.findings import ROOT, finding_document, load_finding, path_to_root, root_of
from tornproof.cli.output import make_folder, replacing, write_json
from tornproof.harness.common.verdict import Finding, Verdict, worst
from tornproof.impl.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A finding to replay: its test, the number of the exploration in it, from 0, and pytest's root directory."""

    file: str
    finding: Finding
    test: str
    number: int
    root: Path


def write_replay(finding: Finding, test: str, number: int, directory: Path, root: Path) -> Path:
    """Write the finding to a file named by a hash of its content; git ignores a directory that is made for it.

    The file names pytest's root directory relative to its own. Raises UsageError if it cannot be written.
    """
    document = finding_document(finding, finding.evidence["target"], {})
    document |= {"test": test, "exploration": number, ROOT: path_to_root(root, directory)}
    digest = zlib.crc32(json.dumps(document, sort_keys=True).encode())
    file = directory / f"{finding.phase}-{digest:08x}.json"
    # In a directory that was there before, git has to ignore what its owner wants.
    if make_folder(directory):
        with replacing(directory / ".gitignore") as partial:
            partial.write_text("*\n", encoding="utf-8")
    write_json(document, str(file))
    return file


def read_replay(path: Path, shown: str) -> Replay:
    """Read such a file; raises UsageError for any other."""
    finding, _, _ = load_finding(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Replay(
            file=shown,
            finding=finding,
            test=str(document["test"]),
            number=int(document["exploration"]),
            root=root_of(path) or path.parent / os.pardir,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{shown}: a finding, but not one of a test") from error


def is_of_test(path: Path) -> bool:
    """Whether a file is a finding of a test; one that cannot be read is none, and loading it says why."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "test" in document


def replay_test(path: Path, replay: Replay) -> tuple[Verdict, str]:
    """Run the test of a finding, and of it only what was found; return the verdict and what pytest said."""
    with tempfile.TemporaryDirectory(prefix="tornproof-replay-") as folder:
        verdicts = Path(folder, "verdicts")
        verdicts.touch()
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--rootdir=."]
        # Each is one word, because pytest looks for its configuration above every word that is a path.
        command += [f"--tornproof-replay={path.resolve()}", f"--tornproof-verdicts={verdicts}", replay.test]
        # A test may print bytes that are no text.
        done = subprocess.run(
            command, cwd=replay.root, capture_output=True, text=True, errors="backslashreplace", check=False
        )
        return replayed_verdict(verdicts, done.returncode), done.stdout + done.stderr


def note_verdict(verdicts: Path, verdict: Verdict) -> None:
    """Add the verdict of a replay to a file; a plugin may run the same test several times."""
    with verdicts.open("a", encoding="utf-8") as file:
        file.write(f"{verdict.name}\n")


def replayed_verdict(verdicts: Path, exit_code: int) -> Verdict:
    """Return the worst verdict in a file, UNKNOWN if nothing was replayed, or if the test failed all the same.

    The exit code alone says nothing: it is 0 for a test that is expected to fail, or skipped.
    """
    verdict = worst(Verdict[name] for name in verdicts.read_text(encoding="utf-8").split())
    return Verdict.UNKNOWN if verdict is Verdict.VALID and exit_code else verdict
