"""The source where executors and driver are processes that are killed: the same rows, each once, and nothing left."""

import json
from pathlib import Path
from typing import Any

import pytest
import source_jobs
from command_line import ROOT
from day_tables import new_table
from driver_runs import run_driver

from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.pipeline.datasource.staging import STAGING_PREFIX

ROWS = list(range(source_jobs.ROW_COUNT))

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("needs_spark")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_table(tmp_path / "table", {"v": TypeTag.LONG})
    return tmp_path


def run(folder: Path, victim: str) -> tuple[int, dict[str, Any]]:
    done = run_driver(source_jobs.__file__, folder, ROOT, folder, victim)
    assert victim == "driver" or done.returncode == 0, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def values_of(folder: Path) -> list[int]:
    table = open_table(OperatingSystemStorage(), str(folder / "table"))
    assert verify_table(table).sound
    return sorted(value for batch in open_snapshot(table).batches(["v"]) for value in batch.column(0).to_pylist())


def staging_of(folder: Path) -> list[str]:
    return [entry.name for entry in (folder / "table").iterdir() if entry.name.startswith(STAGING_PREFIX)]


def test_rows_are_the_same_where_an_executor_is_killed_in_each_way_to_write_and_read(folder: Path) -> None:
    _, found = run(folder, "executor")
    assert sorted(path.name for path in folder.glob("killed*")) == [
        "killed executor while reading",
        "killed executor while scanning",
        "killed executor while writing",
    ]
    assert [found[way] for way in ("format", "scan", "address")] == [[len(ROWS), len(ROWS), sum(ROWS)]] * 3
    assert (values_of(folder), staging_of(folder)) == (ROWS, [])


def test_job_of_a_killed_driver_is_run_again_and_sweeps_what_that_left(folder: Path) -> None:
    code, _ = run(folder, "driver")
    assert code != 0
    assert [path.name for path in folder.glob("killed*")] == ["killed driver while writing"]
    assert values_of(folder) == []
    assert staging_of(folder)
    for _ in range(2):
        run(folder, "none")
        assert (values_of(folder), staging_of(folder)) == (ROWS, [])
