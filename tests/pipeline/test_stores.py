"""Jobs on a server that speaks S3, and on HDFS: a campaign, its histories, its page and its findings.

Executors read and write it by themselves, without any jar of Hadoop, and no file of this machine takes part.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from object_store import ObjectStore, object_store
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tornproof.cli.app import app
from tornproof.impl.errors import StorageError, UsageError
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.spec import Group, load_spec
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS, Task, complete_task
from tornproof.pipeline.files import Location, location_of
from tornproof.pipeline.whole_file import PARTIAL

BUCKET = "jobs"
SPEC = """
format = 1
name = "small"
[[groups]]
name = "worse"
scenarios = ["append-and-power-cut"]
presets = ["hardened", "specification"]
seeds = { count = 4 }
seeds_a_task = 2
"""
CONTROL = Group(name="controls-x", faults=("prev is always 0",), seeds=campaign_spec.Seeds(count=4), control=True)
RUN_COUNT, TASK_COUNT = 12, 5


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectStore]:
    with object_store() as store:
        store.make_bucket(BUCKET)
        yield store


@pytest.fixture(autouse=True)
def few_controls(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))


@pytest.fixture(params=["s3a", pytest.param("hdfs", marks=pytest.mark.nightly)])
def there(request: pytest.FixtureRequest) -> str:
    """The address of a directory of a store."""
    if request.param == "hdfs":
        return f"{request.getfixturevalue('hadoop').url}/{BUCKET}"
    return f"{request.param}://{BUCKET}"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which nothing may be left."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments], standalone_mode=False)


def document_of(result: Result, file: Path) -> dict[str, object]:
    assert result.exception is None, result.exception
    return dict(json.loads(file.read_text()))


@pytest.mark.nightly
def test_a_campaign_its_histories_its_page_and_a_finding_need_no_local_file(
    spark: SparkSession, there: str, tmp_path: Path, empty: Path, spec: Path
) -> None:
    out, json_file = f"{there}/out", tmp_path / "out.json"
    ran = run("campaign", "--spec", str(spec), "--out", out, "--report", "--json", str(json_file))
    document = document_of(ran, json_file)
    assert (ran.return_value, document["runs"], document["tasks"]) == (1, RUN_COUNT, TASK_COUNT)
    folder = location_of(out)
    files = {file.relative_to(folder): size for file, size in folder.files_below()}
    assert sum(name.startswith(f"{RESULTS}/") for name in files) == TASK_COUNT
    assert {"campaign.json", "summary.json", "report.html", "junit.xml"} <= files.keys() and all(files.values())

    on_disk = run_campaign(spark, load_spec(spec), tmp_path / "local")
    assert document["result_hash"] == on_disk.result_hash

    checked = run("history", f"{out}/{EVENTS}", "--power-cut", "--json", str(json_file), "--out", f"{out}-judged")
    histories = document_of(checked, json_file)
    assert (checked.return_value, histories["verdict"]) == (1, "INVALID")
    assert histories["denominators"]["histories"] == RUN_COUNT  # type: ignore[index]
    judged = [pq.read_table(file.open_for_reading()) for file, _ in location_of(f"{out}-judged").files_below()]
    assert sum(map(len, judged)) == RUN_COUNT
    again = run("history", f"{out}/{EVENTS}", "--out", f"{out}-judged")
    assert isinstance(again.exception, UsageError) and "is there already" in str(again.exception)

    (folder / "report.html").delete_file()
    reported = run("report", out)
    assert reported.return_value == 1, reported.exception
    assert b"Campaign small" in (folder / "report.html").read_bytes()
    finding = document["findings"][0]["file"]  # type: ignore[index]
    assert finding.startswith(out)
    replayed = run("replay", finding)
    assert replayed.return_value == 1 and "it happens again" in replayed.stdout
    assert list(empty.iterdir()) == []


@pytest.mark.nightly
def test_a_worker_that_dies_and_results_that_are_lost_change_nothing(
    spark: SparkSession, there: str, tmp_path: Path, spec: Path
) -> None:
    mark = tmp_path / "mark"

    def dies_once(task: Task, out: Location) -> None:
        if task.number == 3 and not mark.exists():
            mark.touch()
            os._exit(9)
        complete_task(task, out)

    out = location_of(f"{there}/killed")
    first = run_campaign(spark, load_spec(spec), out, work=dies_once)
    assert mark.exists()
    contents = {file: file.read_bytes() for file, _ in out.files_below()}
    for file in list(contents)[::2]:
        if file.relative_to(out).startswith(RESULTS):
            file.delete_file()
    if not out.is_object_store:
        (out / RESULTS / "group=worse" / f".left{PARTIAL}").write_bytes(b"half of a file")
    again = run_campaign(spark, load_spec(spec), out)
    assert repr(again) == repr(first)
    assert {file: file.read_bytes() for file, _ in out.files_below()} == contents


def test_files_of_the_archive_come_from_a_store_and_the_table_stays_on_disk(
    spark: SparkSession, there: str, tmp_path: Path, empty: Path
) -> None:
    frames = "".join(json.dumps({"ts": f"2024-01-0{1 + day}T00:00:00Z", "v": day}) + "\n" for day in range(3))
    place = location_of(f"{there}/frames")
    (place / "a" / "1.jsonl.gz").write_bytes(gzip.compress(frames.encode()))
    (place / "2.jsonl").write_bytes(frames.replace("00:00:00", "01:00:00").encode())
    json_file = tmp_path / "archive.json"
    arguments = ("archive", str(place), "--to", str(tmp_path / "table"), "--json", str(json_file))
    document = document_of(run(*arguments), json_file)
    assert document["counts"]["rows"] == 6 and document["version"] == 1  # type: ignore[index]
    again = document_of(
        run("archive", str(place), "--to", str(tmp_path / "table"), "--json", str(json_file)), json_file
    )
    assert again["counts"]["skipped"] == 2  # type: ignore[index]
    rejected = run("archive", str(place), "--to", f"{there}/table")
    assert isinstance(rejected.exception, UsageError) and str(rejected.exception).startswith(f"--to: {there}")
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("command", ["campaign", "history", "report"])
@pytest.mark.parametrize(
    ("address", "variables", "reason"),
    [
        ("s3a://nowhere", {}, "there is no bucket 'nowhere'"),
        ("s3a://nowhere", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "nothing answers at http://127.0.0.1:1"),
        ("hdfs://127.0.0.1:1", {}, "nothing answers at 127.0.0.1:1"),
    ],
    ids=["no bucket", "no connection", "no connection to HDFS"],
)
def test_what_a_store_rejects_ends_a_command_before_spark_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    empty: Path,
    spec: Path,
    command: str,
    address: str,
    variables: dict[str, str],
    reason: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = {"campaign": ["--spec", str(spec), "--out"], "history": [], "report": []}[command]
    ran = run(command, *options, f"{address}/out")
    assert isinstance(ran.exception, StorageError)
    assert str(ran.exception).startswith(f"{address}/out") and str(ran.exception).endswith(reason)
    assert list(empty.iterdir()) == []
