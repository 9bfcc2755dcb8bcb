"""Findings as files that contain all that a replay needs."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tornproof import __version__
from tornproof.cli.output import make_folder, write_json
from tornproof.cli.report_writing import FINDINGS_OF_REPORT
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.alike import alike
from tornproof.harness.counterexamples.older_words import FORMAT, OLDER_FORMATS, in_present_words
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import StorageError, UsageError

FINDINGS = "tornproof-findings"
"""The default directory of findings."""
HAPPENS_AGAIN = "it happens again"
ANSWERS = {
    Verdict.INVALID: f"INVALID: {HAPPENS_AGAIN}",
    Verdict.VALID: "VALID: it does not happen any more",
    Verdict.UNKNOWN: "UNKNOWN: this release cannot replay it",
}
"""What is said of a finding that was replayed."""
ROOT = "root"
"""Names in a finding the directory from which it was found, relative to that of its file."""
OF_A_LOG = ("scenario", "test_case", "log")
UNPACKED_LIMIT_BYTES = 512 * 1024 * 1024
FindingsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory for findings, if there are any.",
        show_default=f"{FINDINGS}, with --report its DIR/{FINDINGS_OF_REPORT}",
    ),
]


def findings_directories(asked: Path | None, report: Path | None) -> list[Path]:
    """Return where findings go: into the report, and last where users look: what they asked for, or the default."""
    of_report = [] if report is None else [report / FINDINGS_OF_REPORT]
    return [*of_report, asked] if asked is not None else of_report or [Path(FINDINGS)]


def save_findings(
    phases: Iterable[Phase], table: str, path: str, image: DiskImage, directory: Path, *, root: Path | None = None
) -> list[dict[str, Any]]:
    """Write each finding to its own file and return the entries for `check --json`.

    The file name is a hash of the content, so the same finding of a later run has the same file, whatever its `root`,
    which is where the paths in it lead from.
    """
    saved = []
    packed: dict[str, str] = {}
    for phase in phases:
        for finding in phase.findings:
            document = finding_document(finding, table, _start_files(finding, path, image, packed))
            digest = zlib.crc32(json.dumps(document, sort_keys=True).encode())
            target = directory / f"{phase.name}-{digest:08x}.json"
            make_folder(directory)
            if root is not None:
                document[ROOT] = path_to_root(root, directory)
            write_json(document, str(target))
            saved.append(
                {
                    "file": str(target),
                    "property": finding.property,
                    "phase": finding.phase,
                    "sentence": finding.sentence,
                    "causes": causes_of(finding.evidence),
                }
            )
    return saved


def path_to_root(root: Path, directory: Path) -> str:
    """Return what findings in a directory have as ROOT; above a link to that directory is another one."""
    return os.path.relpath(root, directory.resolve())


def root_of(file: Path) -> Path | None:
    """Return the ROOT of a finding; None if it has none, as those that need none and those of earlier releases."""
    root = json.loads(file.read_text(encoding="utf-8")).get(ROOT)
    return None if root is None else (file.resolve().parent / str(root)).resolve()


def finding_document(finding: Finding, table: str, start_files: dict[str, str]) -> dict[str, Any]:
    """Return the JSON form of a finding, with the files at the start of its run."""
    head: dict[str, Any] = {
        "tornproof": __version__,
        "property": finding.property,
        "phase": finding.phase,
        "sentence": finding.sentence,
        "table": table,
    }
    known = [each._asdict() for each in alike(finding)]
    head |= {"known": known} if known else {}
    if not is_simulated(finding.evidence):
        return {"format": FORMAT, **head, "evidence": finding.evidence, "start_files": start_files}
    of_log = {name: finding.evidence.get(name) for name in OF_A_LOG}
    rest = {name: value for name, value in finding.evidence.items() if name not in OF_A_LOG}
    return {"format": FORMAT, **head, **of_log, "evidence": rest}


def _start_files(finding: Finding, path: str, image: DiskImage, packed: dict[str, str]) -> dict[str, str]:
    """Return the packed files that a replay needs: those of the whole table, or for a roundtrip those of a partition.

    None where a test case holds its own. `packed` caches what other findings of the run have packed.
    """
    if "test_case" in finding.evidence:
        return {}
    directory, separator, _ = str(finding.evidence.get("file", "")).partition("/")
    only = f"{path}/{directory}/" if finding.phase == "roundtrip" and separator else f"{path}/"
    for file, content in sorted(image.files.items()):
        if file.startswith(only) and file not in packed:
            packed[file] = base64.b64encode(zlib.compress(content)).decode()
    return {file.removeprefix(f"{path}/"): text for file, text in packed.items() if file.startswith(only)}


def _of_log(document: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a simulated finding, which has no files of the start."""
    return {} if "start_files" in document else {name: document[name] for name in OF_A_LOG}


def load_finding(path: Path) -> tuple[Finding, DiskImage, str]:
    """Return a finding, the image at the start of its run, and the table's path in that image.

    Raises UsageError for a file that is not a finding of a known format.
    """
    root = "/table"
    try:
        document = in_present_words(json.loads(path.read_text(encoding="utf-8")))
        version = document["format"]
        if version != FORMAT:
            older = ", ".join(map(str, OLDER_FORMATS))
            raise UsageError(f"{path}: a finding of format {version}; this release reads {older} and {FORMAT}")
        files: dict[str, bytes] = {}
        room_bytes = UNPACKED_LIMIT_BYTES
        for name, text in document.get("start_files", {}).items():
            inflater = zlib.decompressobj()
            files[name] = inflater.decompress(base64.b64decode(text), room_bytes)
            room_bytes -= len(files[name])
            if inflater.unconsumed_tail or room_bytes <= 0:
                raise UsageError(f"{path}: its files hold more than {UNPACKED_LIMIT_BYTES} bytes")
        image = DiskImage.of_files({f"{root}/{name}": content for name, content in files.items()})
        finding = Finding(
            property=str(document["property"]),
            phase=str(document["phase"]),
            sentence=str(document["sentence"]),
            evidence=dict(document["evidence"]) | _of_log(document),
        )
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StorageError, zlib.error) as error:
        raise UsageError(f"{path}: not a finding: {type(error).__name__}: {error}") from error
    return finding, image, root
