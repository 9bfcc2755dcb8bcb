"""`tornproof archive` as its users meet it: what it prints, its JSON, its exit codes, its refusals in one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import quick_java
from command_line import WarmRunner, cold_run, sentence_of

SOUND = b'{"ts": "2024-01-01T00:00:00Z", "v": 1.5}\n{"ts": "2024-01-02T00:00:00Z", "v": 2}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl.gz").write_bytes(gzip.compress(SOUND))
    (tmp_path / "in" / "b.jsonl").write_bytes(b'{"ts": "2024-01-01T12:00:00Z", "v": "x"}\n' + SOUND)
    return tmp_path


def test_a_run_prints_what_became_of_the_lines_and_ends_with_1_for_rejects(
    tornproof: WarmRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(quick_java.VARIABLE, quick_java.OPTIONS)
    done = cold_run("archive", "in", "--to", "table", "--partition-by", "month", "--json", "told.json", folder=folder)
    assert done.code == 1, done.err
    assert "5 lines read = 4 rows + 1 rejects; 2 files read, 0 skipped" in done.out
    assert "table: version 1, 1 partitions made, 0 added to" in done.out
    assert done.err == ""
    told = json.loads((folder / "told.json").read_text())
    assert told["counts"] == {"sources": 2, "skipped": 0, "lines": 5, "rows": 4, "rejects": 1, "blank": 0}
    assert told["reject_reasons"] == {"value of the wrong type": 1}
    assert told["partitions"] == {"new": ["2024-01"], "grown": []}
    assert told["columns"] == [
        {"name": "ts", "type": "TIMESTAMP", "keys": ["ts"], "designated": True},
        {"name": "v", "type": "DOUBLE", "keys": ["v"], "designated": False},
    ]
    (kept,) = map(json.loads, (folder / told["rejects"]).read_text().splitlines())
    assert (kept["file"], kept["line"]) == (str(folder / "in" / "b.jsonl"), 1)
    read = tornproof("read", "table", "--columns", "v", "--out", "-", folder=folder)
    assert sorted(read.out.split()[1:]) == ["1.5", "1.5", "2", "2"]


def test_what_cannot_be_done_is_refused_in_one_sentence_before_spark_starts(
    tornproof: WarmRunner, folder: Path
) -> None:
    (folder / "bad.toml").write_text('ts = "SYMBOL"')
    (folder / "empty").mkdir()
    for arguments, words in (
        (["none", "--to", "table"], "none: is not there"),
        (["empty", "--to", "table"], "holds no file called"),
        (["in", "--to", "table", "--schema", "bad.toml"], "'SYMBOL' is not one of the types"),
        (["in", "--to", "table", "--codec", "snappy", "--level", "3"], "SNAPPY has no levels"),
        (["in", "--to", "table", "--level", "99"], "the levels of ZSTD are"),
        (["in", "--to", "table", "--row-group-bytes", "0"], "--row-group-bytes"),
        (["in", "--to", "table", "--row-group-bytes", "128000001"], "--row-group-bytes"),
        (["in", "--to", "table", "--sample-lines", "9" * 30], "--sample-lines"),
        (["in", "--to", "table", "--partition-by", "second"], "--partition-by"),
        (["in", "--to", "table", "--master", "nowhere"], "no master of Spark"),
        (["in"], "--to"),
    ):
        done = tornproof("archive", *arguments, folder=folder)
        assert done.code == 2, (arguments, done)
        assert words in sentence_of(done), (arguments, done)
    assert not (folder / "table").exists()
