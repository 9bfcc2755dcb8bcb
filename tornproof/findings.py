"""Findings as files that carry all that is needed to see them again."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.disk.image import DiskImage
from harness.verdict import Finding, Phase
from tornproof import __version__
from tornproof.output import UsageError, write_json

FORMAT = 1
UNPACKED_LIMIT_BYTES = 512 * 1024 * 1024


def save_findings(
    phases: Iterable[Phase], table: str, path: str, image: DiskImage, directory: Path
) -> list[dict[str, str]]:
    """Write each finding to a file of its own and return what `check --json` says of them.

    The name follows from the content, so the same finding of a later run is the same file.
    """
    saved = []
    for phase in phases:
        for finding in phase.findings:
            document = finding_document(finding, table, path, image)
            digest = zlib.crc32(json.dumps(document, sort_keys=True).encode())
            target = directory / f"{phase.name}-{digest:08x}.json"
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"{directory}: cannot be made: {error.strerror}") from error
            write_json(document, str(target))
            saved.append(
                {
                    "file": str(target),
                    "property": finding.property,
                    "phase": finding.phase,
                    "sentence": finding.sentence,
                }
            )
    return saved


def finding_document(finding: Finding, table: str, path: str, image: DiskImage) -> dict[str, Any]:
    """Return the JSON form of a finding, with the files that it starts from."""
    start_files = {
        place.removeprefix(f"{path}/"): base64.b64encode(zlib.compress(content)).decode()
        for place, content in sorted(image.files.items())
    }
    return {
        "format": FORMAT,
        "tornproof": __version__,
        "property": finding.property,
        "phase": finding.phase,
        "sentence": finding.sentence,
        "table": table,
        "evidence": finding.evidence,
        "start_files": start_files,
    }


def load_finding(path: Path) -> tuple[Finding, DiskImage, str]:
    """Read a finding back: what was found, the image that it starts from, and where the table stands in the image.

    Raises UsageError for a file that is no finding of this format.
    """
    root = "/table"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise UsageError(f"{path}: a finding of format {document['format']}; this release reads format {FORMAT}")
        image = DiskImage()
        unpacked_bytes = 0
        for name, packed in document["start_files"].items():
            inflater = zlib.decompressobj()
            content = inflater.decompress(base64.b64decode(packed), UNPACKED_LIMIT_BYTES - unpacked_bytes)
            if inflater.unconsumed_tail:
                raise UsageError(f"{path}: its files hold more than {UNPACKED_LIMIT_BYTES} bytes")
            unpacked_bytes += len(content)
            image = image.with_file(f"{root}/{name}", content)
        finding = Finding(
            property=str(document["property"]),
            phase=str(document["phase"]),
            sentence=str(document["sentence"]),
            evidence=dict(document["evidence"]),
        )
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise UsageError(f"{path}: not a finding: {error}") from error
    return finding, image, root
