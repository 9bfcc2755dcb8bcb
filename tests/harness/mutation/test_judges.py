"""Mistakes in all that judges are noticed, those of the implementation by the explorers that are to notice them.

A mistake in the model, the checkers, the explorers or the injectors that the controls of a phase notice makes a check
of the bundled table, in which nothing is wrong, end with another verdict than VALID; what is right raises no alarm.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from depth import always_if, nightly, sampled
from explorations import explore_stateful
from planted_faults import NOT_FOR_CRASHES, NOTICED, planted

from tornproof.harness.check import PhaseName
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.kills.exploration import Exploration, Plan
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES, FaultFile, fault_files
from tornproof.harness.mutation.planted_copy import PlantedCopy, planted_copy
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation

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


# Defects of the implementation


SHARE_SIZE = 16
HOUR_MICROSECONDS = 3_600_000_000


def rows(*times_and_values: tuple[int, int]) -> pa.Table:
    times, values = zip(*times_and_values, strict=True)
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": values, "s": [f"row {v}" for v in values]})


OPERATIONS = (
    TableOperation(rows=(rows((0, 1), (10, 2)),)),
    TableOperation(rows=(rows((20, 3)),)),
    TableOperation(rows=(rows((5, 4), (HOUR_MICROSECONDS + 1, 5)),)),
    TableOperation(rewritten=(0,)),
)


def explored(operations: Sequence[TableOperation], *, cuts: int = 0) -> Phase:
    target = TableTarget(encode=remembered_encoder())
    with remembered_decoding():
        return explore_crashes(target, operations, path="table", cuts_max=cuts, recovery_kills_max=1)


def test_there_are_more_than_ten_defects_of_writers_readers_recovery_and_purging() -> None:
    assert len(NOTICED) > 10 and len({fault.name for fault in NOTICED}) == len(NOTICED)
    locations = " ".join(fault.patch.location for fault in NOTICED)
    for part in ("commit:HARDENED", "table_writer:", "pm.chain:find_token", "write.recovery:", ":purge"):
        assert part in locations


@pytest.mark.parametrize(
    ("operations", "cuts"),
    [(OPERATIONS[:2], 0), nightly(OPERATIONS, 0), nightly(OPERATIONS[:1], 400)],
    ids=["kills of two commits", "kills", "failing calls and cuts"],
)
def test_without_a_defect_nothing_is_found_whatever_was_planted_before(
    operations: Sequence[TableOperation], cuts: int
) -> None:
    for fault in NOTICED:
        with planted(fault):
            pass
    assert explored(operations, cuts=cuts).findings == ()


FOR_CRASHES = [fault for fault in NOTICED if fault.name not in NOT_FOR_CRASHES]


def noticed(operations: Sequence[TableOperation], *, cuts: int = 0) -> str:
    """Return the sentence of the first finding of the same exploration, which ends there."""
    with remembered_decoding():
        try:
            judge = Judge(TableTarget(encode=remembered_encoder()), operations, start=None, path="table", expected=None)
        except Violation as violation:
            return violation.reason
        plan = Plan.of(judge, cuts_max=cuts, recovery_kills_max=1)
        exploration = Exploration(judge, "table", plan)
        found = (exploration.run([share]).findings for share in plan.shares(SHARE_SIZE))
        return next((finding.sentence for findings in found for finding in findings.values()), "")


@pytest.mark.parametrize("fault", sampled(5, FOR_CRASHES), ids=named)
def test_the_crash_explorer_notices(fault: FaultFile) -> None:
    # A call that fails is tried after all kills, so one commit has to do where only that shows the defect.
    is_about_failing = fault.row == 27
    with planted(fault):
        assert noticed(OPERATIONS[:1], cuts=400) if is_about_failing else noticed(OPERATIONS)


FOR_THE_MACHINE = [fault for fault in NOTICED if fault.name in NOT_FOR_CRASHES]


# `test_stateful` plants them too, without shrinking the findings.
@pytest.mark.parametrize("fault", [nightly(fault) for fault in FOR_THE_MACHINE], ids=named)
def test_the_state_machine_notices(fault: FaultFile) -> None:
    with planted(fault):
        phase = explore_stateful(None, "table", steps=800, seed=0)
    assert phase.verdict is Verdict.INVALID and phase.findings[0].sentence
