"""A campaign on Spark: the same results however it is spread, retried, interrupted or taken up again."""

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tornproof.cli.app import app
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.results import Detection, Summary
from tornproof.pipeline.campaign.spec import CampaignError, Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS, Task, complete_task
from tornproof.pipeline.files import Location
from tornproof.pipeline.whole_file import PARTIAL

SPEC = Spec(
    format=1,
    name="test",
    groups=(
        Group(
            name="worse",
            scenarios=("append-and-power-cut",),
            presets=("hardened", "specification"),
            seeds=Seeds(count=4),
            seeds_a_task=2,
        ),
    ),
)
RUN_COUNT, TASK_COUNT = 12, 5
BLOCKED = 3
"""The task at which a worker hangs until the campaign is interrupted."""
CONTROL = Group(name="controls-x", faults=("prev is always 0",), seeds=Seeds(count=4), control=True)


@pytest.fixture(autouse=True)
def few_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))


def content_of(out: Path) -> dict[str, bytes]:
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for kind in (RESULTS, EVENTS)
        for path in (out / kind).rglob("*")
        if path.is_file()
    }


def reported_of(summary: Summary) -> object:
    return summary.result_hash, summary.verdict, summary.detections, summary.injected_faults


@pytest.mark.nightly
def test_one_and_three_partitions_give_the_same_and_retries_and_interruptions_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    summaries = [run_campaign(spark, SPEC, tmp_path / str(count), partition_count=count) for count in (1, 3)]
    assert len({repr(reported_of(summary)) for summary in summaries}) == 1
    contents = [content_of(tmp_path / str(count)) for count in (1, 3)]
    assert contents[0] == contents[1] and len(contents[0]) == 2 * TASK_COUNT
    assert summaries[0].verdict.name == "INVALID" and summaries[0].run_count == RUN_COUNT

    marks = tmp_path / "marks"
    marks.mkdir()

    def fails_first(task: Task, out: Location) -> None:
        mark = marks / str(task.number)
        if task.number % 3 == 0 and not mark.exists():
            mark.touch()
            complete_task(task, out)
            task.path(out, RESULTS).delete_file()
            raise OSError("the first attempt")
        complete_task(task, out)

    retried = run_campaign(spark, SPEC, tmp_path / "retried", work=fails_first)
    assert len(list(marks.iterdir())) == 2
    assert (
        repr(reported_of(retried)) == repr(reported_of(summaries[0]))
        and content_of(tmp_path / "retried") == contents[0]
    )

    def blocks(task: Task, out: Location) -> None:
        if task.number == BLOCKED:
            time.sleep(60)
        complete_task(task, out)

    def interrupt(done: int, total: int, found: int) -> None:
        if (out / RESULTS / "group=worse" / f"task-{BLOCKED - 1:07}.parquet").exists():
            raise KeyboardInterrupt

    out = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        run_campaign(spark, SPEC, out, partition_count=1, on_progress=interrupt, work=blocks)
    left = content_of(out)
    assert len(left) == 2 * BLOCKED and all(content == contents[0][name] for name, content in left.items())
    (out / RESULTS / "group=worse" / f".task-0000003.parquet.dead{PARTIAL}").write_bytes(b"PAR1")
    ran = tmp_path / "ran"
    ran.mkdir()

    def counted(task: Task, out: Location) -> None:
        (ran / str(task.number)).touch()
        complete_task(task, out)

    found: list[Detection] = []
    counts: list[tuple[int, int, int]] = []
    resumed = run_campaign(
        spark,
        SPEC,
        out,
        work=counted,
        on_detection=found.append,
        on_progress=lambda *reported: counts.append(reported),
    )
    assert repr(reported_of(resumed)) == repr(reported_of(summaries[0])) and content_of(out) == contents[0]
    assert len(list(ran.iterdir())) == TASK_COUNT - BLOCKED
    assert {each.signature for each in found} == {each.signature for each in resumed.detections}
    assert counts[-1] == (RUN_COUNT, RUN_COUNT, len(resumed.detections)) and counts == sorted(counts)


# By day no task fails on Spark, which tries each four times.
@pytest.mark.nightly
def test_a_task_that_fails_each_time_ends_the_campaign_with_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    def fails(task: Task, out: Location) -> None:
        raise OSError("no space left on device")

    with pytest.raises(CampaignError) as failed:
        run_campaign(spark, SPEC, tmp_path / "out", work=fails)
    assert str(failed.value) == "a task of the campaign failed: OSError: no space left on device"


@pytest.mark.nightly
def test_the_command_runs_on_spark_and_its_findings_replay_without_it(spark: SparkSession, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'format = 1\nname = "small"\n[[groups]]\nname = "worse"\nscenarios = ["append-and-power-cut"]\n'
        'presets = ["specification"]\nseeds = { count = 4 }\n'
    )
    arguments = ["campaign", "--spec", str(spec), "--out", str(tmp_path / "out"), "--json", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert result.return_value == 1, result.exception
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["runs"] == 8 and document["verdict"] == "INVALID"
    for finding in document["findings"]:
        again = CliRunner().invoke(app, ["replay", finding["file"]], standalone_mode=False)
        assert again.return_value == 1 and finding["sentence"][:20] in result.stdout
