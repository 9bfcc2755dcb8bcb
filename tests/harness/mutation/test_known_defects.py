"""Every known defect is found, as a small finding that replays with the defect and not without it."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from depth import always_if, drawn, sampled
from evidence_checksums import REMADE as REMADE_EVIDENCE
from evidence_checksums import checksums, recorded

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.log import DecisionLog, Kill, PowerCut
from tornproof.harness.counterexamples.make import finding_of
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.run import run_log
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.mutation.known import KNOWN, KnownDefect, Size, find_defect, replay_with, replay_without, size_of
from tornproof.harness.mutation.known_causes import DEFECTS, FILE, entry
from tornproof.harness.mutation.known_document import (
    BESIDE,
    BESIDE_COLUMNS,
    BESIDE_HEAD,
    BESIDE_HEADING,
    document,
    narrative_of,
    picture_of,
    table,
)
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Explorer, load_scenario
from tornproof.harness.systems.simulation import setting_of
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import made_image

TIMES, FEW_TIMES = 10, 1
REMADE = "python -m tornproof.harness.mutation.known_document > docs/known-defects.md"
REMADE_CAUSES = "python -m tornproof.harness.mutation.known_causes"
STEP_RULES = (Property.BARRIERS, Property.IMMUTABLE)
BY_NAME = {defect.name: defect for defect in KNOWN}
PAGE = Path(__file__).parents[3] / "docs/known-defects.md"
RELEASES = ("questdb-9.4.2", "questdb-9.4.3")
SHARED = (
    "header before body (F2)",
    "data not durable (F1)",
    "lost acknowledged commit (F5)",
    "stale mapping, ABA on the token",
    "orphan truncated under a reader",
    "reader decodes by the newest footer (questdb-9.4.2)",
    "orphan as the base of the next update (questdb-9.4.2)",
    "no fence after the version",
)
"""Defects of more than one test, which are found by day too: some of them are replayed then."""
SOON = SHARED[3:6]
"""Found in less than a second."""
BY_DAY = drawn(1, [defect for defect in KNOWN if defect.name in SHARED])


CAUSES = {
    "header before body (F2)": ("order 2024-01-01T00/_pm", "comes after: append bytes"),
    "body not durable before the header (F2)": ("sync 2024-01-01T00.0/_pm", "synced before: publish _pm size"),
    "token without footer (F3)": ("sync 2024-01-01T00.0/_pm", "synced before: store version"),
    "data not durable (F1)": ("sync 2024-01-01T00.0/data.parquet", "synced before: store version"),
    "torn record (F4)": ("sync _txn", "synced before: store version"),
    "lost acknowledged commit (F5)": ("sync _txn", "synced right after: store version"),
    "missing directory (F6)": ("sync directory 2024-01-01T01.1", "synced before: store version"),
    "missing name of a directory (F6)": ("sync the table's directory", "synced before: store version"),
    "stale mapping, ABA on the token": ("together", "two steps of reader 1: read _pm size"),
    "orphan overwritten under a reader": ("postponed", "write bytes 388 to 648"),
    "orphan truncated under a reader": ("postponed", "cut 648 → 388 bytes"),
    "reader decodes by the newest footer (questdb-9.4.2)": ("reader decodes", "the footer of its token"),
    "reader decodes by the newest footer (questdb-9.4.3)": ("reader decodes", "the footer of its token"),
    "orphan as the base of the next update (questdb-9.4.2)": ("left 2024-01-01T00.0/_pm", "the killed one left"),
    "orphan as the base of the next update (questdb-9.4.3)": ("left 2024-01-01T00.0/_pm", "the killed one left"),
    "orphan as the base, and its rows committed": ("left 2024-01-01T00.0/_pm", "the killed one left"),
    "token from the file's size after a crash tail (H1)": ("the token in _txn", "not the size of data.parquet"),
    "old directory removed before the new one is durable": ("sync _txn", "synced before: remove"),
}
"""The place of each defect: the file, and what is done or missing there."""


@functools.cache
def found(defect: KnownDefect) -> Finding:
    """Return the finding of its explorer, as read from a file."""
    finding = find_defect(defect)
    return replace(finding, evidence=json.loads(json.dumps(finding.evidence)))


def lines_of_page() -> list[str]:
    found_by_explorers = PAGE.read_text().partition(f"## {BESIDE_HEADING}")[0]
    return [line for line in found_by_explorers.splitlines() if line.startswith("|")]


def times_of_each() -> list[object]:
    """Return each defect, to be replayed once; ten times one of them always, the others nightly."""
    few = sampled(0, [(defect, FEW_TIMES) for defect in KNOWN], besides=lambda case: case[0] in BY_DAY)
    return [*few, *sampled(1, [(defect, TIMES) for defect in KNOWN])]


@pytest.mark.parametrize(("defect", "times"), times_of_each(), ids=lambda value: getattr(value, "name", str(value)))
def test_a_known_defect_replays_every_time_with_the_same_evidence_and_not_without_it(
    defect: KnownDefect, times: int
) -> None:
    finding = found(defect)
    assert finding.property == defect.breaks and finding.property not in STEP_RULES
    for _ in range(times):
        again = replay_with(defect, finding)
        assert (again.verdict, again.is_same, again.note) == (Verdict.INVALID, True, "")
    assert replay_without(finding) is Verdict.VALID
    assert table([(defect, finding)])[-1] in lines_of_page(), REMADE
    assert "\n".join(narrative_of(defect, finding)) in PAGE.read_text(), REMADE
    assert entry(defect.name, DEFECTS, finding) in json.loads(FILE.read_text()), REMADE_CAUSES
    if is_simulated(finding.evidence):
        kind, words = CAUSES[defect.name]
        changes = finding.evidence["explanation"]["passes_when"]["changes"]
        assert any(kind in change["kind"] and words in change["text"] for change in changes), changes


@pytest.mark.parametrize("defect", always_if(lambda each: each.name in SOON, KNOWN), ids=lambda defect: defect.name)
def test_the_evidence_of_a_known_defect_is_what_it_was(defect: KnownDefect) -> None:
    assert checksums(found(defect)) == recorded()[defect.name], REMADE_EVIDENCE


def test_there_is_evidence_of_each_defect() -> None:
    assert {defect.name for defect in KNOWN} < recorded().keys()


@pytest.mark.parametrize(
    "defect", always_if(BY_DAY.__contains__, [each for each in KNOWN if not each.fault]), ids=lambda defect: defect.name
)
def test_findings_of_released_servers_need_no_more_than_their_file(defect: KnownDefect) -> None:
    assert replay_finding(found(defect), made_image(), "nowhere") is Verdict.INVALID


def test_the_median_finding_is_small() -> None:
    # The test of each defect compares its line of the page.
    sizes = [Size(*map(int, line.strip("| ").split(" | ")[-3:])) for line in lines_of_page()[2:]]
    assert len(sizes) == len(KNOWN)
    operations, crashes, switches = (median(column) for column in zip(*sizes, strict=True))
    assert operations <= 6 and crashes <= 1 and switches <= 2
    assert all(size.crashes <= 1 and size.switches <= 2 for size in sizes)


@pytest.mark.parametrize("release", always_if(RELEASES[0].__eq__, RELEASES))
def test_a_release_rejects_a_read_beside_one_commit_and_without_any_crash(release: str) -> None:
    finding = found(BY_NAME[f"reader decodes by the newest footer ({release})"])
    assert size_of(finding) == Size(operations=1, crashes=0, switches=1)
    assert [(each["count"], each["read_count"]) for each in finding.evidence["test_case"]["readers"]] == [(1, 1)]
    assert finding.evidence["test_case"]["target"]["preset"] == release


@pytest.mark.parametrize("release", always_if(RELEASES[0].__eq__, RELEASES))
def test_an_orphan_stops_a_release_after_one_kill_and_its_next_update_even_with_readers_that_go_by_the_token(
    release: str,
) -> None:
    defect = BY_NAME[f"orphan as the base of the next update ({release})"]
    finding = found(defect)
    size = size_of(finding)
    log = DecisionLog.of_document(finding.evidence["log"])
    assert size.operations <= 3 and size.crashes == 1
    assert not [each for each in log.deviations if isinstance(each, PowerCut)]
    (kill,) = (each for each in log.deviations if isinstance(each, Kill))

    case = defect.setting().case
    read_by_token = TableTarget(protocol=PRESETS[release].protocol, encode=PRESETS[release].encode)
    result = run_log(replace(case, target=read_by_token, readers=()), DecisionLog((kill,)))
    assert not result.dropped
    (violation,) = result.violations
    assert (violation.property, violation.process) == (Property.COMMIT, "writer")
    assert "exceeds data length" in violation.sentence


@pytest.mark.nightly
def test_a_step_against_a_rule_is_a_separate_finding_whose_log_has_no_decision() -> None:
    setting = BY_NAME["data not durable (F1)"].setting()
    phase = simulate(Explorer.POWER, [setting])
    by_property = {finding.property: finding for finding in phase.findings}
    assert set(by_property) == {Property.BARRIERS, Property.REJECTED}
    against_rule, rejected = by_property[Property.BARRIERS], by_property[Property.REJECTED]
    assert size_of(against_rule) == Size(operations=1, crashes=0, switches=0) and against_rule.evidence["log"] == []
    assert replay_planted(against_rule).is_same
    # A wrong answer is explained by what changes that answer, and a power cut a step earlier does.
    assert rejected.evidence["explanation"]["neighbour"]["verdict"] == "VALID"


@pytest.mark.nightly
def test_a_session_that_cannot_open_the_table_breaks_recovery_whatever_the_session_before_had_begun() -> None:
    finding = found(BY_NAME["data not durable (F1)"])
    case = case_of(finding.evidence["test_case"])
    log = DecisionLog.of_document(finding.evidence["log"])
    (violation,) = run_log(replace(case, readers=()), log).violations
    assert (violation.property, violation.process) == (Property.RECOVERY, "writer")


def test_a_run_that_cannot_be_judged_does_not_count_as_passing() -> None:
    release = PRESETS["questdb-9.4.2"]
    case = setting_of(load_scenario("orphan-and-equal-retry"), release).case
    (kill,) = DecisionLog.parse("writer@commit 0: unmap 2024-01-01T00/_pm #1 is killed").deviations
    (violation,) = run_log(replace(case, readers=()), DecisionLog((kill,))).violations
    # A step earlier nothing is published, and what the commit alone would give is rejected by every reader.
    finding = finding_of(case, DecisionLog((kill,)), violation, phase="power")
    assert finding.property == Property.RECOVERY
    assert finding.evidence["explanation"]["neighbour"]["change"] == "left out"


def test_a_fault_that_is_not_there_is_not_found() -> None:
    defect = BY_NAME["data not durable (F1)"]
    sound = replace(defect, fault="", preset="hardened")
    with pytest.raises(LookupError, match=r"data not durable .* no longer"):
        find_defect(sound)
    assert replay_with(sound, found(BY_NAME["orphan truncated under a reader"])).verdict is Verdict.VALID


@pytest.mark.nightly
def test_the_size_of_a_finding_is_counted_from_its_file() -> None:
    cut, switched = found(BY_NAME["lost acknowledged commit (F5)"]), found(BY_NAME["stale mapping, ABA on the token"])
    assert size_of(cut) == Size(operations=2, crashes=1, switches=0)
    assert size_of(switched) == Size(operations=2, crashes=0, switches=2)
    loaded = found(BY_NAME["no fence after the version"])
    assert not is_simulated(loaded.evidence) and size_of(loaded).switches >= 1
    at_rest = [{**load, "commits": [0]} for load in loaded.evidence["loads"]]
    assert size_of(replace(loaded, evidence={**loaded.evidence, "loads": at_rest})).switches == 0


@pytest.mark.nightly
def test_a_single_load_of_another_value_is_another_execution() -> None:
    defect = BY_NAME["no fence after the version"]
    finding = found(defect)
    loads = [dict(load) for load in finding.evidence["loads"]]
    loads[-1]["value"] += 1 << 40
    assert replay_with(defect, replace(finding, evidence={**finding.evidence, "loads": loads})).verdict is Verdict.VALID


def test_the_page_of_known_defects_has_each_of_them_once_in_their_order() -> None:
    page = PAGE.read_text().splitlines()
    names = [line.strip("| ").split(" | ")[0] for line in lines_of_page()[2:]]
    assert names == [defect.name for defect in KNOWN], REMADE
    assert lines_of_page()[:2] == table([]), REMADE
    headings = [line.removeprefix("## ").lower() for line in page if line.startswith("## ")]
    assert headings == [*(defect.name.lower() for defect in KNOWN), BESIDE_HEADING.lower()], REMADE
    assert PAGE.read_text().endswith(BESIDE_HEAD + markdown_table(BESIDE_COLUMNS, BESIDE)), REMADE
    pictures = [PAGE.parent / picture_of(defect) for defect in KNOWN]
    assert [picture.name for picture in pictures if not picture.is_file()] == [], "python docs/pictures.py"


def test_the_page_has_each_finding_in_words() -> None:
    defect = BY_NAME["header before body (F2)"]
    other = replace(defect, name="another one")
    page = document((each, found(each)) for each in (other, defect))
    for word in (
        "| another one |",
        "## Another one",
        "| header before body (F2) |",
        "## Header before body (F2)",
        "- Let a writer commit 1 operation (0 writes 2 rows) beside 1 reader.",
        "- Then reader 1 runs while writer stands in 'commit 0' after “publish _pm size",
        "- However, reader 1 is refused",
        "- It does not happen when",
    ):
        assert word in page
    fenced = BY_NAME["no fence after the version"]
    assert "nothing keeps them in order" in document([(fenced, found(fenced))])
