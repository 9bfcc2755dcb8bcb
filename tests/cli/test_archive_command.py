"""`tornproof archive` as its users meet it: output, JSON, exit codes, its rejections in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest
import quick_java
from archive_lines import arguments_in, demand_archived, write_lines
from command_line import WarmRunner, cold_run, sentence_of

from tornproof import create


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_lines(tmp_path)


# By day tests/pipeline runs the same on the Java that it has: to start another one takes longest.
@pytest.mark.nightly
def test_a_run_prints_what_became_of_the_lines_and_ends_with_1_for_rejects(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(quick_java.VARIABLE, quick_java.OPTIONS)
    demand_archived(cold_run(*arguments_in(folder), folder=folder), folder)


def test_what_cannot_be_done_is_rejected_in_one_sentence_before_spark_starts(
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
        (["in", "--to", "table", "--master", "nowhere"], "not a Spark master"),
        (["in", "--to", "table", "--rejects", ""], "empty"),
        (["in", "--to", "table", "--rejects", "bad.toml/rejects"], "bad.toml"),
        (["in", "--to", "table", "--rejects", "/proc/rejects"], "/proc"),
        (["in"], "--to"),
    ):
        done = tornproof("archive", *arguments, folder=folder)
        assert done.code == 2, (arguments, done)
        assert words in sentence_of(done), (arguments, done)
    assert not (folder / "table").exists()


def test_a_table_that_a_process_has_open_is_written_to_only_by_force(tornproof: WarmRunner, folder: Path) -> None:
    create(folder / "table", {"ts": "TIMESTAMP"}, timestamp="ts", partition_by="DAY")
    held = "import sys; file = open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", held, str(folder / "table" / "_txn")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "held\n"
        done = tornproof("archive", "in", "--to", "table", folder=folder)
        assert done.code == 2 and f"(process {process.pid}); stop it first" in sentence_of(done)
        # Only what comes next is rejected.
        forced = tornproof("archive", "in", "--to", "table", "--force", "--schema", "none.toml", folder=folder)
        assert forced.code == 2 and "in use by" not in sentence_of(forced)
        process.stdin.close()


def test_a_table_that_is_there_has_the_interval_that_is_asked_for(tornproof: WarmRunner, folder: Path) -> None:
    """A run that was killed after it had created its table could not be repeated with the same --partition-by."""
    create(folder / "table", {"ts": "TIMESTAMP"}, timestamp="ts", partition_by="MONTH")
    for interval, words in (("month", "none.toml"), ("day", "table: is partitioned by MONTH; --partition-by")):
        # What is looked at next is rejected, before Spark starts.
        arguments = ("in", "--to", "table", "--partition-by", interval, "--schema", "none.toml")
        done = tornproof("archive", *arguments, folder=folder)
        assert done.code == 2 and words in sentence_of(done), done
