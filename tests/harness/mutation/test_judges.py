"""Mistakes in the model, the checkers, the explorers and the injectors are noticed, and what is right raises no alarm.

A mistake that is noticed by the controls of a phase makes a check of the bundled table, in which nothing is wrong, end
with another verdict than VALID.
"""

import json
import subprocess
from pathlib import Path

import pytest
from depth import always_if

from tornproof.harness.check import PhaseName
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES, FaultFile, fault_files
from tornproof.harness.mutation.planted_copy import PlantedCopy, planted_copy

CONTROLS = "controls of "
TABLE = "tables/9.4.2/chain/table"
ROOT = Path(__file__).parents[3]
SECONDS_MAX = 600
QUICK = ("--effort", "small")
ROOMS = (
    "model/",
    "harness/checkers/",
    "harness/search/",
    "harness/simulator/filesystem/",
    "harness/simulator/memory_model/",
    "harness/simulator/persistence/",
    "harness/simulator/process/",
    "harness/recording/",
    "harness/explorers/recorded/",
    "harness/explorers/own_system/",
)
CHEAP = (PhaseName.PRODUCT,)
"""The phases of which one mistake is tried by day."""
ALL = [fault for fault in fault_files() if fault.family in (JUDGES, BENIGN)]
MISTAKES, RIGHT = ([fault for fault in ALL if fault.family == family] for family in (JUDGES, BENIGN))


def phase_of(fault: FaultFile) -> str:
    """Return the phase whose controls notice a mistake, "" where a test does."""
    (noticed,) = fault.noticed_by
    return noticed.removeprefix(CONTROLS) if noticed.startswith(CONTROLS) else ""


BY_CONTROLS = [fault for fault in MISTAKES if phase_of(fault)]
BY_TESTS = [fault for fault in MISTAKES if not phase_of(fault)]
BY_DAY = {next(fault.name for fault in BY_CONTROLS if phase_of(fault) == phase) for phase in CHEAP}


def named(fault: FaultFile) -> str:
    return fault.name


def verdict_of(copy: PlantedCopy, phases: tuple[str, ...], table: Path, *more: str) -> str:
    """Return the verdict of a check of these phases in the copy, and what is said of those that are not VALID."""
    document = copy.folder / "check.json"
    tables = [] if PhaseName.RANDOM in phases else [str(table)]
    only = [argument for phase in phases for argument in ("--only", phase)]
    paths = ["--json", str(document), "--findings", str(copy.folder / "findings")]
    subprocess.run(
        [*copy.python, "-m", "tornproof", "check", *tables, *only, *more, "--workers", "1", *paths],
        env=copy.environment,
        cwd=copy.folder,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    found = json.loads(document.read_text())
    doubts = [f"{each['name']}: {each['note']} {each['controls']}" for each in found["phases"] if each["note"]]
    return "; ".join([found["verdict"], *doubts, *(each["sentence"] for each in found["findings"])])


@pytest.mark.parametrize("fault", ALL, ids=named)
def test_a_change_applies_to_one_place_of_a_file_that_is_still_python(fault: FaultFile) -> None:
    compile(fault.patch.text(), fault.file, "exec")
    assert fault.file.startswith(("model/", "harness/") if fault.family == JUDGES else "impl/")


def test_there_are_many_mistakes_everywhere_and_most_are_noticed_by_controls() -> None:
    assert len(MISTAKES) >= 60
    assert len(BY_CONTROLS) >= 0.8 * len(MISTAKES)
    phases = {*PhaseName} - {PhaseName.VERIFY, PhaseName.SERVER}
    assert {phase_of(fault) for fault in BY_CONTROLS} == phases
    assert [room for room in ROOMS if not any(fault.file.startswith(room) for fault in MISTAKES)] == []


def test_there_are_many_changes_that_are_right_each_with_its_argument_and_the_phases_that_it_touches() -> None:
    assert len(RIGHT) >= 25
    assert all(fault.argument and fault.phases and {*fault.phases} <= {*PhaseName} for fault in RIGHT)


@pytest.mark.parametrize("fault", BY_TESTS, ids=named)
def test_the_test_that_notices_a_mistake_exists(fault: FaultFile) -> None:
    file, _, name = fault.noticed_by[0].partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("fault", always_if(lambda fault: fault.name in BY_DAY, BY_CONTROLS), ids=named)
def test_a_mistake_is_noticed_by_the_controls_of_its_phase(fault: FaultFile, questdb_data: Path) -> None:
    with planted_copy(fault.patch) as copy:
        found = verdict_of(copy, (phase_of(fault),), questdb_data / TABLE)
        assert copy.mark.exists() and not found.startswith(Verdict.VALID.name)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", BY_TESTS, ids=named)
def test_a_mistake_is_noticed_by_its_test(fault: FaultFile) -> None:
    with planted_copy(fault.patch) as copy:
        tests = [*copy.python, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-x", "-q", *fault.noticed_by]
        done = subprocess.run(
            tests, env=copy.environment, cwd=ROOT, capture_output=True, timeout=SECONDS_MAX, check=False, text=True
        )
        assert copy.mark.exists() and done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("fault", RIGHT, ids=named)
def test_a_change_that_is_right_raises_no_alarm(fault: FaultFile, questdb_data: Path) -> None:
    with planted_copy(fault.patch) as copy:
        assert verdict_of(copy, fault.phases, questdb_data / TABLE, *QUICK) == Verdict.VALID.name
        assert copy.mark.exists()
