"""Migration under power cuts: every crash of a run on every legal disk, later runs, and planted defects of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from depth import nightly, sampled
from migration_power import MigrationTarget, coverage_goals, explore_migration, migration_case
from planted_faults import planted
from real_tables import CHAIN, image_of

from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.power_cuts.examination import Bounds
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.replay import replay_power
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import C_8, C_512, C_4096, CDIR, MODELS, A, B, D, Model
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Progress, Property
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE

pytestmark = pytest.mark.usefixtures("remembering")

LEGACY = "legacy/9.3.4/chain"
DAY = "2024-01-01.1"
PATH = "table"
FIRST = Settings(stops_at_first=True)
IN_PLACE = "_pm is written under its name"
FILE_NOT_SYNCED = "the new _pm is not synced"
NAME_NOT_SYNCED = "the partition's directory is not synced"
SOME_MODELS = (A, B, C_4096, CDIR, D)


@pytest.fixture(scope="module")
def legacy(questdb_data: Path) -> DiskImage:
    """A table without `_pm`, below a path of its own."""
    return placed(questdb_data / LEGACY / "table")


def placed(folder: Path) -> DiskImage:
    files = image_of(folder).files
    return DiskImage.of_files({f"{PATH}/{name.removeprefix(f'{folder}/')}": content for name, content in files.items()})


def golden(questdb_data: Path) -> bytes:
    return (questdb_data / LEGACY / "migrated" / f"{DAY}.pm").read_bytes()


def in_day(image: DiskImage, **files: bytes) -> DiskImage:
    for name, content in files.items():
        image = image.with_file(f"{PATH}/{DAY}/{name}", content)
    return image


def without_pm(image: DiskImage) -> DiskImage:
    for file in [file for file in image.files if file.endswith(f"/{PM_FILE}")]:
        image = image.without_file(file)
    return image


def flipped(pm: bytes) -> bytes:
    return pm[:900] + bytes([pm[900] ^ 1]) + pm[901:]


STARTS: dict[str, Callable[[DiskImage, bytes], TestCase]] = {
    "no _pm": lambda image, _: migration_case(image, PATH),
    "an unfinished _pm": lambda image, pm: migration_case(in_day(image, **{"_pm.migrating": pm[:512]}), PATH),
    "an empty _pm": lambda image, _: migration_case(in_day(image, _pm=b""), PATH),
    "half a _pm": lambda image, pm: migration_case(in_day(image, _pm=pm[:1000]), PATH),
    "a flipped bit": lambda image, pm: migration_case(in_day(image, _pm=flipped(pm)), PATH),
    "two partitions": lambda _, __: migration_case(without_pm(made_image()), MADE_PATH),
}


def phase_of(case: TestCase, *models: Model, settings: Settings | None = None) -> Phase:
    return explore_migration(case, models=models, settings=settings)


@pytest.mark.parametrize(
    "models", [SOME_MODELS, nightly(tuple(model for model in MODELS if model is not C_8))], ids=len
)
@pytest.mark.parametrize("start", sampled(1, list(STARTS)))
def test_every_crash_leaves_the_old_pm_or_the_new_one_and_the_next_run_ends_the_same(
    legacy: DiskImage, questdb_data: Path, start: str, models: tuple[Model, ...]
) -> None:
    case = STARTS[start](legacy, golden(questdb_data))
    phase = phase_of(case, *models)
    assert (phase.name, phase.verdict, phase.findings, phase.note) == ("migration", Verdict.VALID, (), "")
    assert phase.complete and phase.controls == "passed"
    assert all(phase.reached[point] for point in coverage_goals(models))
    torn = phase_of(case, C_8)
    assert (torn.verdict, torn.complete) == (Verdict.VALID, False)


# Of the table that our own writer makes, the sizes may change.
@pytest.mark.nightly
@pytest.mark.parametrize("start", sampled(1, [start for start in STARTS if start != "two partitions"]))
def test_the_counts_of_the_document_are_those_of_the_exploration(
    legacy: DiskImage, questdb_data: Path, start: str
) -> None:
    text = (Path(__file__).parents[4] / "docs" / "migration.md").read_text(encoding="utf-8")
    phase = phase_of(STARTS[start](legacy, golden(questdb_data)), *MODELS)
    tried = sum(phase.counts[f"{model}: disks tried"] for model in MODELS)
    assert f"| {start} | {phase.counts['crash points']} | {tried} | {phase.explored} |" in text


@pytest.mark.parametrize("start", STARTS)
def test_after_a_kill_and_another_run_a_power_cut_loses_no_name(
    legacy: DiskImage, questdb_data: Path, start: str
) -> None:
    assert lost_after_another_run(STARTS[start](legacy, golden(questdb_data))) == set()


def test_a_run_that_trusts_a_name_that_it_finds_is_detected(legacy: DiskImage) -> None:
    with planted("a run that finds a partition migrated does not sync its directory"):
        assert lost_after_another_run(migration_case(legacy, PATH)) == {Property.LOST}


def lost_after_another_run(case: TestCase) -> set[str]:
    """Return what power cuts that lose names violate after a kill at any step and a complete second run."""
    case = replace(case, target=MigrationTarget(syncs_first=False))
    judge, process_group = PowerJudge(case), case.process_group()
    done = (*case.first_session, *case.first_session)
    violated = set()
    for point in Traces(case).of(A).points:
        kernel = point.kernel.fork()
        kernel.kill(0)
        world = process_group.begin(kernel, Progress())
        world.run(0)
        assert world.nodes[0].marks[-1].kind == ACKNOWLEDGED
        disks = legal_disks(world.kernel, CDIR)
        assert disks.is_complete
        violated |= {judge.judge(picked.disk, Bounds(done, len(done)))[0].violated for picked in disks}
    process_group.close()
    judge.close()
    return violated - {""}


DETECTED_BY = {
    IN_PLACE: {A, B, C_4096, C_512, CDIR, D},
    FILE_NOT_SYNCED: {B, C_4096, C_512, CDIR, D},
    NAME_NOT_SYNCED: {B, C_4096, C_512, CDIR, D},
}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", sampled(1, list(DETECTED_BY)))
def test_a_missing_step_is_found_in_the_models_that_need_it_and_in_no_other(legacy: DiskImage, fault: str) -> None:
    sound = migration_case(legacy, PATH)
    sound.oracle((0,))
    for model in (A, B, C_4096, C_512, CDIR, D):
        with planted(fault):
            phase = phase_of(migration_case(legacy, PATH).expecting(sound), model, settings=FIRST)
        is_detected = model in DETECTED_BY[fault]
        assert bool(phase.findings) is is_detected, model
        if is_detected:
            finding = phase.findings[0]
            with planted(fault):
                assert replay_power(migration_case(legacy, PATH).expecting(sound), finding) is Verdict.INVALID
            assert replay_power(migration_case(legacy, PATH), finding) is not Verdict.INVALID


def test_half_of_a_kept_pm_makes_a_run_fail_that_does_not_clear_it(legacy: DiskImage, questdb_data: Path) -> None:
    broken = in_day(legacy, _pm=golden(questdb_data)[:1000])
    with planted("what an interrupted run was still keeping of an old _pm stays in the way"):
        phase = phase_of(migration_case(broken, PATH), A, settings=FIRST)
    assert {finding.property for finding in phase.findings} == {Property.COMMIT}


def test_a_second_run_that_makes_a_sound_pm_anew_loses_its_history(questdb_data: Path) -> None:
    image = placed(questdb_data / CHAIN)
    sound = migration_case(image, PATH)
    assert sound.oracle(()) == sound.oracle((0,)) == sound.oracle((0, 0))
    with planted("a sound _pm is made anew, without its history"):
        phase = phase_of(migration_case(image, PATH).expecting(sound), A, settings=FIRST)
    assert {finding.property for finding in phase.findings} == {Property.COMMIT}


def test_a_size_that_is_taken_for_the_token_is_found_after_a_killed_writer(
    legacy: DiskImage, questdb_data: Path
) -> None:
    file = f"{PATH}/{DAY}/{DATA_FILE}"
    data = legacy.files[file]
    longer = legacy.with_file(file, data + b"PAR1")
    assert phase_of(migration_case(longer, PATH), A).verdict is Verdict.VALID
    with planted("the size of data.parquet is taken for the token"):
        # Where nothing follows the token the defect has no effect.
        assert phase_of(migration_case(legacy, PATH), A).verdict is Verdict.VALID
        with pytest.raises(NotExplorableError, match=r"NotMigratedError"):
            phase_of(migration_case(longer, PATH), A)


def test_the_same_exploration_gives_the_same_phase(legacy: DiskImage) -> None:
    case = migration_case(legacy, PATH)
    first, second = (phase_of(case, C_512) for _ in range(2))
    assert first == second
