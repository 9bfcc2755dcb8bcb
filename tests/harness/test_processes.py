"""Runs of real processes on real files are VALID, end as they should, and leave nobody and nothing behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NoReturn

import multiprocess  # type: ignore[import-untyped]
import pytest
from depth import nightly

from harness.check import capture_table
from harness.explore import process_crew
from harness.explore.process_judge import (
    COMMIT_DONE,
    COMMIT_UNDONE,
    KILLED_IN_COMMIT,
    KILLED_IN_PURGE,
    KILLED_IN_RECOVERY,
    KILLED_PUBLISHED,
    PIN_FREED,
    PINNED_READER_KILLED,
    PURGED,
    READ_AGAIN,
    READ_DURING_COMMIT,
    REMOVED,
    RESTATED,
)
from harness.explore.process_kill import COMMIT_PLACES
from harness.explore.process_messages import Patch
from harness.explore.process_run import Run, Settings
from harness.explore.process_start import lay_ready
from harness.explore.processes import explore_processes
from harness.verdict import Phase, Verdict
from impl.operating_system import OperatingSystemStorage
from impl.pins import pin_committed, take_writer_lock

FAULTS = "harness.faults.processes"


def explore(directory: Path, **changes: Any) -> Phase:
    """A run on a new table, or with `image` and `path` on another one."""
    settings: dict[str, Any] = {"image": None, "path": "/trades", "seconds": 300.0, "seed": 1, "kills": 2, **changes}
    image, path = settings.pop("image"), settings.pop("path")
    directory.mkdir()
    return explore_processes(image, path, directory=directory, clock=time.monotonic, **settings)


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Phase:
    return explore(tmp_path_factory.mktemp("short") / "run", kills=15)


def test_no_acknowledged_commit_is_lost_and_no_reader_fooled(short_run: Phase) -> None:
    assert (short_run.verdict, short_run.note, short_run.controls) == (Verdict.VALID, "", "passed"), short_run.findings
    counts, reached = short_run.counts, short_run.reached
    assert counts["kills of the writer"] == 15
    assert counts["commits"] >= counts["acknowledged"] > 15
    assert counts["refused reads"] == counts["anomalies"] == 0
    assert short_run.explored == counts["reads"] > 100
    # How often depends on what else the machine does.
    assert counts["reads of older snapshots"] and reached[READ_DURING_COMMIT] and reached[READ_AGAIN]
    assert reached[KILLED_IN_COMMIT] and reached[PURGED]
    assert 0 < counts["kills of readers"] >= reached[PINNED_READER_KILLED] == reached[PIN_FREED]
    assert "killed 15 times, and 4 readers" in short_run.bound


def test_nobody_outlives_a_run(short_run: Phase) -> None:
    assert short_run.counts["kills of the writer"] and multiprocess.active_children() == []


def test_nobody_outlives_a_run_that_is_interrupted(tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> NoReturn:
        assert len(multiprocess.active_children()) >= 4
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(tmp_path / "run", on_progress=interrupt)
    assert multiprocess.active_children() == []


def test_without_kills_a_run_takes_its_time_and_is_judged_all_the_same(tmp_path: Path) -> None:
    phase = explore(tmp_path / "run", kills=0, seconds=4.0, readers=2)
    assert (phase.verdict, phase.counts["kills of the writer"], phase.counts["recoveries"]) == (Verdict.VALID, 0, 0)
    assert phase.counts["reads"] > 10 and phase.seconds >= 4.0


def test_a_run_whose_time_is_over_before_its_kills_is_no_valid_one(tmp_path: Path) -> None:
    phase = explore(tmp_path / "run", kills=1_000, seconds=0.5, readers=1)
    assert phase.verdict is Verdict.UNKNOWN
    assert "the time was over after" in phase.note and "of 1000 kills" in phase.note


@pytest.mark.parametrize(
    "name",
    [
        "tables/9.4.2/dedup",
        nightly("tables/9.4.2/chain"),
        nightly("tables/2026-07/nanosecond"),
    ],
)
def test_a_run_goes_on_from_a_copy_of_a_real_table(name: str, questdb_data: Path, tmp_path: Path) -> None:
    source = next(path.parent for path in sorted((questdb_data / name).rglob("_txn")))
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    image = capture_table(OperatingSystemStorage(), str(source))
    phase = explore(tmp_path / "run", image=image, path=str(source), kills=2)
    assert (phase.verdict, phase.note) == (Verdict.VALID, ""), phase.findings
    assert phase.counts["acknowledged"] > 2
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_a_table_that_nothing_can_be_added_to_is_no_valid_run(questdb_data: Path, tmp_path: Path) -> None:
    source = questdb_data / "tables/9.4.2/history/history/01"
    image = capture_table(OperatingSystemStorage(), str(source))
    phase = explore(tmp_path / "run", image=image, path=str(source))
    assert (phase.verdict, phase.explored) == (Verdict.UNKNOWN, 0)
    assert "cannot be written to" in phase.note


def test_a_writer_with_a_bug_of_its_own_is_a_finding_with_its_traceback(tmp_path: Path) -> None:
    patches = [Patch(place="harness.explore.process_writer:open_writer", substitute=f"{FAULTS}:bug")]
    phase = explore(tmp_path / "run", patches=patches)
    assert phase.verdict is Verdict.INVALID
    assert [finding.sentence for finding in phase.findings] == ["LookupError: a planted bug."]
    assert "Traceback" in phase.note and "a planted bug" in phase.note


def test_a_reader_with_a_bug_of_its_own_is_a_finding_with_its_traceback(tmp_path: Path) -> None:
    patches = [Patch(place="harness.explore.process_reader:open_table", substitute=f"{FAULTS}:bug")]
    phase = explore(tmp_path / "run", patches=patches, readers=1)
    assert phase.verdict is Verdict.INVALID
    assert "a planted bug" in phase.note


def test_a_writer_that_refuses_a_table_leaves_the_verdict_open(tmp_path: Path) -> None:
    patches = [Patch(place="harness.explore.process_writer:open_writer", substitute=f"{FAULTS}:refusal")]
    phase = explore(tmp_path / "run", patches=patches)
    assert phase.verdict is Verdict.UNKNOWN
    assert "a novelty" in phase.note and phase.findings == ()


def test_a_reader_that_never_comes_back_leaves_the_verdict_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_crew, "FINISH_SECONDS", 1.0)
    patches = [Patch(place="harness.explore.process_reader:rows_by_partition", substitute=f"{FAULTS}:sleep")]
    phase = explore(tmp_path / "run", patches=patches, kills=1, readers=1)
    assert phase.verdict is Verdict.UNKNOWN
    assert "did not finish within 1 s" in phase.note
    assert multiprocess.active_children() == []


@pytest.mark.nightly
def test_a_thousand_kills_lose_no_acknowledged_commit_and_fool_no_reader(tmp_path: Path) -> None:
    phase = explore(tmp_path / "run", kills=1_000, seconds=3_600.0)
    assert (phase.verdict, phase.note, phase.controls) == (Verdict.VALID, "", "passed"), phase.findings
    assert phase.counts["kills of the writer"] == 1_000
    wanted = (
        *(f"killed at {place}" for place in COMMIT_PLACES),
        *(KILLED_PUBLISHED, KILLED_IN_RECOVERY, KILLED_IN_PURGE, COMMIT_UNDONE, COMMIT_DONE),
        *(RESTATED, REMOVED, PURGED, PINNED_READER_KILLED, PIN_FREED),
    )
    assert [point for point in wanted if not phase.reached[point]] == []


def run_with_pin(tmp_path: Path, version: int) -> Run:
    start = lay_ready(None, "/trades", tmp_path)
    take_writer_lock(OperatingSystemStorage(), start.table_path).release()
    settings = Settings(seconds=1.0, seed=1, reader_count=4, kills=1)
    run = Run(start, None, None, settings, time.monotonic, lambda done, total: None)  # type: ignore[arg-type]
    run.outcome.pins.append(version)
    return run


def test_a_pin_that_is_still_held_is_noticed(tmp_path: Path) -> None:
    run = run_with_pin(tmp_path, 0)
    with pin_committed(OperatingSystemStorage(), str(tmp_path / "trades")) as pin:
        assert (pin.version, pin.is_held) == (0, True)
        run._free_pins(others_live=False)
        assert (run.outcome.pins, run.outcome.freed_pins) == ([0], 0)
    run._free_pins(others_live=False)
    assert (run.outcome.pins, run.outcome.freed_pins) == ([], 1)


def test_a_pin_of_the_committed_version_is_left_alone_while_others_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with_pin(tmp_path, 0)
    run._free_pins(others_live=True)
    assert run.outcome.pins == [0]
    monkeypatch.setattr(run, "_committed_version", lambda: 1)
    run._free_pins(others_live=True)
    assert run.outcome.pins == []
