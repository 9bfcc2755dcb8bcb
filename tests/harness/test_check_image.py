"""A check of tables that some phase cannot explore, and of tables that are damaged before any phase begins."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pm_builder as pm
import pytest
import table_builder as tb
from golden_data import CopyOf
from manifest_log import Log
from written_tables import PATH, new_table

from tornproof.api.captured import capture_or_make
from tornproof.harness import check
from tornproof.harness.check import DIED, MAKING, CheckQuestion, PhaseName, bounds_of, capture_table, check_image
from tornproof.harness.common.effort import LARGE_CHUNKS, Bounds
from tornproof.harness.common.verdict import Phase, Verdict, calls_at_most, cut_short
from tornproof.harness.explorers.own_system.simulated import cases_of
from tornproof.harness.explorers.roundtrip import explorer
from tornproof.harness.explorers.roundtrip.forms import few_numbers, files_to_change
from tornproof.harness.explorers.roundtrip.parts import PARTS
from tornproof.harness.explorers.schedules import points as schedule_points
from tornproof.harness.explorers.simulated_phases import CUT, GivenSettings, simulate, simulated
from tornproof.harness.parallel.tasks import Exploration, Outcome, Results, explore_here
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.simulation import Setting
from tornproof.impl.errors import CorruptError, NotATableError, UnsupportedError
from tornproof.impl.extension.footer import footer_tail
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.meta import MetaHeader
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy
from tornproof.impl.table.table import Table, open_table
from tornproof.testing import target

TABLE = tb.SMALL
SMALLEST = Bounds.of(1)


# Those that only read; the others have tests of their own.
READING = (PhaseName.VERIFY, PhaseName.ROUNDTRIP, PhaseName.DAMAGE)


def phases_of(image: DiskImage, path: str, *phases: PhaseName, bounds: Bounds = SMALLEST) -> dict[str, Phase]:
    question = CheckQuestion(image=image, path=path, has_table=True, bounds=bounds)
    outcome = check_image(question, phases or READING, workers=1)
    return {phase.name: phase for phase in outcome.phases}


def captured(path: Path) -> DiskImage:
    return capture_table(OperatingSystemStorage(), str(path))


def test_a_table_that_can_be_explored_is_verified_and_damaged() -> None:
    few = replace(SMALLEST, damages=100)
    phases = phases_of(TABLE.image(), "/table", PhaseName.VERIFY, PhaseName.DAMAGE, bounds=few)
    assert list(phases) == ["verify", "damage"]
    assert [phase.verdict for phase in phases.values()] == [Verdict.VALID] * 2
    assert [phase.note for phase in phases.values()] == [""] * 2


def test_a_table_is_asked_for_coverage_goals_even_where_a_bound_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    of_path, missed = schedule_points._of_path, schedule_points.DATA_GREW
    monkeypatch.setattr(schedule_points, "_of_path", lambda path: (name for name in of_path(path) if name != missed))
    cut = replace(SMALLEST, schedules=1)
    question = CheckQuestion(image=TABLE.image(), path="/table", has_table=True, bounds=cut)
    phase = simulate(Explorer.SCHEDULES, question.settings(), bounds=cut)
    assert [name for name in schedule_points.POINTS_OF_A_TABLE if not phase.reached[name]] == [missed]
    assert phase.verdict is Verdict.UNKNOWN and missed in phase.note and not phase.complete


@pytest.mark.parametrize(("chunk_count", "times"), [(0, 1), (LARGE_CHUNKS, 1), (LARGE_CHUNKS + 1, 5), (900, 29)])
def test_where_a_case_reads_more_chunks_there_are_fewer_cases(chunk_count: int, times: int) -> None:
    bounds = Bounds.of(4).of_table(chunk_count)
    assert bounds.damages == Bounds.of(4).damages, "these are weighed one by one"
    assert bounds.states == Bounds.of(4).states, "each is one call"
    assert (bounds.schedules, bounds.kills) == (-(-4_000 // times), -(-24 // times))
    assert Bounds.of(1).of_table(10**9).rules == 1, "at least one of each is tried"


def test_the_bounds_of_a_wide_table_follow_from_its_chunks(questdb_data: Path) -> None:
    for name, chunk_count in (("wide", 900), ("chain", 24)):
        path = questdb_data / f"tables/9.4.2/{name}/table"
        assert bounds_of(4, captured(path), str(path)) == Bounds.of(4).of_table(chunk_count)
    assert bounds_of(4, TABLE.with_file("_meta", b"").image(), "/table") == Bounds.of(4)


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, TABLE.files["_meta"][:-1]])
def test_damaged_metadata_of_the_table_is_the_finding(content: bytes, tmp_path: Path) -> None:
    table = TABLE.with_file("_meta", content).write_to(tmp_path)
    phases = phases_of(captured(table), str(table))
    assert list(phases) == ["verify"]
    verify = phases["verify"]
    assert (verify.verdict, verify.counts["problems"]) == (Verdict.INVALID, 1)
    (finding,) = verify.findings
    assert finding.evidence["file"] == "_meta"
    assert finding.sentence.startswith("_meta: ")


@pytest.mark.nightly
def test_damage_is_reported_even_by_a_run_that_asks_for_another_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    def explore(explorations: Mapping[str, Exploration], question: CheckQuestion, **more: object) -> Outcome:
        return Outcome(phases=[cut_short(name) for name in explorations])

    damaged = TABLE.with_file(tb.DATA, b"").image()
    assert list(phases_of(damaged, "/table", PhaseName.DAMAGE)) == ["verify"]
    monkeypatch.setattr(check, "explore", explore)
    assert list(phases_of(TABLE.image(), "/table", PhaseName.DAMAGE)) == ["damage"]


def test_a_table_from_before_pm_has_nothing_to_encode(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "PARTS", ())
    monkeypatch.setattr(explorer, "files_to_change", one_file)
    path = str(questdb_data / "legacy/9.3.4/chain/table")
    question = CheckQuestion(image=captured(Path(path)), path=path, has_table=True, bounds=SMALLEST)
    phase = explore_here(explorer.roundtrip(), question)
    assert (phase.verdict, phase.note) == (
        Verdict.UNKNOWN,
        "the table has no _pm, so there was nothing to encode",
    )


def test_a_table_that_this_release_does_not_know_has_no_verdict() -> None:
    bit = layout.REQUIRED_FEATURES.mask & -layout.REQUIRED_FEATURES.mask
    unknown = TABLE.with_file(tb.PM, pm.set_footer(TABLE.files[tb.PM], "footer_feature_flags", bit))
    with pytest.raises(UnsupportedError, match="FOOTER_FEATURE_FLAGS"):
        phases_of(unknown.image(), "/table")


def test_a_table_without_a_designated_timestamp_has_no_verdict_and_its_note_says_why() -> None:
    table = new_table()[0].image()
    meta = f"{PATH}/{META_FILE}"
    content = table.files[meta]
    header = MetaHeader.unpack(content, 0, file=meta).changed(timestamp_index=-1, partition_by=PartitionBy.NONE).pack()
    image = DiskImage.of_files({**table.files, meta: header + content[len(header) :]})
    stateful = phases_of(image, PATH, PhaseName.STATEFUL)["stateful"]
    assert stateful.verdict is Verdict.UNKNOWN
    assert stateful.note.endswith("a table without _meta or designated timestamp cannot be written to")


def test_what_is_no_table_is_not_captured(tmp_path: Path, copy_of: CopyOf) -> None:
    with pytest.raises(NotATableError):
        captured(tmp_path)
    folder = copy_of("tables/9.4.2/chain/table")
    (folder / "_meta").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"not of the table")
    image = captured(folder)
    assert image.files[f"{folder}/_meta"] == image.files[f"{folder}/notes.txt"] == b""
    assert image.files[f"{folder}/_txn"] == (folder / "_txn").read_bytes()


def one_file(_: Table) -> dict[str, bytes]:
    """Return what is changed into other forms, in place of all files that are made and those of the table."""
    return {"few numbers": few_numbers()}


def without(are_cut: Callable[[Task], bool], exploration: Exploration) -> Exploration:
    """Run an exploration that is cut before any of these tasks begins."""
    results: Results | None = None
    while True:
        try:
            tasks = next(exploration) if results is None else exploration.send(results)
        except StopIteration as end:
            phase: Phase = end.value
            return phase
        done = iter((yield [task for task in tasks if not are_cut(task)]))
        results = [None if are_cut(task) else next(done) for task in tasks]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Function that has checks cut before tasks that have the given attribute, and soon after their beginning."""

    def cut_before(attribute: str) -> None:
        def explore(explorations: Mapping[str, Exploration], question: CheckQuestion, **more: object) -> Outcome:
            return Outcome(
                phases=[
                    explore_here(without(attrgetter(attribute), each), question, has_time=calls_at_most(150))
                    for each in explorations.values()
                ]
            )

        monkeypatch.setattr(check, "explore", explore)
        monkeypatch.setattr(check, "fixed_parts", lambda: [(None, (0,))])
        monkeypatch.setattr(explorer, "PARTS", PARTS[:2])
        monkeypatch.setattr(explorer, "files_to_change", one_file)

    return cut_before


FEW = replace(SMALLEST, damages=20, rules=20, schedules=20, states=500, crash_points=20, test_cases=1, cuts=0)
SIMULATING = (PhaseName.SCHEDULES, PhaseName.PRODUCT, PhaseName.POWER)


def test_a_control_that_was_not_tried_has_not_failed(cut: Callable[[str], None]) -> None:
    cut("begins_first")
    names = (PhaseName.ROUNDTRIP, PhaseName.DAMAGE, PhaseName.STATEFUL, *SIMULATING, PhaseName.RANDOM, PhaseName.CRASH)
    phases = phases_of(TABLE.image(), "/table", *names, bounds=FEW)
    assert list(phases) == [*names]
    for phase in phases.values():
        assert (phase.verdict, phase.controls) == (Verdict.UNKNOWN, "not tried"), phase.name
        assert "the run was cut before a positive control was tried" in phase.note
        assert "a positive control failed" not in phase.note
        assert not phase.findings


def test_a_finding_that_was_not_made_small_is_kept_as_it_was_seen(cut: Callable[[str], None]) -> None:
    cut("for_finding")
    question = CheckQuestion(image=TABLE.image(), path="/table", has_table=True, bounds=FEW, preset="questdb-9.4.2")
    for phase in check_image(question, (PhaseName.SCHEDULES, PhaseName.POWER), workers=1).phases:
        assert phase.verdict is Verdict.INVALID
        assert {finding.evidence["note"] for finding in phase.findings} == {CUT}


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_test_case_of_which_a_part_was_not_begun_is_not_complete(*, is_cut: bool) -> None:
    (case,) = cases_of(Explorer.PRODUCT, target(Log()), [b"one"], [Readers()]).values()
    models = ("A", "D")
    setting = Setting(name="log", case=case, explorers=frozenset({Explorer.PRODUCT}), models=models)
    question = GivenSettings(given=(setting,), bounds=SMALLEST)

    def is_left_out(task: Task) -> bool:
        return task.begins_first or (is_cut and task.arguments[-1] == models[-1])

    phase = explore_here(without(is_left_out, simulated(Explorer.PRODUCT, question.given)), question)
    assert {phase.complete, phase.test_cases["log"]["complete"]} == {not is_cut}


def test_an_error_that_nobody_expects_while_the_table_is_read_is_a_finding_that_replays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was an error line, and nothing was found."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    table = TABLE.write_to(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("tornproof.impl.verify.verify.check_against_table", broken)
        path, image, start_error = capture_or_make(str(table))
        assert not start_error and bounds_of(1, image, path) == SMALLEST
        (phase,) = phases_of(image, path).values()
        (finding,) = phase.findings
        assert phase.verdict is Verdict.INVALID and "ZeroDivisionError: a mistake" in finding.sentence
        assert replay_finding(finding, image, path) is Verdict.INVALID
        other = replace(finding, evidence={DIED: "another error"})
        assert replay_finding(other, image, path) is Verdict.UNKNOWN
    assert replay_finding(finding, image, path) is Verdict.VALID


@pytest.mark.nightly
def test_a_file_that_another_form_changes_is_a_finding_that_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    def shortened(tail: Callable[..., bytes]) -> Callable[..., bytes]:
        return lambda thrift, form, **settings: tail(thrift[:-1], form, **settings)

    files = files_to_change(open_table(TABLE.image(), "/table"))
    with monkeypatch.context() as patch:
        patch.setattr("tornproof.impl.migrate.footer_form.footer_tail", shortened(footer_tail))
        findings = [*explorer.findings_of_forms(files)]
        assert {finding.evidence["changed"] for finding in findings} == {*files}
        assert replay_finding(findings[-1], TABLE.image(), "/table") is Verdict.INVALID
    assert replay_finding(findings[-1], TABLE.image(), "/table") is Verdict.VALID


@pytest.mark.parametrize("error", [ValueError("boom"), CorruptError("f", "x", 0, "1", "2")])
def test_a_table_that_cannot_be_made_is_a_finding_that_replays(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It was an error line, and nothing was found."""

    def broken(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("tornproof.impl.write.partition_change.PartitionChanger.create", broken)
        path, image, start_error = capture_or_make(None)
        bounds = bounds_of(1, image, path)
        question = CheckQuestion(image=image, path=path, has_table=False, start_error=start_error, bounds=bounds)
        outcome = check_image(question, workers=1)
        (phase,) = outcome.phases
        (finding,) = phase.findings
        assert phase.verdict is Verdict.INVALID and str(error) in finding.sentence
        assert replay_finding(finding, image, path) is Verdict.INVALID
        older = replace(finding, evidence={MAKING: finding.evidence[MAKING]})
        assert replay_finding(older, image, path) is Verdict.INVALID
        other = replace(finding, evidence={MAKING: "another error"})
        assert replay_finding(other, image, path) is Verdict.UNKNOWN
    assert replay_finding(finding, image, path) is Verdict.VALID


@pytest.mark.parametrize("has_table", [False, True])
def test_a_test_case_that_cannot_be_made_is_a_finding_that_replays(
    monkeypatch: pytest.MonkeyPatch, *, has_table: bool
) -> None:
    """It was an error line, and nothing was found."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    path, image, start_error = ("/table", TABLE.image(), "") if has_table else capture_or_make(None)
    with monkeypatch.context() as patch:
        patch.setattr(
            "tornproof.harness.systems.simulation.TestCase"
            if has_table
            else "tornproof.harness.systems.scenario_case.open_table",
            broken,
        )
        question = CheckQuestion(image=image, path=path, has_table=has_table, start_error=start_error, bounds=SMALLEST)
        (phase,) = check_image(question, workers=1).phases
        (finding,) = phase.findings
        assert phase.verdict is Verdict.INVALID and "ZeroDivisionError: a mistake" in finding.sentence
        assert replay_finding(finding, image, path) is Verdict.INVALID
        other = replace(finding, evidence={**finding.evidence, MAKING: "another error"})
        assert replay_finding(other, image, path) is Verdict.UNKNOWN
    assert replay_finding(finding, image, path) is Verdict.VALID


def test_the_explorer_of_processes_ends_when_the_time_is_over(tmp_path: Path) -> None:
    question = CheckQuestion(image=TABLE.image(), path="/table", has_table=True, bounds=SMALLEST)
    phase = check._processes_phase(Worker(question=question, scratch=tmp_path, has_time=calls_at_most(0)))
    assert phase.explored == 0 and "the time was over before" in phase.note
