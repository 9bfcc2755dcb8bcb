"""Every explorer detects a merge that loses a row for all readers alike, which only the model can tell."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from depth import always_if, sampled
from planted_faults import first_of_each_key, planted

from tornproof.harness.check import capture_table
from tornproof.harness.common.model_check import ModelCheck, difference
from tornproof.harness.common.patch import replaced, wrapped
from tornproof.harness.common.verdict import Verdict, always
from tornproof.harness.counterexamples.replay import replay_log
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.explorer import Power
from tornproof.harness.explorers.random.random_cases import Search
from tornproof.harness.explorers.schedules.crash import explore_under
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.simulator.persistence.models import A
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems import table_specification
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.harness.systems.scenario import Explorer, load_scenario, scenario_names
from tornproof.harness.systems.simulation import case_under, setting_of
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.model.rows import Content

FAULT = fault_named("merge loses a row")
RANDOM_TEST_CASES = 14


def merging() -> TestCase:
    return case_under(load_scenario("merge-beside-a-reader"), HARDENED_PRESET)


def in_schedules() -> set[str]:
    return {finding.property for finding in explore_schedules(merging(), schedules_max=8, controls=()).findings}


def in_power_cuts() -> set[str]:
    power = Power(merging())
    try:
        return {finding.property for finding in power.explore(A, Settings(), always).findings}
    finally:
        power.close()


def in_product() -> set[str]:
    return {signature.property for signature in explore_under(merging(), A.name).found}


def in_random_cases() -> set[str]:
    search = Search(preset=HARDENED_PRESET, make=case_under, has_time=always)
    search.run(RANDOM_TEST_CASES, seed=1)
    return {signature.property for signature in search.found}


def in_kills() -> set[str]:
    case = merging()
    try:
        Judge(case.target, case.operations, start=case.start, path=case.path)
    except Violation as violation:
        return {violation.violated}
    return set()


EXPLORERS = (in_schedules, in_power_cuts, in_product, in_random_cases, in_kills)


@pytest.mark.parametrize("properties_broken", always_if(lambda explorer: explorer is not in_random_cases, EXPLORERS))
def test_a_merge_that_loses_a_row_for_all_readers_alike_is_detected(properties_broken: Callable[[], set[str]]) -> None:
    assert properties_broken() == set()
    with planted(FAULT):
        assert properties_broken() == {Property.CONTENT}


@pytest.mark.parametrize("properties_broken", always_if(lambda explorer: explorer is not in_random_cases, EXPLORERS))
def test_without_the_model_it_is_missed(properties_broken: Callable[[], set[str]]) -> None:
    """All readers agree with the fault-free run, which was all that these explorers compared them with."""
    with planted(FAULT), replaced("tornproof.harness.systems.table:specification_of", lambda *_: None):
        assert properties_broken() == set()


def unable(*_: object) -> Content:
    raise KeyError("a type that it does not know")


@pytest.mark.parametrize("properties_broken", [in_schedules, in_power_cuts, in_product])
def test_a_model_that_cannot_answer_is_not_taken_for_one_that_agrees(
    properties_broken: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_specification.TableSpecification, "after", unable)
    with pytest.raises(KeyError, match="a type that it does not know"):
        properties_broken()


@pytest.mark.nightly
def test_the_finding_is_replayed_while_the_merge_is_wrong() -> None:
    with planted(FAULT):
        phase = simulate(Explorer.SCHEDULES, [setting_of(load_scenario("merge-beside-a-reader"), None)])
        (finding,) = phase.findings
        assert phase.verdict is Verdict.INVALID and finding.property == Property.CONTENT
        assert "the rows of a partition are wrong: expected 3 rows" in finding.sentence
        assert replay_log(finding).verdict is Verdict.INVALID
    assert replay_log(finding).verdict is Verdict.VALID


def upserting(questdb_data: Path) -> TestCase:
    """Return a commit that writes rows of a real table with deduplication again, with other values beside the keys."""
    path = str(questdb_data / "tables/9.4.2/dedup/table")
    image = capture_table(OperatingSystemStorage(), path)
    snapshot = open_snapshot(open_table(image, path))
    rows = pa.Table.from_batches(snapshot.batches(), schema=snapshot.schema).slice(0, 4)
    rows = rows.set_column(2, rows.schema.field(2), pa.array([7.0, 8.0, 9.0, 10.0]))
    operation = TableOperation(rows=(rows, rows.slice(1, 1)))
    return TestCase(target=TableTarget(), path=path, operations=(operation,), first_session=(0,), start=image)


def test_rows_that_replace_others_are_those_of_the_model_and_the_first_of_a_key_is_not(questdb_data: Path) -> None:
    case = upserting(questdb_data)
    assert case.oracle((0,)) != case.oracle(()) and case.difference((0,)) == ""
    with wrapped("tornproof.impl.write.partition_change:without_duplicates", first_of_each_key):
        assert "the rows of a partition are wrong" in upserting(questdb_data).difference((0,))


def test_a_large_partition_is_compared_as_a_whole_and_nothing_is_said_of_rows_that_are_added_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_specification, "PLAIN_ROW_COUNT_MAX", 1)
    rewriting = case_under(load_scenario("rewrite-and-power-cut"), HARDENED_PRESET)
    _, rewrites = rewriting.first_session
    check = ModelCheck(rewriting.target, rewriting.operations, rewriting.kernel().image(), rewriting.path)
    specification = rewriting.target.specification(rewriting.kernel().image(), rewriting.path)
    assert specification is not None
    content = specification.content(rewriting.kernel().image(), rewriting.path)
    assert [rows[0].values.row_count for _, rows in content.partitions] == [2]
    assert rewriting.difference((rewrites,)) == ""
    other = rewriting._after(rewriting.first_session).image()
    assert "the rows of a partition are wrong" in difference(
        replace(content, version=content.version + 2), specification.content(other, rewriting.path)
    )
    assert check.difference(rewriting.first_session, rewriting.kernel().image()) == ""


def test_a_retry_upon_an_orphan_as_the_specification_permits_it_has_the_rows_of_the_orphan_too() -> None:
    """A writer of the specification continues the newest generation, and its fault-free run was taken for right."""
    case = case_under(load_scenario("orphan-and-equal-retry"), PRESETS["specification"])
    assert "expected 3 rows in the partition that starts at" in case.difference((0, 1))
    assert case_under(load_scenario("orphan-and-equal-retry"), HARDENED_PRESET).difference((0, 1)) == ""


@pytest.mark.parametrize("name", sampled(2, scenario_names()))
def test_every_scenario_leaves_the_rows_of_the_model(name: str) -> None:
    case = case_under(load_scenario(name), HARDENED_PRESET)
    sessions = (*case.first_session, *case.second_session)
    assert [case.difference(sessions[:count]) for count in range(len(sessions) + 1)] == [""] * (len(sessions) + 1)
