"""Scenarios: every file is one that explorers can take, and errors in one are reported with their location."""

import pytest
from depth import sampled

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import NOT_TRIED, Finding, Phase, Verdict
from tornproof.harness.explorers.power_cuts.points import all_coverage_goals
from tornproof.harness.explorers.schedules import points as schedule_points
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.models import MODELS
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Explorer, ScenarioError, load_scenario, parse_scenario, scenario_names
from tornproof.harness.systems.scenario_case import FIRST_OFFSET, STEP
from tornproof.harness.systems.simulation import Setting, merged, setting_of, settings_of
from tornproof.harness.systems.table_readers import see
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import CorruptError
from tornproof.impl.table.column_versions import CV_FILE, ColumnVersions, read_column_versions
from tornproof.impl.table.table import open_table

NAMES = scenario_names()
GOOD = b"""
format = 1
title = "a commit and a reader"
explorers = ["schedules"]
start = [{ rows = [{ hour = 0 }] }]
first = [{ rows = [{ hour = 0, count = 2, at = "start" }], purge = true }]
readers = [{ style = "follow", count = 2, reads = 3 }]
"""


def test_there_are_twenty_and_each_explorer_has_some() -> None:
    assert len(NAMES) >= 20
    scenarios = [load_scenario(name) for name in NAMES]
    assert {explorer for scenario in scenarios for explorer in scenario.explorers} == set(Explorer)
    assert {style for scenario in scenarios for group in scenario.readers for style in (str(group.style),)} == {
        "fresh",
        "follow",
        "pinned",
    }


@pytest.mark.parametrize("name", sampled(15, NAMES))
def test_every_scenario_runs_fault_free_and_each_commit_is_seen(name: str) -> None:
    scenario = load_scenario(name)
    assert set(scenario.models) <= {model.name for model in MODELS}
    assert set(scenario.must_reach) <= {*schedule_points.POINTS, *all_coverage_goals(MODELS)}
    with remembered_decoding():
        case = setting_of(scenario, PRESETS["hardened"]).case
        seen = [case.oracle(tuple(range(count))) for count in range(len(case.operations) + 1)]
    commits = (*scenario.first, *scenario.second)
    for commit, before, after in zip(commits, seen, seen[1:], strict=False):
        assert (before == after) is commit.abandon


def test_rows_of_an_hour_that_their_commit_drops_begin_anew_and_later_ones_are_behind_them() -> None:
    start = b"start = [{ rows = [{ hour = 0, count = 4 }] }]"
    first = b"first = [{ drop = [0], rows = [{ hour = 0, count = 2 }] }, { rows = [{ hour = 0, count = 2 }] }]"
    content = b"\n".join((b'format = 1\ntitle = "an hour anew"\nexplorers = ["power"]', start, first))
    case = setting_of(parse_scenario(content, "anew"), PRESETS["hardened"]).case
    stamps = [stamp.value for operation in case.operations for rows in operation.rows for stamp in rows["ts"]]
    assert stamps == [FIRST_TIME + FIRST_OFFSET + STEP * number for number in range(4)]


LATER = "first-rows-and-power-cut"


def test_commits_to_partitions_that_are_older_than_a_column_change_what_is_said_of_it() -> None:
    """No scenario had a commit that changes `_cv`."""
    case = setting_of(load_scenario(LATER), PRESETS["hardened"]).case
    assert case.start is not None
    storage = MemoryStorage.of(case.start)
    versions, tops = [], []
    with case.target.open_writer(storage, case.path) as writer:
        for operation in (None, *case.operations):
            if operation is not None:
                writer.commit(operation)
            transaction = open_table(storage, case.path).transaction()
            version = transaction.record.column_version
            known = read_column_versions(storage, f"{case.path}/{CV_FILE}", version=version)
            versions.append(version)
            tops.append([known.top(each.timestamp, 1, each.row_count) for each in transaction.partitions])
    assert versions == [1, 2, 3, 3]
    assert tops == [[2, 2], [0, 2], [0, 0], [0, 0, 0]]


def test_a_value_before_the_first_row_of_its_column_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    case = setting_of(load_scenario(LATER), PRESETS["hardened"]).case
    assert case.start is not None
    storage = MemoryStorage.of(case.start)
    assert see(storage, case.path).version == 2
    monkeypatch.setattr(ColumnVersions, "after", lambda known, *_, **__: known)
    with case.target.open_writer(storage, case.path) as writer:
        writer.commit(case.operations[0])
    with pytest.raises(CorruptError, match=r"_cv: first row of column 'v' in the partition at .* expected no value"):
        see(storage, case.path)


def test_a_file_gives_its_commits_and_readers() -> None:
    scenario = parse_scenario(GOOD, "good")
    case = setting_of(scenario, PRESETS["hardened"]).case
    (readers,) = case.readers
    assert (readers.style, readers.count, readers.read_count) == ("follow", 2, 3)
    (operation,) = case.operations
    assert operation.purges and not operation.abandons
    (rows,) = operation.rows
    (first,) = case.start.files.keys() & {"t/_txn"} and [rows["ts"][0].as_py()]  # type: ignore[union-attr]
    assert rows.num_rows == 2 and first == min(rows["ts"].to_pylist())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"format = 2", "Expected `int` <= 1 - at `$.format`"),
        (GOOD + b"color = 1", "Object contains unknown field `color`"),
        (GOOD.replace(b"hour = 0", b"hour = 24", 1), "Expected `int` <= 23 - at `$.start[0].rows[0].hour`"),
        (GOOD.replace(b'"follow"', b'"slow"'), "Invalid enum value 'slow' - at `$.readers[0].style`"),
        (GOOD.replace(b'["schedules"]', b"[]"), "Expected `array` of length >= 1 - at `$.explorers`"),
        (b"\xff", "scenarios/bad.toml"),
        (GOOD.replace(b"start", b"filters = { v = 1.5 }\nstart", 1), "Expected `float` < 1.0 - at `$.filters[...]`"),
        (GOOD.replace(b"start", b'filters_at = "on"\nstart', 1), "Invalid enum value 'on' - at `$.filters_at`"),
        (b"format = ", "scenarios/bad.toml"),
        (b"format = " + b"[" * 2000, "recursion"),
        (b"format = " + b"1" * 5000, "4300 digits"),
        (GOOD + b"#" * (16 << 10), "more than 16384 bytes"),
    ],
)
def test_a_wrong_file_is_rejected_with_the_location(content: bytes, sentence: str) -> None:
    with pytest.raises(ScenarioError) as rejected:
        parse_scenario(content, "bad")
    assert str(rejected.value).startswith("scenarios/bad.toml: ")
    assert sentence in str(rejected.value)


def test_an_unknown_name_or_preset_is_rejected_with_the_existing_ones() -> None:
    with pytest.raises(ScenarioError, match=f"there is no scenario 'none'; there are {', '.join(scenario_names())}"):
        load_scenario("none")
    scenario = parse_scenario(GOOD + b'preset = "questdb-1"', "good")
    with pytest.raises(ScenarioError, match="preset: there is no 'questdb-1'"):
        setting_of(scenario, None)


def phase(explored: int = 1, *, complete: bool = True, verdict: Verdict = Verdict.VALID, **others: object) -> Phase:
    fields = {"name": "x", "bound": "all", "controls": "passed", **others}
    return Phase(explored=explored, complete=complete, verdict=verdict, **fields)  # type: ignore[arg-type]


def test_a_phase_of_many_test_cases_adds_up_and_keeps_one_finding_of_a_kind() -> None:
    findings = [Finding(property="p", phase="x", sentence=f"byte {number} is wrong", evidence={}) for number in (1, 2)]
    whole = merged(
        "x",
        [
            ("a", phase(3, counts={"n": 1}, findings=(findings[0],), verdict=Verdict.INVALID)),
            ("b", phase(4, counts={"n": 2}, findings=(findings[1],), verdict=Verdict.INVALID, complete=False)),
        ],
        ["c"],
    )
    assert (whole.explored, whole.counts, whole.findings, whole.complete) == (7, {"n": 3}, (findings[0],), False)
    assert whole.verdict is Verdict.INVALID and set(whole.test_cases) == {"a", "b"}
    assert "1 of 3 test cases complete" in whole.bound and "or cut: b" in whole.bound and "a result: c" in whole.bound


def test_one_control_that_failed_and_one_unknown_are_seen_in_the_whole() -> None:
    parts = [("a", phase()), ("b", phase(controls="a toy was not detected", verdict=Verdict.UNKNOWN, note="why"))]
    whole = merged("x", parts)
    assert (whole.verdict, whole.controls, whole.note) == (Verdict.UNKNOWN, "a toy was not detected", "b: why")


def test_a_phase_that_was_cut_before_one_run_is_unknown_and_one_run_is_enough() -> None:
    cut = ("a", phase(0, complete=False))
    whole = merged("x", [cut])
    assert (whole.verdict, whole.explored, whole.note) == (Verdict.UNKNOWN, 0, "nothing was explored")
    assert merged("x", [cut, ("b", phase(1))]).verdict is Verdict.VALID


def test_a_phase_that_was_cut_before_its_first_result_claims_no_controls() -> None:
    whole = merged("x", [], ["a"])
    assert (whole.verdict, whole.controls) == (Verdict.UNKNOWN, NOT_TRIED) and "was cut before" in whole.note


def test_a_phase_some_of_whose_test_cases_have_no_result_is_unknown_and_says_how_many() -> None:
    whole = merged("x", [("a", phase(1)), ("b", phase(1, complete=False))], ["c", "d", "e"])
    assert (whole.verdict, whole.note) == (Verdict.UNKNOWN, "the run was cut before 3 of 5 test cases had a result")
    assert merged("x", [("a", phase(1)), ("b", phase(1, complete=False))]).verdict is Verdict.VALID
    assert merged("x", [("a", phase(1))], ["b"]).bound.startswith("1 of 2 test cases complete")


@pytest.mark.parametrize("complete", [True, False])
def test_a_phase_that_never_reached_a_goal_is_unknown_whether_or_not_it_was_cut(complete: bool) -> None:
    tried = phase(reached={"here": 1, "there": 0}, complete=complete)
    assert tried.with_coverage_goals(["here"]).verdict is Verdict.VALID
    vacuous = tried.with_coverage_goals(["here", "there", "elsewhere"])
    assert vacuous.verdict is Verdict.UNKNOWN and vacuous.note == "never reached: there, elsewhere"
    assert vacuous.reached == {"here": 1, "there": 0, "elsewhere": 0}


def test_an_explorer_without_test_cases_says_that_it_explored_nothing() -> None:
    settings = settings_of(["one-commit-one-reader"], PRESETS["hardened"])
    found = simulate(Explorer.MEMORY, settings)
    assert (found.verdict, found.explored) == (Verdict.UNKNOWN, 0) and "none of the test cases" in found.note


def test_small_test_cases_come_first_so_that_a_short_run_gets_through_many() -> None:
    settings: list[Setting] = settings_of((), PRESETS["hardened"])
    assert [setting.size for setting in settings] == sorted(setting.size for setting in settings)
