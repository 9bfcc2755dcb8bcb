"""Power cuts on toys and on tables: what each model detects and accepts, and what its phase says."""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import Mock

import pytest
import table_builder as tb
from depth import nightly, sampled
from msgspec import structs
from recorded_phases import AsRecorded
from toy_rejections import KeepsRejected, WritesBlockAgain

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Phase, Verdict, calls_at_most
from tornproof.harness.counterexamples.make import as_log
from tornproof.harness.counterexamples.replay import replay_log
from tornproof.harness.explorers.power_cuts import controls as power_controls
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts import sessions
from tornproof.harness.explorers.power_cuts.changed_again import changes
from tornproof.harness.explorers.power_cuts.controls import failed_controls, toy_case, violated
from tornproof.harness.explorers.power_cuts.exploration import ModelExploration, Settings, finding_of
from tornproof.harness.explorers.power_cuts.explorer import Power, covers, explore_power, power_phase
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.replay import replay_power
from tornproof.harness.explorers.power_cuts.sessions import LaterSessions, explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.legal_files import LegalFile, Limits, legal_file
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    C_4096,
    CDIR,
    MODELS,
    N_512,
    W_512,
    A,
    B,
    D,
    Model,
)
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.toy import (
    HeaderFirst,
    NeverDone,
    NeverSyncs,
    NeverSyncsNames,
    RecoversInPlace,
    SwallowsErrors,
    Toy,
    ToyWriter,
)
from tornproof.harness.systems.toy_control import Control
from tornproof.harness.systems.toy_locks import DropsUndo, Undo, UndoesUnchecked
from tornproof.harness.systems.toy_losses import (
    BLOCK_BYTES,
    RECOVERS_LAZILY,
    SYNCS_RENAMED_DATA,
    TRUSTS_BLOCKS,
    TRUSTS_SECTORS,
    CarelessAfterLoss,
    GoesOnBehindLoss,
    TrustsFailedSync,
    TrustsOrder,
    TrustsRename,
    TrustsZeros,
)
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.errors import CorruptError, StorageError
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.write.commit import HARDENED, RecoveryAction
from tornproof.testing import target

pytestmark = pytest.mark.usefixtures("remembering")

FEW = Settings(
    limits=Limits(file_count=64, disk_count=256), nested_limits=Limits(file_count=16, names_count=16, disk_count=32)
)


@pytest.fixture(scope="module")
def table() -> TestCase:
    start = made_image()
    return TestCase(
        target=TableTarget(encode=remembered_encoder()),
        path=MADE_PATH,
        operations=crash_operations(start, MADE_PATH),
        first_session=(0, 1, 2),
        second_session=(3,),
        start=start,
    )


def phase_of(case: TestCase, *models: Model, settings: Settings = FEW, **more: object) -> Phase:
    return explore_power(
        case,
        models=models,
        settings=settings,
        **more,  # type: ignore[arg-type]
    )


def test_a_failed_sync_of_which_not_every_subset_of_blocks_is_tried_is_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only six subsets were tried of however many blocks, and the model was complete all the same."""
    assert "D complete" in phase_of(toy_case(TrustsFailedSync()), D, points=()).bound
    monkeypatch.setattr(sessions, "WRITTEN_LIMITS", Limits(file_count=2))
    phase = phase_of(toy_case(TrustsFailedSync()), D, points=())
    assert (phase.complete, "D a sample" in phase.bound) == (False, True)


def test_one_failed_sync_of_which_not_every_subset_is_tried_makes_all_of_them_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = itertools.count()

    def first_cut(file: FileState, model: Model, limits: Limits) -> LegalFile:
        found = legal_file(file, model, limits)
        return found if next(asked) else found._replace(legal_count=found.legal_count + 1)

    monkeypatch.setattr(sessions, "legal_file", first_cut)
    assert "D a sample" in phase_of(toy_case(TrustsFailedSync()), D, points=()).bound and next(asked) > 2


class CountsInAMapping(Toy):
    """Has its letters at an offset, and ignores that the sync of a mapping of the first page fails."""

    def __init__(self, offset_bytes: int) -> None:
        self.name = f"letters at {offset_bytes}"
        self._offset_bytes = offset_bytes

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.truncate(2 * PAGE_BYTES)

    def read(self, storage: Storage, path: str) -> bytes:
        with storage.open_for_reading(f"{path}/state") as file:
            return file.pread(8, self._offset_bytes).rstrip(b"\0")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with storage.open_for_writing(f"{path}/state") as file:
            file.pwrite(file.pread(8, self._offset_bytes), self._offset_bytes)
            file.fsync()
        yield ToyWriter(self, storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        content = self.read(storage, path) + operation
        with storage.open_for_writing(f"{path}/state") as file, file.map(PAGE_BYTES) as mapping:
            file.pwrite(content, self._offset_bytes)
            with suppress(StorageError):
                mapping.msync()
            file.fsync()


@pytest.mark.parametrize(("offset_bytes", "is_lost"), [(8, True), (PAGE_BYTES, False)])
def test_a_failed_sync_of_a_mapping_loses_what_is_mapped_and_nothing_behind_it(
    offset_bytes: int, is_lost: bool
) -> None:
    """It was said to lose all that was written to the file, also where a later sync of the file succeeded."""
    phase = phase_of(toy_case(CountsInAMapping(offset_bytes)), D, points=())
    assert phase.complete and bool(phase.findings) == is_lost


@pytest.mark.parametrize("model", [A, N_512, D], ids=str)
@pytest.mark.parametrize("toy", [Toy(), NeverSyncs()], ids=lambda toy: toy.name)
def test_a_bound_of_disks_is_kept_to_the_last_one_and_shared_by_the_crash_points(toy: Toy, model: Model) -> None:
    power = Power(toy_case(toy))
    whole = power.explore(model, Settings())
    for disks_max in (1, 2, whole.distinct_count // 3, whole.distinct_count - 1):
        cut = power.explore(model, Settings(disks_max=disks_max))
        assert cut.distinct_count <= disks_max and not cut.is_complete and not cut.is_cut
        assert {each.property for each in cut.findings} <= {each.property for each in whole.findings}
        is_shared = disks_max >= whole.point_count and model is not D
        assert not is_shared or cut.counts[f"{model}: crash points"] >= whole.point_count
    assert power.explore(model, Settings(disks_max=100 * whole.distinct_count)) == whole
    power.close()


@pytest.mark.parametrize("model", sampled(4, MODELS), ids=str)
def test_every_model_keeps_what_is_synced_and_loses_what_is_not(model: Model) -> None:
    assert not violated(model, Toy())
    assert bool(violated(model, NeverSyncs())) is (model is not A)
    assert bool(violated(model, NeverSyncsNames())) is (model is not A)
    assert bool(violated(model, SwallowsErrors())) is (model is D)
    assert violated(model, NeverDone())
    assert failed_controls([model]) == []


class RenamesAtEachOpening(Toy):
    """Changes no byte when it is opened, but a name."""

    name = "renames at each opening"

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        self.write_anew(storage, f"{path}/one", b"a mark")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        names = [f"{path}/one", f"{path}/two"]
        storage.rename(*(names if storage.kind(names[0]) is EntryKind.FILE else reversed(names)))
        with super().open_writer(storage, path) as writer:
            yield writer


def test_a_writer_that_goes_on_after_a_failed_sync_must_not_build_on_what_it_lost() -> None:
    """The session ended with the commit that was rejected, so that nobody saw what the next one was built on."""
    assert violated(D, WritesBlockAgain()) == violated(D, KeepsRejected()) == set()
    case = toy_case(GoesOnBehindLoss())
    findings = phase_of(case, D).findings
    lost = [finding for finding in findings if finding.property == Property.LOST]
    assert lost and {replay_power(case, finding) for finding in lost} == {Verdict.INVALID}
    assert not phase_of(dataclasses.replace(case, goes_on=False), D).findings


def test_a_power_cut_before_a_recovery_that_no_reader_precedes_is_judged_too() -> None:
    """A reader came first and put back what the recovery would have lost."""
    assert violated(B, Undo()) == set()
    assert Property.LOST in violated(B, DropsUndo())
    case = toy_case(DropsUndo())
    assert {replay_power(case, finding) for finding in phase_of(case, B).findings} == {Verdict.INVALID}


def test_a_second_recovery_may_not_change_a_name_either() -> None:
    findings = phase_of(toy_case(RenamesAtEachOpening()), A).findings
    causes = [each.evidence["why"]["cause"] for each in findings if each.property == Property.IDEMPOTENT]
    assert causes == ["a second recovery makes one, removes two", "a second recovery removes one, makes two"]


def test_of_many_changes_of_a_file_the_first_ones_are_said() -> None:
    def disk(**files: bytes) -> Mock:
        return Mock(files=lambda: {f"t/{name}": content for name, content in files.items()})

    scattered = bytes(1 if number % 20 == 0 else 0 for number in range(120))
    found = list(changes(disk(a=bytes(120), b=b"", c=b"x"), disk(a=scattered, b=bytes(30), c=b"x"), "t"))
    assert [each.kind for each in found] == ["changes a", "changes b"]
    assert found[0].ranges[1:] == (*(f"bytes {n} to {n + 1} (b'\\x00' → b'\\x01')" for n in (20, 40, 60)), "others")
    assert found[1].text.startswith("changes bytes 0 to 30 (b'' → b'") and found[1].text.endswith("...) of b")


def test_a_model_is_left_out_only_where_one_that_contains_it_was_complete_and_nothing_was_found() -> None:
    case, broken = toy_case(Toy()), toy_case(NeverSyncs())
    results = []
    for each in (case, broken):
        power = Power(each)
        results.append(power.explore(N_512, Settings()))
        power.close()
    result, found = results
    assert [model.name for model in MODELS if covers(result, model)] == ["B", "C-4096", "C-512", "W-512", "Cdir"]
    assert not any(covers(found, model) for model in MODELS)
    assert not any(covers(dataclasses.replace(result, has_every_disk=False), model) for model in MODELS)
    bound = power_phase(case, [result], None).bound
    assert "; B, C-4096, C-512, W-512, Cdir leave no other disks than N-512" in bound
    assert "leave no other disks" not in power_phase(broken, [found], None).bound


def test_a_model_that_left_out_disks_of_a_crash_inside_of_a_recovery_is_a_sample_and_covers_none() -> None:
    power = Power(toy_case(Undo()))
    every, some = (power.explore(N_512, Settings(nested_limits=Limits(disk_count=count))) for count in (128, 2))
    power.close()
    assert every.is_complete and covers(every, B)
    assert not some.is_complete and "N-512 a sample of " in some.bound
    assert not some.findings and not any(covers(some, model) for model in MODELS)


@pytest.fixture
def controls_anew() -> Iterator[None]:
    power_controls.controls_of_run.cache_clear()
    yield
    power_controls.controls_of_run.cache_clear()


STEPS_OF_NO_SESSION = 9_999


@pytest.mark.usefixtures("controls_anew")
def test_a_control_that_a_model_gets_wrong_is_named_and_its_verdict_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = Control(target=Toy(), violated=Property.LOST)
    monkeypatch.setattr(power_controls, "CONTROLS", (control,))
    wrong = f"the toy 'toy' was not detected in B: {Property.LOST}"
    assert failed_controls([B]) == [wrong]
    phase = phase_of(toy_case(Toy()), B, points=())
    assert (phase.verdict, phase.controls) == (Verdict.UNKNOWN, wrong)


@pytest.mark.parametrize("target", [HeaderFirst(), RecoversInPlace()], ids=lambda target: target.name)
def test_model_a_finds_what_a_kill_alone_breaks(target: Target) -> None:
    assert violated(A, target)


def test_only_a_crash_inside_a_recovery_finds_one_that_works_in_place() -> None:
    found = {}
    for depth in (0, 1):
        case = toy_case(RecoversInPlace())
        judge = PowerJudge(case)
        found[depth] = explore_model(judge, Traces(case), A, Settings(nested_depth=depth)).found
        judge.close()
    assert found[0] == {}
    assert {len(each.cuts) for each in found[1].values()} == {2}


@pytest.mark.parametrize(
    ("target", "model"),
    sampled(
        2,
        [
            (NeverSyncs(), C_4096),
            (NeverSyncsNames(), CDIR),
            (RecoversInPlace(), A),
            (SwallowsErrors(), D),
            (NeverSyncs(), D),
            (TrustsFailedSync(), D),
            (UndoesUnchecked(), D),
            (RECOVERS_LAZILY, N_512),
            (TrustsZeros(), W_512),
            (TrustsRename(), N_512),
            (SYNCS_RENAMED_DATA, C_512),
        ],
    ),
    ids=lambda value: value.name,
)
def test_a_finding_is_replayed_from_its_evidence_alone(target: Target, model: Model, as_recorded: AsRecorded) -> None:
    case = toy_case(target)
    phase = phase_of(case, model, points=())
    as_recorded(phase)
    assert phase.verdict is Verdict.INVALID and phase.findings
    for finding in phase.findings:
        assert replay_power(case, finding) is Verdict.INVALID
        assert replay_power(toy_case(Toy()), finding) is not Verdict.INVALID
        other = dataclasses.replace(finding, property="something else")
        assert replay_power(case, other) is Verdict.UNKNOWN


@pytest.mark.parametrize("number", range(2))
def test_a_sync_that_fails_in_a_recovery_is_found_only_where_it_fails_and_becomes_a_small_finding(number: int) -> None:
    """Of recoveries after a kill no sync failed: a writer that takes them for done all the same passed as VALID."""
    case = toy_case(UndoesUnchecked())
    findings = phase_of(case, D, points=()).findings
    assert findings and all("then" in each.evidence["origin"] for each in findings)
    violated = (Property.LOST, Property.WRONG_SNAPSHOT)[number]
    finding = next(each for each in findings if each.property == violated)
    assert "in the recovery the sync at call" in finding.sentence
    assert [replay_power(case, finding) for _ in range(10)] == [Verdict.INVALID] * 10
    assert replay_power(toy_case(Undo()), finding) is not Verdict.INVALID
    log = as_log(case, finding)
    assert [each["kind"] for each in log.evidence["log"]][:2] == ["kill", "fail"]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.INVALID),
        ({"step": STEPS_OF_NO_SESSION}, Verdict.INVALID),
        ({"step": 0}, Verdict.INVALID),
        ({"path": "toy/none"}, Verdict.UNKNOWN),
        ({"step_kind": "lock"}, Verdict.UNKNOWN),
    ],
)
def test_a_finding_is_replayed_before_the_same_call_wherever_that_is_now(
    change: dict[str, Any], verdict: Verdict
) -> None:
    """It did not happen any more once a few harmless calls came before it, although nothing was mended."""
    case = toy_case(NeverSyncs())
    finding, *_ = phase_of(case, C_4096, points=()).findings
    assert finding.evidence["step_kind"] is not None
    changed = dataclasses.replace(finding, evidence={**finding.evidence, **change})
    assert replay_power(case, changed) is verdict


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.INVALID),
        ({"step": 1}, Verdict.INVALID),
        ({"step": 0}, Verdict.UNKNOWN),
        ({"step": STEPS_OF_NO_SESSION}, Verdict.INVALID),
        ({"path": "toy/none"}, Verdict.UNKNOWN),
        ({"step_kind": None}, Verdict.UNKNOWN),
    ],
)
def test_a_recovery_is_cut_after_the_same_call_wherever_that_is_now(change: dict[str, Any], verdict: Verdict) -> None:
    case = toy_case(RecoversInPlace())
    finding, *_ = phase_of(case, A, points=()).findings
    first, second = finding.evidence["cuts"]
    assert second["step_kind"] == "truncate" and second["path"] == "toy/state"
    changed = dataclasses.replace(finding, evidence={**finding.evidence, "cuts": [first, {**second, **change}]})
    assert replay_power(case, changed) is verdict
    older = {"step": second["step"], "choice": second["choice"]}
    changed = dataclasses.replace(finding, evidence={**finding.evidence, "cuts": [first, older]})
    assert replay_power(case, changed) is Verdict.INVALID


@pytest.mark.parametrize("model", [B, D])
def test_a_finding_whose_step_is_no_number_of_steps_cannot_be_replayed(model: Model) -> None:
    """Such a move was taken for the death of the writer, and the finding for one that does not happen any more."""
    case = toy_case(NeverSyncs())
    findings = [each for each in phase_of(case, model, points=()).findings if each.property == Property.LOST]
    for finding, step in itertools.product(findings[:2], [1.5, 2.0, "2", True, -1, None, [2]]):
        origin = {name: step if name.endswith("_step") else value for name, value in finding.evidence["origin"].items()}
        changes: list[dict[str, Any]] = [{"step": step}, {"origin": origin} if origin else {"cuts": [{}]}]
        for changed in changes:
            damaged = dataclasses.replace(finding, evidence={**finding.evidence, **changed})
            assert replay_power(case, damaged) is Verdict.UNKNOWN


def test_a_toy_whose_exploration_breaks_down_is_no_toy_without_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_down(*_: object) -> None:
        raise LookupError("a mistake")

    monkeypatch.setattr(power_controls, "explore_model", breaks_down)
    with pytest.raises(LookupError, match="a mistake"):
        power_controls.violated(B, Toy())


ORIGINS = ("cut_step", "killed_step", "failed_step", "written")
"""The parts of evidence that say what came before the session in which the power was cut."""


@pytest.mark.parametrize(
    ("target", "model", "shown"),
    [
        (RecoversInPlace(), A, {(2, ())}),
        *sampled(
            2,
            [
                (NeverSyncs(), D, {(1, ("killed_step",)), (1, ("failed_step",))}),
                (TrustsFailedSync(), D, {(0, ("failed_step", "written")), (1, ("failed_step", "written"))}),
                (CarelessAfterLoss(), D, {(1, ("failed_step", "written"))}),
                (RECOVERS_LAZILY, N_512, {(1, ("cut_step",))}),
            ],
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_whatever_came_before_a_power_cut_is_in_a_log_that_replays(
    target: Target, model: Model, shown: set[tuple[int, tuple[str, ...]]]
) -> None:
    case = toy_case(target)
    found = phase_of(case, model, points=()).findings
    kinds = {}
    for finding in found:
        origin = finding.evidence["origin"]
        kinds[len(finding.evidence["cuts"]), tuple(name for name in ORIGINS if name in origin)] = finding
    assert kinds.keys() == shown
    for finding in kinds.values():
        log = as_log(case, finding)
        assert "log" in log.evidence, finding.evidence
        replayed = replay_log(dataclasses.replace(log, evidence=json.loads(json.dumps(log.evidence))), target)
        assert (replayed.verdict, replayed.is_same) == (Verdict.INVALID, True)


def test_what_only_the_explorer_judges_stays_as_power_cuts() -> None:
    case = toy_case(NeverDone())
    finding, *_ = phase_of(case, A, points=()).findings
    assert finding.property == Property.IDEMPOTENT and "cuts" in as_log(case, finding).evidence


@pytest.mark.parametrize(
    "evidence", [{}, {"cuts": [{"step": 0}]}, {"cuts": [{"step": 9999, "choice": "[]"}], "origin": {}}]
)
def test_invalid_evidence_cannot_be_replayed(evidence: dict[str, object]) -> None:
    finding = Finding(property="", phase="power", sentence="", evidence=evidence)
    assert replay_power(toy_case(Toy()), finding) is Verdict.UNKNOWN


# `test_barriers` explores the same commits in every model, and stops at a finding.
@pytest.mark.parametrize(
    "model",
    [CDIR, *(nightly(model) for model in (A, B, C_4096, C_512, N_512))],
    ids=str,
)
def test_the_hardened_commit_is_safe_and_explored_completely(
    table: TestCase, model: Model, as_recorded: AsRecorded
) -> None:
    settings = Settings(limits=Limits(file_count=1024))
    phase = phase_of(table, model, settings=settings)
    as_recorded(phase)
    assert (phase.verdict, phase.complete, phase.findings, phase.note) == (Verdict.VALID, True, (), "")
    assert phase.counts[f"{model}: distinct disks"] >= 60
    assert phase.counts[f"{model}: disks tried"] == phase.counts[f"{model}: legal disks"]
    assert set(power_points.coverage_goals(model)) <= {name for name, count in phase.reached.items() if count}
    assert phase.explored == sum(
        phase.counts[f"{model}: {part}distinct disks{rest}"]
        for part, rest in (("", ""), ("further ", " of crashes in recovery"))
    )


@pytest.mark.nightly
@pytest.mark.parametrize("model", [A, B, C_4096, C_512, CDIR], ids=str)
def test_the_hardened_commit_is_safe_when_two_recoveries_in_a_row_are_crashed(table: TestCase, model: Model) -> None:
    once, twice = (phase_of(table, model, settings=Settings(nested_depth=depth)) for depth in (1, 2))
    assert (twice.verdict, twice.findings) == (Verdict.VALID, ())
    assert twice.explored >= once.explored


@pytest.mark.parametrize(
    ("first_session", "points"),
    [((0,), (power_points.TORN,)), nightly((0, 1, 2), tuple(power_points.coverage_goals(C_8)))],
)
def test_torn_sectors_are_sampled_and_the_phase_says_of_how_many(
    table: TestCase, first_session: tuple[int, ...], points: tuple[str, ...]
) -> None:
    phase = phase_of(dataclasses.replace(table, first_session=first_session), C_8, points=points)
    assert (phase.verdict, phase.complete) == (Verdict.VALID, False)
    assert "C-8 a sample of " in phase.bound and " of about 2^" in phase.bound
    assert phase.reached[power_points.TORN]


@pytest.mark.parametrize("first_session", [(0,), nightly((0, 1, 2))], ids=len)
def test_the_hardened_commit_is_safe_when_syncs_fail(table: TestCase, first_session: tuple[int, ...]) -> None:
    phase = phase_of(dataclasses.replace(table, first_session=first_session), D)
    assert (phase.verdict, phase.complete, phase.note) == (Verdict.VALID, True, "")
    assert len(power_points.all_coverage_goals(MODELS)) >= 12


@pytest.mark.nightly
@pytest.mark.parametrize("follows", ["a kill", "a failed sync"])
def test_a_recovery_that_does_not_store_the_version_again_is_found_where_the_page_cache_survives(
    table: TestCase, follows: str
) -> None:
    kept = tuple(action for action in HARDENED.recovery if action is not RecoveryAction.STORE_VERSION_AGAIN)
    assert isinstance(table.target, TableTarget)
    target = dataclasses.replace(table.target, protocol=structs.replace(HARDENED, recovery=kept))
    case = dataclasses.replace(table, target=target, first_session=(0,))
    assert phase_of(case, B, points=()).verdict is Verdict.VALID
    judge = PowerJudge(case)
    exploration = ModelExploration(judge, C_4096, dataclasses.replace(FEW, stops_at_first=True))
    sessions = LaterSessions(case, exploration)
    if follows == "a kill":
        sessions.explore_kills(Traces(case).of(D).points)
    else:
        sessions.explore_failed_syncs()
    (found,) = exploration.found.values()
    assert found.verdict.violated == Property.LOST
    assert replay_power(case, finding_of(found, "")) is Verdict.INVALID
    sessions.close()
    judge.close()


def version_again_and_not_the_size(storage: Storage, table_path: str, version: int) -> None:
    with storage.open_for_writing(f"{table_path}/_txn") as file, file.map(file.size_bytes()) as mapping:
        mapping.store_u64(0, version)
        mapping.msync()


@pytest.mark.nightly
@pytest.mark.parametrize("is_size_synced", [True, False])
def test_a_commit_killed_before_the_sync_of_a_longer_txn_loses_no_later_one(is_size_synced: bool) -> None:
    # Its `_txn` has no room for another record.
    start = tb.SMALL.image()
    case = TestCase(
        target=TableTarget(encode=remembered_encoder()),
        path="/table",
        operations=crash_operations(start, "/table"),
        first_session=(0,),
        second_session=(1,),
        start=start,
    )
    location = "tornproof.impl.write.recovery:_store_version_again"
    with nullcontext() if is_size_synced else replaced(location, version_again_and_not_the_size):
        judge = PowerJudge(case)
        exploration = ModelExploration(judge, C_4096, dataclasses.replace(FEW, stops_at_first=True))
        sessions = LaterSessions(case, exploration)
        sessions.explore_kills(Traces(case).of(D).points)
        found = [each.verdict.violated for each in exploration.found.values()]
        sessions.close()
        judge.close()
    assert found == ([] if is_size_synced else [Property.REJECTED])


def test_a_point_that_is_never_reached_makes_a_verdict_unknown() -> None:
    phase = phase_of(toy_case(Toy()), B, points=("a blue moon",))
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, "never reached: a blue moon")
    assert phase_of(toy_case(Toy()), B, points=()).verdict is Verdict.VALID


def test_a_model_without_enough_time_is_not_complete_and_the_bound_says_how_far_it_got(table: TestCase) -> None:
    phase = phase_of(table, A, has_time=calls_at_most(50))
    assert (phase.verdict, phase.complete) == (Verdict.UNKNOWN, False)
    assert phase.note.startswith("never reached: "), "a run that was cut is asked for its coverage goals too"
    assert re.search(r"A a sample of \d+ of \d+ disks at the first \d+ points", phase.bound)


def test_the_bound_names_the_complete_model_and_the_one_without_enough_time() -> None:
    case = toy_case(Toy())
    phase = explore_power(case, has_time=calls_at_most(40), models=[A, C_8], points=())
    assert (phase.verdict, phase.complete) == (Verdict.VALID, False), phase.note
    assert "A complete" in phase.bound and "C-8 a sample of " in phase.bound


def test_a_sample_of_torn_sectors_makes_the_phase_one(table: TestCase, as_recorded: AsRecorded) -> None:
    phase = phase_of(dataclasses.replace(table, first_session=(0,)), A, C_8, points=())
    as_recorded(phase)
    assert not phase.complete and "A complete" in phase.bound and "C-8 a sample of " in phase.bound


@pytest.mark.parametrize("is_counting", [False, True])
def test_what_is_written_after_many_writes_to_the_same_place_is_a_crash_point(is_counting: bool) -> None:
    """Of a commit that was taken to repeat itself 190 steps were left out, and the phase was said to be complete."""

    def commit(storage: Storage, path: str, operation: object) -> None:
        with storage.open_for_writing(f"{path}/x", OpenMode.EXISTING_OR_NEW) as file:
            for number in range(700):
                content = b"torn" if number == 600 else b"same"
                file.pwrite(content + b"%d" % number * is_counting, 0)

    def read(storage: Storage, path: str) -> object:
        return storage.kind(f"{path}/x")

    own = target(name="many", create=lambda storage, path: storage.mkdir(path), read=read, commit=commit)
    trace = Traces(TestCase(target=own, path="t", operations=(1,), first_session=(0,))).of(B)
    assert any(b"torn" in state.content for point in trace.points for state in point.kernel.files.values())


def test_of_more_crash_points_than_asked_for_every_nth_is_visited_and_the_bound_says_so() -> None:
    case = toy_case(Toy())
    whole = phase_of(case, A, points=())
    count = whole.counts["A: crash points"]
    for points_max in (count - 1, count // 2, 1):
        every = -(-count // points_max)
        phase = phase_of(case, A, points=(), settings=dataclasses.replace(FEW, points_max=points_max))
        assert phase.counts["A: crash points"] == len(range(0, count, every)) <= points_max
        assert not phase.complete and f" at one in {every} of the points" in phase.bound
    assert phase_of(case, A, points=(), settings=dataclasses.replace(FEW, points_max=count)) == whole


@pytest.mark.parametrize("points_max", [None, 7])
def test_progress_of_a_model_ends_at_its_total(points_max: int | None) -> None:
    said: list[tuple[int, int | None]] = []
    phase_of(
        toy_case(Toy()),
        A,
        points=(),
        settings=dataclasses.replace(FEW, points_max=points_max),
        on_progress=lambda done, total: said.append((done, total)),
    )
    assert said[-1][0] == said[-1][1] == len(said)


def test_the_same_exploration_gives_the_same_phase(table: TestCase) -> None:
    one_commit = dataclasses.replace(table, first_session=(0,))
    first, second = (phase_of(one_commit, C_512) for _ in range(2))
    assert first == second


def test_each_part_gets_its_share_of_the_disks_that_are_left() -> None:
    exploration = ModelExploration(Mock(), B, Settings(disks_max=11))
    shares = []
    for part in exploration.shared(["a", "b", "c", "d"]):
        before = len(exploration.tally.distinct)
        shares.append(exploration._stop_at - before)
        judged = shares[-1] - (part == "b")  # one that has fewer than it may
        exploration.tally.distinct.update({((part, number), Mock()): 1 for number in range(judged)})
    assert shares == [2, 3, 3, 4]


def words_of(*numbers: int, apart: int = 8) -> bytes:
    return b"".join(number.to_bytes(8, "little").ljust(apart, b"\0") for number in numbers)


NAMED = {"state0": b"old", "state1": b"new"}


@pytest.mark.parametrize(
    ("toy", "files", "letters"),
    [
        (TrustsRename(), {**NAMED, "valid0": b""}, b"old"),
        (TrustsRename(), {**NAMED, "valid1": b""}, b"new"),
        (TrustsRename(), {**NAMED, "valid0": b"", "valid1": b""}, None),
        (TrustsRename(), NAMED, None),
        (TRUSTS_SECTORS, {"state": words_of(2, 2)}, b"xx"),
        *((TRUSTS_SECTORS, {"state": words_of(*words)}, None) for words in ((1, 2), (2, 1))),
        *((TRUSTS_BLOCKS, {"state": words_of(*words, apart=1016)[:1024]}, None) for words in ((1, 2), (2, 1))),
        (TrustsOrder(), {"state": words_of(1, 2, apart=BLOCK_BYTES)}, b"x"),
        (TrustsOrder(), {"state": words_of(2, 1, apart=BLOCK_BYTES)}, None),
        (RECOVERS_LAZILY, {"state": b"ab", "last": words_of(2) + b"c"}, b"abc"),
        (RECOVERS_LAZILY, {"state": b"ab", "last": words_of(1) + b"c"}, b"ac"),
        (RECOVERS_LAZILY, {"state": b"ab", "last": words_of(3) + b"c"}, None),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_toy_rejects_each_way_in_which_its_files_contradict_each_other(
    toy: Toy, files: dict[str, bytes], letters: bytes | None
) -> None:
    """One that trusts renames may have accepted two names, and proved nothing of disks that have both."""
    storage = MemoryStorage.of(DiskImage.of_files({f"toy/{name}": content for name, content in files.items()}))
    with nullcontext() if letters is not None else pytest.raises(CorruptError):
        assert toy.read(storage, "toy") == letters
