"""The same question gets the same answer: whatever the load, the number of processes, and how Python hashes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import table_builder as tb
from busy import busy_machine
from command_line import TIMEOUT_SECONDS, environment
from depth import nightly

TABLE = tb.SMALL
APART = ("times", "varying")
Beside = Callable[[], AbstractContextManager[None]]
HANG_SECONDS = 20 * TIMEOUT_SECONDS
"""So long only a run that hangs takes."""


def answer(folder: Path, *asked: object, workers: int, hash_seed: int) -> tuple[int, dict[str, Any]]:
    """Return what a check in a process of its own says."""
    done = subprocess.run(
        [sys.executable, "-m", "tornproof", "check", *map(str, asked), "--workers", str(workers), "--json", "-"],
        capture_output=True,
        cwd=folder,
        env={**environment(), "PYTHONHASHSEED": str(hash_seed)},
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.stderr == b"", done.stderr
    return done.returncode, json.loads(done.stdout)


def compare(folder: Path, *asked: object, beside: Beside = busy_machine) -> dict[str, Any]:
    """Ask twice under different conditions, and return what was said both times."""
    code, first = answer(folder, *asked, workers=1, hash_seed=1)
    with beside():
        again_code, second = answer(folder, *asked, workers=3, hash_seed=2)
    apart = [{name: document.pop(name) for name in APART} for document in (first, second)]
    assert (code, first) == (again_code, second)
    assert [each["times"]["workers"] for each in apart] == [1, 3]
    return first


@pytest.mark.parametrize(
    "only",
    [
        nightly(("roundtrip",)),
        nightly(("memory", "damage", "stateful", "schedules", "product", "power", "crash", "processes")),
    ],
    ids=" ".join,
)
def test_a_check_says_the_same_on_a_busy_machine_with_other_processes_and_hashes(
    tmp_path: Path, only: tuple[str, ...]
) -> None:
    table = TABLE.write_to(tmp_path / "table")
    asked = [part for name in only for part in ("--only", name)]
    document = compare(tmp_path, table.name, "--effort", "1", "--seed", "3", *asked)
    assert {phase["name"] for phase in document["phases"]} == set(only)
    assert all(phase["explored"] for phase in document["phases"]), document


# By day the machine is kept busy beside the test above alone: the load takes more than what it disturbs.
@pytest.mark.nightly
@pytest.mark.parametrize("beside", [nullcontext, busy_machine], ids=["idle", "busy"])
def test_findings_are_the_same_files(tmp_path: Path, beside: Beside) -> None:
    asked = ("--preset", "questdb-9.4.2", "--scenario", "one-commit-one-reader", "--effort", "1")
    document = compare(tmp_path, *asked, beside=beside)
    assert document["verdict"] == "INVALID" and document["findings"]
    assert len(os.listdir(tmp_path / "tornproof-findings")) == len(document["findings"])  # noqa: PTH208


@pytest.mark.nightly
def test_a_whole_check_says_the_same(questdb_data: Path, tmp_path: Path) -> None:
    compare(tmp_path, questdb_data / "tables/9.4.2/chain/table")
