"""`tornproof history`: verdicts as exit codes, anomalies in words, and one sentence where there is nothing to judge."""

import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_cases import EXCUSED, correct_history, incomplete_history, planted_history
from pyspark.sql import SparkSession
from rich.console import Console

from tornproof.cli.commands.history import history, print_report, report_document
from tornproof.cli.output import ExitCode
from tornproof.harness.checkers.snapshot_isolation import judge, unknown
from tornproof.harness.common.history import Event, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.files import location_of
from tornproof.pipeline.history.events import UnreadableEventsError
from tornproof.pipeline.history.groups import Judged
from tornproof.pipeline.history.job import ONLY, Comparison, Report, difference, open_dataset
from tornproof.pipeline.history.sql import Answer


def write(events: list[Event], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(to_arrow(events), file)
    return path


def test_histories_told_apart_by_directories_get_verdicts_of_their_own(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = next(events for seed in range(9) if (events := planted_history("torn_content", seed)))
    write(correct_history(1), tmp_path / "events" / "fault=none" / "a.parquet")
    write(bad, tmp_path / "events" / "fault=torn" / "a.parquet")
    write(incomplete_history(2), tmp_path / "events" / "fault=lost" / "a.parquet")
    target = tmp_path / "report.json"
    code = history([location_of(tmp_path / "events")], excused=[EXCUSED], json_target=str(target))
    assert code == ExitCode.INVALID
    document = json.loads(target.read_text())
    assert (document["format"], document["keys"], document["verdict"]) == (2, ["fault"], "INVALID")
    assert document["sql"] is None
    assert {each["history"]: each["verdict"] for each in document["histories"]} == {
        '{"fault":"none"}': "VALID",
        '{"fault":"torn"}': "INVALID",
        '{"fault":"lost"}': "UNKNOWN",
    }
    judged = judge(to_arrow(bad), excused=[EXCUSED])
    assert document["counts"] == judged.counts
    said = capsys.readouterr().out
    assert judged.anomalies[0].sentence in said
    assert "INVALID: histories: 1 VALID, 1 UNKNOWN, 1 INVALID\n" in said
    assert "an event is missing or twice there" in said


@pytest.mark.parametrize(
    ("events", "excused", "code"),
    [
        (correct_history(1), [EXCUSED], ExitCode.VALID),
        (incomplete_history(2), [EXCUSED], ExitCode.UNKNOWN),
    ],
    ids=["valid", "unknown"],
)
def test_the_verdict_on_one_history_is_the_exit_code(
    spark: SparkSession, tmp_path: Path, events: list[Event], excused: list[str], code: ExitCode
) -> None:
    assert history([location_of(write(events, tmp_path / "events.parquet"))], excused=excused) == code


def test_a_rejected_read_is_an_anomaly_unless_it_is_excused(spark: SparkSession, tmp_path: Path) -> None:
    rights = map(correct_history, range(99))
    events = next(events for events in rights if any(event.details for event in events))
    assert judge(to_arrow(events)).counts.keys() == {"refused_read"}
    assert history([location_of(write(events, tmp_path / "events.parquet"))]) == ExitCode.INVALID


def test_what_sql_says_is_part_of_the_report(tmp_path: Path) -> None:
    dataset = open_dataset([write(correct_history(1), tmp_path / "events.parquet")])
    good = judge(to_arrow(correct_history(1)), excused=[EXCUSED])
    disagreements = {ONLY: "verdict: VALID by the judge, INVALID by SQL"}
    for sql, verdict, said in (
        (Comparison(), "VALID", "VALID: histories: 1 VALID; SQL agrees on all"),
        (Comparison(disagreements=disagreements, count=1), "UNKNOWN", "the checkers disagree on verdict: VALID by the"),
        (Comparison(failure="a sum is too large"), "UNKNOWN", "SQL has no answer: a sum is too large\n"),
        (None, "VALID", "VALID: histories: 1 VALID\n"),
    ):
        report = Report(judged=Judged.of([(ONLY, good)]), sql=sql)
        document = report_document(dataset, report)
        assert document["sql"] == (
            sql and {"disagreements": sql.disagreements, "count": sql.count, "failure": sql.failure}
        )
        assert document["verdict"] == verdict
        console = Console(file=io.StringIO(), width=200)
        print_report(console, report)
        assert isinstance(console.file, io.StringIO)
        assert said in console.file.getvalue()
        assert ("agrees" in console.file.getvalue()) == (sql == Comparison())


def test_what_holds_no_events_is_rejected_in_one_sentence(tmp_path: Path) -> None:
    good = write(correct_history(1), tmp_path / "good.parquet")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"process": ["a"]}), other)
    wrong = tmp_path / "wrong.parquet"
    table = to_arrow(correct_history(1))
    pq.write_table(table.set_column(1, "sequence", table.column("sequence").cast(pa.int32())), wrong)
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet")
    (tmp_path / "empty").mkdir()
    for position, reason in (
        (other, "has no column sequence, so it contains no events"),
        (wrong, "column sequence is int32, not int64"),
        (text, "is not a readable Parquet file"),
        (tmp_path / "empty", "contains no Parquet file"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(UnreadableEventsError, match=reason):
            open_dataset([position])
    with pytest.raises(UnreadableEventsError, match="has no column seed beside those of events"):
        open_dataset([good], keys=["seed"])
    assert open_dataset([good]).event_count == len(correct_history(1))


def test_files_that_are_not_finished_are_left_out(tmp_path: Path) -> None:
    good = write(correct_history(1), tmp_path / "events" / "a.parquet")
    for name in ("_temporary/b.parquet", ".c.parquet"):
        (tmp_path / "events" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "events" / name).write_text("half")
    assert open_dataset([tmp_path / "events"]).files == (location_of(good),)


def test_names_of_events_need_not_be_utf8_but_keys_are_text(tmp_path: Path) -> None:
    """One such name below a directory, also of what holds no events, ended all in an error of Python."""
    good = write(correct_history(1), tmp_path / "events" / os.fsdecode(b"a\xff.parquet"))
    (tmp_path / "events" / os.fsdecode(b"\xff.txt")).touch()
    for given in (good, tmp_path / "events"):
        assert open_dataset([given]).event_count == len(correct_history(1))
    write(correct_history(1), tmp_path / "keys" / os.fsdecode(b"fault=\xff") / "a.parquet")
    with pytest.raises(UnreadableEventsError, match="the name of a directory with = is a key, and no text in UTF-8"):
        open_dataset([tmp_path / "keys"])


def test_events_are_there_once_whatever_links_and_paths_lead_to_them(tmp_path: Path) -> None:
    """Sound histories were UNKNOWN, because each event was there several times."""
    good = write(correct_history(1), tmp_path / "sub" / "a.parquet")
    (tmp_path / "sub" / "b.parquet").symlink_to("a.parquet")
    (tmp_path / "sub" / "current").symlink_to(".")
    given = [tmp_path / "sub", tmp_path / "sub" / ".." / "sub", good]
    for paths in (given[:1], given[1:2], given):
        assert len(open_dataset(paths).files) == 1
        assert open_dataset(paths).event_count == len(correct_history(1))
    # The names of what links lead to may be unfinished, or say nothing.
    (tmp_path / "sub").rename(tmp_path / "_stored")
    (tmp_path / "_stored" / "a.parquet").rename(tmp_path / "_stored" / "0a1b")
    (tmp_path / "c.parquet").symlink_to("_stored/0a1b")
    assert open_dataset([tmp_path]).files == (location_of(tmp_path / "c.parquet"),)


def test_judges_that_disagree_know_nothing() -> None:
    good = judge(to_arrow(correct_history(1)), excused=[EXCUSED])
    answer = Answer(verdict="VALID", counts={}, denominators={"events": good.denominators["events"]})
    assert difference(good, answer) == ""
    assert "anomalies" in difference(good, Answer(verdict="VALID", counts={"torn_content": 1}, denominators={}))
    full = Answer(verdict="VALID", counts={}, denominators=good.denominators)
    assert "verdict" in difference(unknown("why", 0), full)
    assert difference(good, None) == "is not known to SQL"
    sums = Judged.of([("a", good)])
    assert Report(judged=sums).verdict is Verdict.VALID
    assert Report(judged=sums, sql=Comparison(disagreements={"a": "verdict"}, count=1)).verdict is Verdict.UNKNOWN
