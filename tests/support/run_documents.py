"""Documents as `check --json` and `verify --json` write them, small ones, and folders that hold them."""

import json
from pathlib import Path
from typing import Any

from finding_documents import finding_document

HOSTILE = "<script>alert('x')</script>\x1b[31m\u202e\ud800"


def phase_document(name: str = "schedules", verdict: str = "VALID", **others: Any) -> dict[str, Any]:
    """Return a phase that was explored to its end."""
    return {
        "name": name,
        "explored": 1200,
        "complete": True,
        "bound": "2 commits x 1 reader",
        "verdict": verdict,
        "seconds": 4.0,
        "counts": {"reduced schedules": 31},
        "exposures": {},
        "reached": {"a reader saw the last version": 351},
        "controls": "passed",
        "note": "",
        "fields": {},
        "test_cases": {},
        **others,
    }


def listed(stem: str, **others: Any) -> dict[str, str]:
    """Return a finding as a run lists it."""
    document = finding_document(**others)
    return {
        "file": f"findings/{stem}.json",
        "property": document["property"],
        "phase": document["phase"],
        "sentence": document["sentence"],
    }


def run_document(*phases: dict[str, Any], findings: tuple[dict[str, str], ...] = (), **others: Any) -> dict[str, Any]:
    """Return a run, whose verdict is the worst of its phases."""
    verdicts = [phase["verdict"] for phase in phases]
    return {
        "format": 2,
        "target": "a small new table",
        "preset": "hardened",
        "seed": 0,
        "verdict": next((each for each in ("INVALID", "UNKNOWN", "VALID") if each in verdicts), "UNKNOWN"),
        "phases": list(phases),
        "findings": list(findings),
        **others,
    }


def invalid_run(*stems: str, **others: Any) -> dict[str, Any]:
    """Return a run with these findings of one defect, which differ in numbers alone."""
    findings = tuple(listed(stem, sentence=f"reader 1: found at byte {at}") for at, stem in enumerate(stems))
    return run_document(phase_document("product", "INVALID"), findings=findings, **others)


def verify_document(**others: Any) -> dict[str, Any]:
    """Return what `verify` says of a sound table with a parquet partition and a native one."""
    counts = (
        "partitions",
        "generations",
        "thrift_footers",
        "row_groups",
        "chunks",
        "decoded_chunks",
        "pages_bytes",
        "rows",
    )
    partition = {"rows": 23, "token": 900, "generations": 4, "orphans": 0, "unused_bytes": 5, "dead_bytes": 0}
    return {
        "format": 1,
        "table": "data/trades",
        "version": 5,
        "sound": True,
        "problems": [],
        "unreferenced": [],
        "notes": [],
        "counts": dict.fromkeys(counts, 1),
        "partitions": [
            {"name": "2024-01-01.1", "format": "parquet", **partition, "problems": []},
            {"name": "2024-01-02", "format": "native", **dict.fromkeys(partition, 0), "problems": []},
        ],
        "as": None,
        **others,
    }


def damaged_verify_document() -> dict[str, Any]:
    """Return what `verify` says of a table with a damaged partition."""
    document = verify_document(sound=False)
    problem = {"file": "2024-01-01.1/_pm", "field": "CHECKSUM", "offset_bytes": 120, "expected": "0x1", "actual": "0x2"}
    document["partitions"][0]["problems"] = [problem]
    return document


def write(path: Path, document: Any) -> Path:
    """Write a document to a file, with the folders that it takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def write_run(folder: Path, number: int, document: dict[str, Any]) -> Path:
    """Put a run into a folder, with the findings that it lists."""
    for finding in document["findings"]:
        named = {name: finding[name] for name in ("property", "phase", "sentence")}
        write(folder / finding["file"], finding_document(**named))
    return write(folder / "runs" / f"run-{number:04}.json", document)
