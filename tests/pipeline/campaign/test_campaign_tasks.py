"""A campaign without Spark: what tasks write, what is made of it, and when a verdict is one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from golden_data import content_of

from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import SCHEMA
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.counterexamples.moves import moves_of
from tornproof.harness.mutation.seeded import SEEDED
from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign import job as campaign_job
from tornproof.pipeline.campaign import results as campaign_results
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.job import claim, run_campaign
from tornproof.pipeline.campaign.results import Arrivals, Summary, control_names, summarise, tally
from tornproof.pipeline.campaign.spec import CampaignError, Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import (
    EVENT_SCHEMA,
    EVENTS,
    RESULT_SCHEMA,
    RESULTS,
    Plan,
    Task,
    complete_task,
    plan_of,
)
from tornproof.pipeline.files import location_of
from tornproof.pipeline.whole_file import PARTIAL

OURS = Group(name="ours", scenarios=("append-and-power-cut",), seeds=Seeds(count=12), seeds_a_task=5)
WORSE = Group(name="worse", scenarios=("append-and-power-cut",), presets=("specification",), seeds=Seeds(count=12))
CONTROL = Group(name="controls-x", faults=("prev is always 0",), seeds=Seeds(count=8), control=True)
SMALL = (
    Group(name="ours", scenarios=("append-and-power-cut",), seeds=Seeds(count=4), seeds_a_task=2),
    Group(name="worse", scenarios=("append-and-power-cut",), presets=("specification",), seeds=Seeds(count=4)),
)
"""Where only is compared what tasks write."""


@pytest.fixture(autouse=True)
def few_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controls of a real campaign take a second or two each time."""
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))


def spec_of(*groups: Group, seed: int = 0) -> Spec:
    return Spec(format=1, name="test", seed=seed, groups=groups or (OURS,))


def done(out: Path, spec: Spec, *, reverse: bool = False) -> Plan:
    tasks = plan_of(spec)
    for task in reversed(tasks) if reverse else tasks:
        complete_task(task, location_of(out))
    return tasks


def summed_up(spec: Spec, out: Path) -> Summary:
    return summarise(spec, plan_of(spec), tally(None, spec, plan_of(spec), location_of(out)))


def path_of(task: Task, out: Path, kind: str) -> Path:
    return task.path(location_of(out), kind).local


@pytest.fixture(scope="module")
def left_by_ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tasks of our own group leave, for tests to copy."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))
        done(out := tmp_path_factory.mktemp("ours"), spec_of())
    return out


def copied(left_by_ours: Path, out: Path) -> Plan:
    shutil.copytree(left_by_ours, out, dirs_exist_ok=True)
    return plan_of(spec_of())


def summary_of(out: Path, *groups: Group, seed: int = 0) -> Summary:
    spec = spec_of(*groups, seed=seed)
    done(out, spec)
    return summed_up(spec, out)


def test_results_and_events_are_datasets_by_group_with_a_row_for_each_run(tmp_path: Path, left_by_ours: Path) -> None:
    tasks = copied(left_by_ours, tmp_path)
    results = ds.dataset(tmp_path / RESULTS, partitioning="hive").to_table()
    events = ds.dataset(tmp_path / EVENTS, partitioning="hive").to_table()
    assert results.schema.names == [*RESULT_SCHEMA.names, "group"] and events.schema.names[:-1] == EVENT_SCHEMA.names
    ours = results.filter(pa.compute.equal(results["group"], "ours")).sort_by("seed")
    assert ours["seed"].to_pylist() == list(range(12)) and set(ours["verdict"].to_pylist()) == {"VALID"}
    assert sum(results["event_count"].to_pylist()) == len(events) > 0
    assert {task.group for task in tasks} == {"ours", "controls-x"}


def test_each_runs_rows_of_events_are_a_history_that_can_be_judged(tmp_path: Path) -> None:
    complete_task(plan_of(spec_of(WORSE))[-1], location_of(tmp_path))
    (results,) = ds.dataset(tmp_path / RESULTS).to_table().to_batches()
    events = ds.dataset(tmp_path / EVENTS).to_table()
    for run in results.to_pylist():
        history = events.filter(pa.compute.equal(events["seed"], run["seed"])).select(SCHEMA.names)
        assert len(history) == run["event_count"]
        verdict = judge(history, seen_survives=run["is_seen_kept"]).verdict
        assert verdict.name == run["verdict"] or run["part"] == "writer"
        assert moves_of(json.loads(run["moves"]))
    assert set(results["verdict"].to_pylist()) == {"VALID", "INVALID"}


@pytest.mark.nightly
def test_a_task_that_is_done_again_writes_the_same_bytes(tmp_path: Path) -> None:
    tasks = done(tmp_path, spec_of(*SMALL))
    first = content_of(tmp_path)
    for task in tasks:
        complete_task(task, location_of(tmp_path))
    assert content_of(tmp_path) == first and len(first) == 2 * len(tasks)
    assert not any(PARTIAL in name for name in first)


def test_results_are_written_last_and_what_fails_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = plan_of(spec_of())[-1]
    written = pq.write_table
    calls: list[Any] = []

    def fails(table: pa.Table, file: Any, **settings: Any) -> None:
        calls.append(table)
        written(table.slice(0, 1), file, **settings)
        if len(calls) == 2:
            raise OSError("no space left")
        written(table, file, **settings)

    monkeypatch.setattr(pq, "write_table", fails)
    with pytest.raises(StorageError, match="cannot write: no space left"):
        complete_task(task, location_of(tmp_path))
    assert list(content_of(tmp_path)) == [path_of(task, tmp_path, EVENTS).relative_to(tmp_path).as_posix()]


def test_a_task_ends_beside_another_campaign_that_begins_in_its_directory(
    tmp_path: Path, left_by_ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That removed the temporary files of living workers too, which ended the campaign where no task is repeated."""
    task = plan_of(spec_of())[-1]
    written = pq.write_table
    schemas: list[pa.Schema] = []

    def written_while_one_begins(table: pa.Table, file: Any, **settings: Any) -> None:
        written(table, file, **settings)
        if table.schema not in schemas:
            schemas.append(table.schema)
            campaign_job._clear_partials(location_of(tmp_path))

    monkeypatch.setattr(pq, "write_table", written_while_one_begins)
    complete_task(task, location_of(tmp_path))
    assert schemas == [EVENT_SCHEMA, RESULT_SCHEMA] and len(content_of(tmp_path)) == 2
    assert content_of(tmp_path).items() <= content_of(left_by_ours).items()


@pytest.mark.nightly
def test_the_hash_is_that_of_the_rows_whoever_wrote_them_and_when(tmp_path: Path) -> None:
    spec = spec_of(*SMALL)
    tasks = done(tmp_path / "a", spec)
    done(tmp_path / "b", spec, reverse=True)
    hashes = {summed_up(spec, tmp_path / name).result_hash for name in "ab"}
    assert len(hashes) == 1
    hashes.add(summary_of(tmp_path / "c", *SMALL, seed=1).result_hash)
    path = path_of(tasks[-1], tmp_path / "b", RESULTS)
    rows = pq.ParquetFile(path).read()
    other = rows.set_column(5, RESULT_SCHEMA.field("property"), pa.array(["x"] * len(rows)))
    pq.write_table(other, path)
    hashes.add(summed_up(spec, tmp_path / "b").result_hash)
    assert len(hashes) == 3


def test_our_implementation_is_valid_with_all_denominators(tmp_path: Path, left_by_ours: Path) -> None:
    copied(left_by_ours, tmp_path)
    summary = summed_up(spec_of(), tmp_path)
    assert (summary.verdict, summary.notes, summary.detections) == (Verdict.VALID, (), ())
    assert (summary.run_count, summary.task_count, summary.case_count) == (20, 4, 2)
    assert summary.controls == {"controls-x: prev is always 0": "passed"}
    assert sum(summary.injected_faults.values()) == sum(summary.coverage.values()) == 20
    assert summary.group_counts["ours"] == {"VALID": 12}
    assert summary.step_count > 1_000 and summary.event_count > 60


def test_a_detected_release_is_invalid_and_each_signature_is_told_by_its_first_run(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, OURS, WORSE)
    assert summary.verdict is Verdict.INVALID and summary.detections
    rows = ds.dataset(tmp_path / RESULTS / "group=worse").to_table().to_pylist()
    bad = [row for row in rows if row["verdict"] == "INVALID"]
    assert len({each.signature for each in summary.detections}) == len(summary.detections)
    for detection in summary.detections:
        mine = [
            row["seed"]
            for row in bad
            if tuple(row[name] for name in detection.signature._fields) == detection.signature
        ]
        assert detection.seed == min(mine) and "specification, seed" in detection.where
    finding = summary.detections[0].finding()
    assert finding.evidence[SEEDED]["seed"] == summary.detections[0].seed


def test_a_control_that_is_not_detected_makes_the_verdict_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = Group(name="controls-x", scenarios=("sync-fails",), seeds=Seeds(count=3), control=True)
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (harmless,))
    summary = summary_of(tmp_path)
    assert summary.verdict is Verdict.UNKNOWN
    assert summary.notes == ("a positive control failed, controls-x: hardened",)


def test_each_fault_of_a_control_is_to_be_detected(tmp_path: Path) -> None:
    group = Group(name="mine", faults=("prev is always 0", "mapping kept"), seeds=Seeds(count=8), control=True)
    summary = summary_of(tmp_path, OURS, group)
    assert summary.verdict is Verdict.UNKNOWN and summary.detections == ()
    assert summary.controls["mine: prev is always 0"] == "passed"
    assert summary.controls["mine: mapping kept"] == "not convicted"


def test_runs_that_come_to_no_end_make_the_verdict_unknown_and_say_why(tmp_path: Path) -> None:
    rejected = Group(name="g", scenarios=("two-orphans",), presets=("questdb-9.4.2",), seeds=Seeds(count=2))
    summary = summary_of(tmp_path, rejected)
    assert summary.verdict is Verdict.UNKNOWN
    (note,) = summary.notes
    assert note.startswith("2 runs did not complete: two-orphans, questdb-9.4.2, seed 0: not explorable: after")


def test_a_fate_that_no_run_has_met_makes_the_verdict_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_results, "SOON", 2)
    few = Group(name="g", scenarios=("append-and-power-cut",), seeds=Seeds(count=2))
    summary = summary_of(tmp_path, few)
    assert summary.verdict is Verdict.UNKNOWN and summary.notes[0].startswith("never reached: ")


def test_arrivals_are_told_once_and_controls_are_no_findings(tmp_path: Path) -> None:
    spec = spec_of(WORSE)
    tasks, controls = plan_of(spec), control_names(spec)
    arrivals = Arrivals(tasks, location_of(tmp_path))
    assert (list(arrivals.new(controls)), arrivals.missing.tolist(), arrivals.run_count) == ([], [0, 1], 0)
    complete_task(tasks[0], location_of(tmp_path))
    assert (list(arrivals.new(controls)), arrivals.run_count) == ([], 8)
    complete_task(tasks[1], location_of(tmp_path))
    first = list(arrivals.new(controls))
    assert first and {each.signature for each in first} == arrivals.known
    assert (list(arrivals.new(controls)), arrivals.run_count) == ([], 20)


def test_events_that_were_removed_are_made_again(tmp_path: Path, left_by_ours: Path) -> None:
    """A campaign without them was complete, and its histories could not be checked."""
    tasks, out = copied(left_by_ours, tmp_path), location_of(tmp_path)
    before = content_of(tmp_path)
    path_of(tasks[1], tmp_path, EVENTS).unlink()
    assert Arrivals(tasks, out).missing.tolist() == [1]
    complete_task(tasks[1], out)
    assert content_of(tmp_path) == before and not len(Arrivals(tasks, out).missing)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 but no more"])
def test_results_that_are_missing_or_damaged_are_rejected_by_name(
    tmp_path: Path, left_by_ours: Path, content: bytes | None
) -> None:
    spec = spec_of()
    tasks = copied(left_by_ours, tmp_path)
    path = path_of(tasks[1], tmp_path, RESULTS)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CampaignError, match=r"task-0000001\.parquet: not the results of a task"):
        summed_up(spec, tmp_path)


def test_a_directory_belongs_to_one_spec(tmp_path: Path) -> None:
    claim(spec_of(), tmp_path / "out")
    claim(spec_of(), tmp_path / "out")
    with pytest.raises(CampaignError, match="contains a campaign of another spec"):
        claim(spec_of(seed=1), tmp_path / "out")


def test_a_directory_of_an_older_format_is_not_continued(tmp_path: Path) -> None:
    claim(spec_of(), tmp_path)
    path = tmp_path / "campaign.json"
    path.write_text(path.read_text().replace('"format":2', '"format":1', 1))
    with pytest.raises(CampaignError, match="a campaign of format 1, and this release continues 2"):
        claim(spec_of(), tmp_path)


def test_a_claim_that_was_killed_is_made_again(tmp_path: Path) -> None:
    (tmp_path / ".campaign.json.9d22ce6fb675430e9afa0c6a46c3909e.partial").write_text("{")
    claim(spec_of(), tmp_path)
    assert (tmp_path / "campaign.json").exists()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine.txt").write_text("x")
    with pytest.raises(CampaignError, match="is not empty, and contains no campaign"):
        claim(spec_of(), tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "campaign.json").write_text("{")
    with pytest.raises(CampaignError, match="not the file of a campaign"):
        claim(spec_of(), tmp_path / "b")
    (tmp_path / "c").write_text("x")
    with pytest.raises(CampaignError, match=r"cannot be the directory of a campaign: it is a file"):
        claim(spec_of(), tmp_path / "c")


def test_a_campaign_that_is_complete_needs_no_spark(tmp_path: Path, left_by_ours: Path) -> None:
    spec = spec_of()
    claim(spec, tmp_path)
    copied(left_by_ours, tmp_path)
    reported: list[tuple[int, int, int]] = []
    summary = run_campaign(None, spec, tmp_path, on_progress=lambda *counts: reported.append(counts))
    assert summary.verdict is Verdict.VALID and reported == [(20, 20, 0)]
