"""The sums of results, against sums that are made row by row; and which results are asked for while they arrive."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brute_behaviours import counts_after

from tornproof.harness.common.campaign_sums import Cell
from tornproof.pipeline.campaign import result_files as files_module
from tornproof.pipeline.campaign import results as campaign_results
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign import tally as tallies
from tornproof.pipeline.campaign.result_files import ResultFile, Texts, read_results, result_files
from tornproof.pipeline.campaign.results import Arrivals
from tornproof.pipeline.campaign.spec import CampaignError, Group, Seeds, Spec
from tornproof.pipeline.campaign.tally import CrashPoint, Seen, Signature, Tally, tally_of
from tornproof.pipeline.campaign.tasks import EVENTS, RESULT_SCHEMA, RESULTS, plan_of
from tornproof.pipeline.files import Location, location_of, sizes_of

CONTROL = "controls-x"
CHOICES = {
    "verdict": ("VALID", "VALID", "INVALID", "UNKNOWN"),
    "property": ("", "a reader gets an answer"),
    "part": ("", "reader", "writer"),
    "kind": ("", "CorruptError", "é\x1f#"),
    "injected_fault": ("nothing", "process killed", "power cut"),
    "model": ("", "A", "B"),
    "step": ("writer@open: read _txn #1", "writer@commit 0: store #3"),
    "disk": ("", "a mixture"),
    "error": ("", "", "", "it did not end"),
}
POINTS = ("one", "two", "three")
TASKS = (
    (CONTROL, "append", 0, 7),
    ("ours", "append", 0, 40),
    ("ours", "append", 40, 33),
    ("ours", "other", 0, 20),
    ("more", "append", 30, 60),
)
"""Groups, scenarios, first seeds and numbers of runs; some seeds of the last one stand in another group, too."""


def rows_of(chance: np.random.Generator, scenario: str, first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            **dict.fromkeys(RESULT_SCHEMA.names, ""),
            **{name: values[chance.integers(len(values))] for name, values in CHOICES.items()},
            "scenario": scenario,
            "preset": "hardened",
            "seed": seed,
            "sentence": f"run {seed}",
            "step_count": int(chance.integers(1, 9)),
            "turn_count": 1,
            "event_count": int(chance.integers(9)),
            "is_seen_kept": bool(chance.integers(2)),
            "reached": [point for point in POINTS if chance.integers(2)],
            "moves": f"[{seed}]",
        }
        for seed in range(first, first + count)
    ]


@pytest.fixture(params=range(4))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Location, list[list[dict[str, Any]]]]:
    """A directory of results, and the rows of each task."""
    chance = np.random.default_rng(request.param)
    tasks = []
    for number, (group, scenario, first, count) in enumerate(TASKS):
        tasks.append(rows_of(chance, scenario, first, count))
        path = tmp_path / RESULTS / f"group={group}" / f"task-{number:07}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(tasks[-1], RESULT_SCHEMA), path)
    return location_of(tmp_path), tasks


def in_parts(out: Location, edges: list[int]) -> Tally:
    """Sum up parts, each with the seeds before it as the driver's plan knows them."""
    files, whole = result_files(out), Tally()
    for first, stop in itertools.pairwise(edges):
        seen = Seen()
        for group, scenario, seed, count in TASKS[:first]:
            if group != CONTROL:
                seen.new_seeds((scenario, "hardened", ""), range(seed, seed + count))
        whole.add(tally_of(files[first:stop], lambda group: group == CONTROL, seen))
    return whole


def raised(error: CampaignError) -> None:
    raise error


@pytest.mark.parametrize("edges", [[0, 5], [0, 1, 2, 3, 4, 5], [0, 2, 2, 4, 5]])
@pytest.mark.parametrize("together_rows", [1, 60, 1_000])
def test_sums_of_parts_are_those_of_the_rows(
    written: tuple[Location, list[list[dict[str, Any]]]],
    edges: list[int],
    together_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files_module, "TOGETHER_ROWS", together_rows)
    out, tasks = written
    sums = in_parts(out, edges)
    every = [(TASKS[number][0], row) for number, rows in enumerate(tasks) for row in rows]
    ours = [(group, row) for group, row in every if group != CONTROL]
    assert sums.verdicts == Counter((group, row["verdict"]) for group, row in every)
    assert sums.crash_points == Counter(
        CrashPoint(group == CONTROL, *(row[name] for name in ("injected_fault", "model", "step", "disk")))
        for group, row in every
    )
    assert sums.reached == Counter(point for _, row in ours for point in row["reached"])
    assert (sums.run_count, sums.step_count, sums.event_count) == (
        len(every),
        sum(row["step_count"] for _, row in every),
        sum(row["event_count"] for _, row in every),
    )
    errors = [f"{row['scenario']}, hardened, seed {row['seed']}: {row['error']}" for _, row in every if row["error"]]
    assert sums.errors == errors[: tallies.PROBLEMS_MAX]
    for cell, runs in sums.cells.items():
        own = [row for group, row in every if (group, row["scenario"]) == cell[:2]]
        bad = [number for number, row in enumerate(own) if row["verdict"] == "INVALID"]
        assert (runs.run_count, runs.detected_count) == (len(own), len(bad))
        assert (runs.first_number, runs.first_seed) == (bad[0] + 1, own[bad[0]]["seed"]) if bad else (None, None)
        assert runs.step_count_max == max(row["step_count"] for row in own)
    assert [cell.group for cell in sums.cells] == [CONTROL, "ours", "ours", "more"]
    invalid = [(group, row) for group, row in ours if row["verdict"] == "INVALID"]
    for signature, found in sums.signatures.items():
        own_rows = [(group, row) for group, row in invalid if signature_of(row) == signature]
        group, first = own_rows[0]
        assert found.run_count == len(own_rows)
        assert (found.cell, found.seed, found.sentence) == (
            Cell(group, first["scenario"], "hardened", ""),
            first["seed"],
            first["sentence"],
        )
    assert list(sums.signatures) == list(dict.fromkeys(signature_of(row) for _, row in invalid))
    whole = in_parts(out, [0, 5])
    assert sums.result_hash() == whole.result_hash()
    assert (sums.cells, sums.signatures, sums.task_counts) == (whole.cells, whole.signatures, whole.task_counts)


def signature_of(row: dict[str, Any]) -> Signature:
    return Signature(*(row[name] for name in Signature._fields))


@pytest.mark.parametrize("edges", [[0, 5], [0, 1, 2, 3, 4, 5]])
def test_behaviours_are_told_apart_by_all_that_a_run_showed_and_a_seed_counts_once(
    written: tuple[Location, list[list[dict[str, Any]]]], edges: list[int]
) -> None:
    out, tasks = written
    sums = in_parts(out, edges)
    outcome = ("scenario", "preset", "fault", "verdict", "property", "part", "kind")
    crash = ("injected_fault", "model", "step", "disk")
    once: dict[tuple[str, int], dict[str, Any]] = {}
    for (group, *_), rows in zip(TASKS, tasks, strict=True):
        for row in rows if group != CONTROL else ():
            once.setdefault((row["scenario"], row["seed"]), row)
    is_odd = [row["seed"] % 2 == 1 for row in once.values()]
    for behaviours, names in ((sums.outcomes, outcome), (sums.behaviours, (*outcome, *crash, "reached"))):
        shown = [repr([row[name] for name in names]) for row in once.values()]
        numbers = [shown.index(each) for each in shown]
        assert tuple(behaviours.trend()[-1]) == counts_after(numbers, is_odd, len(once))
    assert sums.group_starts == {"ours": 0, "more": 93}


@pytest.mark.parametrize("change", ["moves", "step_count", "is_seen_kept", "reached", "kind", "events_digest"])
def test_the_digest_of_rows_changes_with_any_value_and_not_with_the_file(tmp_path: Path, change: str) -> None:
    rows = rows_of(np.random.default_rng(7), "append", 0, 50)
    path = tmp_path / RESULTS / "group=g" / "task-0000000.parquet"
    path.parent.mkdir(parents=True)

    def digest(**settings: Any) -> bytes:
        pq.write_table(pa.Table.from_pylist(rows, RESULT_SCHEMA), path, **settings)
        (results,) = read_results(result_files(location_of(tmp_path)), raised)
        (found,) = results.digests()
        return found

    first = digest()
    assert digest(use_dictionary=False, compression="none", data_page_size=100) == first
    other = {"step_count": 77, "is_seen_kept": not rows[30]["is_seen_kept"], "reached": ["four"]}
    rows[30][change] = other.get(change, "other")
    assert digest() != first


def test_codes_that_would_not_fit_are_made_small_again(
    written: tuple[Location, list[list[dict[str, Any]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (results,) = read_results(result_files(written[0]), raised)
    names = ("verdict", "property", "part", "kind", "step")
    wide = [*results.groups(names)]
    monkeypatch.setattr("tornproof.pipeline.campaign.result_files.CODES_MAX", 4)
    assert [*results.groups(names)] == wide
    assert isinstance(results.texts["kind"], Texts)


def test_a_poll_asks_for_the_next_results_of_a_few_ranges_and_for_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", ())
    group = Group(name="g", scenarios=("append-and-power-cut",), seeds=Seeds(count=400), seeds_a_task=2)
    plan, out = plan_of(Spec(format=1, name="x", groups=(group,))), location_of(tmp_path)
    asked: list[int] = []
    listed: list[Location] = []

    def sizes(locations: list[Location]) -> list[int | None]:
        asked.append(len(locations))
        return sizes_of(locations)

    def files(directory: Location, *kind: str) -> list[ResultFile]:
        listed.append(directory)
        return result_files(directory, *kind)

    monkeypatch.setattr(campaign_results, "sizes_of", sizes)
    monkeypatch.setattr(campaign_results, "result_files", files)

    def write(number: int) -> None:
        task = plan[number]
        rows = rows_of(np.random.default_rng(number), "append-and-power-cut", task.first, task.run_count)
        task.path(out, EVENTS).write_bytes(b"")
        with task.path(out, RESULTS).whole_file() as file:
            pq.write_table(pa.Table.from_pylist(rows, RESULT_SCHEMA), file)

    write(5)
    for range_count in (None, 3):
        asked.clear()
        listed.clear()
        arrivals = Arrivals(plan, out, range_count=range_count, ranges_at_a_time=4)
        assert arrivals.missing.tolist() == [number for number in range(200) if number != 5]
        list(arrivals.new(()))
        assert arrivals.run_count == 2
        for _ in range(50):
            list(arrivals.new(()))
        assert set(asked) == {min(4, range_count or 4)} and len(asked) == 51 and listed == [out, out]
    for number in (150, 0, 1, 199):
        write(number)
    arrivals = Arrivals(plan, out, ranges_at_a_time=4)
    assert len(arrivals.missing) == 195
    for number in arrivals.missing[::-1].tolist():
        write(number)
    list(arrivals.new(()))
    assert arrivals.run_count == 400
