"""A folder of lines for `tornproof archive`, and what a run over it must say."""

import gzip
import json
from pathlib import Path

from command_line import Run
from real_tables import rows_of, snapshot_of

SOUND = b'{"ts": "2024-01-01T00:00:00Z", "v": 1.5}\n{"ts": "2024-01-02T00:00:00Z", "v": 2}\n'


def write_lines(folder: Path) -> Path:
    """Write lines into two files in `in`, one of which is a reject."""
    (folder / "in").mkdir()
    (folder / "in" / "a.jsonl.gz").write_bytes(gzip.compress(SOUND))
    (folder / "in" / "b.jsonl").write_bytes(b'{"ts": "2024-01-01T12:00:00Z", "v": "x"}\n' + SOUND)
    return folder


def arguments_in(folder: Path) -> list[str]:
    """Return how to archive them."""
    source, table, reported = (str(folder / name) for name in ("in", "table", "told.json"))
    return ["archive", source, "--to", table, "--partition-by", "month", "--json", reported]


def demand_archived(done: Run, folder: Path) -> None:
    """The run said what became of the lines, and the table has their rows."""
    assert done.code == 1, done.err
    assert "5 lines read = 4 rows + 1 rejects; 2 files read, 0 skipped" in done.out
    assert "table: version 1, 1 partitions made, 0 added to" in done.out
    assert done.err == ""
    reported = json.loads((folder / "told.json").read_text())
    assert reported["counts"] == {"sources": 2, "skipped": 0, "lines": 5, "rows": 4, "rejects": 1, "blank": 0}
    assert reported["reject_reasons"] == {"value of the wrong type": 1}
    assert reported["partitions"] == {"new": ["2024-01"], "grown": []}
    assert reported["columns"] == [
        {"name": "ts", "type": "TIMESTAMP", "keys": ["ts"], "designated": True},
        {"name": "v", "type": "DOUBLE", "keys": ["v"], "designated": False},
    ]
    (kept,) = map(json.loads, Path(reported["rejects"]).read_text().splitlines())
    assert (kept["file"], kept["line"]) == (str(folder / "in" / "b.jsonl"), 1)
    assert sorted(rows_of(snapshot_of(folder / "table"))["v"].to_pylist()) == [1.5, 1.5, 2, 2]
