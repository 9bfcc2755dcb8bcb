"""Documents of findings for the tests of their page: small, written by hand, and new ones at each call."""

from typing import Any

SEEN = "CorruptError: 2024-01-01T00.0/data.parquet: column chunk range at byte 860: expected bytes before 784"
DECISION = "writer@commit 0: unmap 2024-01-01T00/_pm #1 -> reader 1"
HOSTILE = "<script>alert('x')</script>"


def lane_row(lane: str, process: str, operation: str, *does: str, **others: Any) -> dict[str, Any]:
    """Return a row of the lanes."""
    row = {"lane": lane, "client": process, "operation": operation, "does": list(does), "ends": [], "disk": ""}
    return {**row, "happens": "", "is_decisive": False, **others}


def finding_document(explanation: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """Return a finding of the simulator: a reader goes on between the store into _pm and that into _txn."""
    return {
        "format": 4,
        "tornproof": "0.1.0",
        "property": "a reader gets an answer",
        "phase": "product",
        "sentence": f"reader 1: a reader gets an answer, but: {SEEN}",
        "table": "a small new table",
        "scenario": "reader-lives-through-a-kill",
        "test_case": {
            "target": {"name": "questdb-9.4.2"},
            "operations": [{"table": {"rows": [{}], "purges": False, "abandons": True}}],
            "first_session": [0],
            "second_session": [],
            "readers": [{"count": 1, "read_count": 2, "style": "fresh"}],
        },
        "log": [],
        "evidence": {
            "explanation": {**explanation_document(), **(explanation or {})},
            "shrunk": {"operations": [2, 1], "decisions": [5, 1], "runs": 48, "is_smallest": True},
        },
        **others,
    }


def explanation_document() -> dict[str, Any]:
    """Return why the reader is refused."""
    commit = "write 2024-01-01T00/data.parquet", "write 2024-01-01T00/_pm"
    read = lane_row("readers", "reader 1", "read 1", "read _txn", happens="switch", is_decisive=True)
    return {
        "client": "reader 1",
        "seen": SEEN,
        "clause": "I8: a reader of a sound table gets an answer",
        "steps": 80,
        "decisions": [DECISION],
        "narrative": [
            "Broken: a reader gets an answer (I8: a reader of a sound table gets an answer).",
            "Let a writer commit 1 operation beside 1 reader.",
            "Then reader 1 goes on while writer stands in 'commit 0' before: unmap 2024-01-01T00/_pm.",
            f"Because writer had done 'store _pm' and not yet 'store _txn'; however, reader 1 then has: {SEEN}",
            "Nearest run that passes: the same, but one step earlier: reader 1 goes on.",
        ],
        "cause": {
            "decision": DECISION,
            "client": "writer",
            "done": "commit 0: store a word 2024-01-01T00/_pm #1",
            "not_yet": "commit 0: store a word _txn #2",
        },
        "lanes": [
            lane_row("writer", "writer", "open"),
            lane_row("writer", "writer", "commit 0", *commit, "store a word 2024-01-01T00/_pm"),
            {**read, "ends": [f"is refused {SEEN}"]},
        ],
        "files": [
            {"file": "_meta", "size_bytes": 64, "ranges": [byte_range(0, 64, "durable", "")], "read": []},
            {
                "file": "2024-01-01T00.0/_pm",
                "size_bytes": 648,
                "ranges": [
                    byte_range(0, 8, "written", "PARQUET_META_FILE_SIZE"),
                    byte_range(8, 388, "durable", "header"),
                    byte_range(388, 648, "written", "orphan block"),
                ],
                "read": [{"start": 0, "end": 8}, {"start": 600, "end": 648}],
            },
        ],
        "neighbour": {
            "decision": DECISION,
            "change": "one step earlier",
            "verdict": "VALID",
            "lanes": [
                lane_row("writer", "writer", "open"),
                lane_row("writer", "writer", "commit 0", *commit),
                {**read, "ends": ["sees version 1"]},
            ],
        },
    }


def byte_range(start: int, end: int, state: str, field: str) -> dict[str, Any]:
    """Return a range of a file."""
    return {"start": start, "end": end, "state": state, "field": field}
