"""Of a test case's findings one is kept for each property and cause, and only the first ones are shrunk."""

import dataclasses
import itertools
import json
from typing import Any

import pytest

from tornproof.harness.common.effort import EFFORTS, Bounds
from tornproof.harness.common.signature import signature_of
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.make import with_case
from tornproof.harness.explorers import simulated_phases
from tornproof.harness.explorers.schedules import crash as schedule_crash
from tornproof.harness.explorers.simulated_phases import (
    NOT_SHRUNK,
    ONE_WRITER,
    SEVERAL_WRITERS,
    _new,
    _of_other_causes,
    simulate,
)
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Explorer, load_scenario
from tornproof.harness.systems.simulation import Setting, setting_of

STORE = {"client": "writer", "operation": "commit 1", "call": "store", "file": "_txn", "occurrence": 1}
DATA = "t/2024-01-01T00.0/data.parquet"


def finding(*decisions: dict[str, Any], property: str = "a reader gets an answer", text: str = "no rows") -> Finding:
    return Finding(property=property, phase="power", sentence=text, evidence={"log": list(decisions)})


def power_cut(*paths: str, at: dict[str, Any] = STORE, names: list[int] | None = None) -> dict[str, Any]:
    choice = [names, {path: [0, 0, []] for path in paths}]
    return {"kind": "powercut", "at": at, "model": "C-8", "choice": choice}


def seen(*paths: str) -> Finding:
    """Return a finding as the power explorer makes it."""
    return seen_after([*paths])


def seen_after(*cuts: list[str]) -> Finding:
    """Return the same after several power cuts, each with the files that it took back."""
    choices = [json.dumps(["C-8", None, {path: [0, 0, []] for path in paths}]) for paths in cuts]
    evidence = {"cuts": [{"step": 1, "choice": choice} for choice in choices]}
    return Finding(property="p", phase="power", sentence="s", evidence=evidence)


def test_two_findings_of_one_property_are_of_two_kinds() -> None:
    """What was seen tells them apart, and numbers and the time of the crash do not."""
    one, again, other = (
        finding(text=text) for text in ("after 3 calls: 1 row", "after 4 calls: 2 row", "after 3 calls: no file")
    )
    strategy = simulated_phases._STRATEGIES[Explorer.SCHEDULES]
    phase = Phase(name="", explored=1, complete=True, bound="", verdict=Verdict.INVALID, findings=(one, again, other))
    assert len({kind for kind, _ in strategy.found([phase])}) == 2


def test_one_lost_file_is_one_cause_wherever_the_power_is_cut_and_whatever_is_said() -> None:
    one = finding(power_cut(DATA))
    other = finding(power_cut(DATA, at={**STORE, "call": "unmap", "occurrence": 7}), text="28 bytes expected")
    assert signature_of(one) == signature_of(other)


@pytest.mark.parametrize(
    "other",
    [
        finding(power_cut("t/2024-01-01T00.0/_pm")),
        finding(power_cut(DATA, names=[0])),
        finding(power_cut(DATA), property="an acknowledged commit survives"),
        finding({"kind": "kill", "at": STORE}),
        finding({"kind": "fail", "at": STORE, "reason": "INPUT_OUTPUT"}),
        finding({"kind": "switch", "at": STORE, "to": "reader 1"}),
        finding(),
    ],
)
def test_other_files_calls_faults_and_properties_are_other_findings_even_if_the_same_is_said(other: Finding) -> None:
    signature, known = signature_of(other), signature_of(finding(power_cut(DATA)))
    assert signature != known
    assert not signature.covers(known) and known.covers(signature) is (known.causes < signature.causes)


def test_what_loses_more_than_a_finding_needs_is_the_same_and_another_loss_is_not() -> None:
    setting, elsewhere = setting_named("append-and-power-cut"), setting_named("reader-lives-through-a-kill")
    known = [(setting, finding(power_cut(DATA)))]
    others = [(setting, seen(DATA, "t/_txn")), (setting, seen("t/_txn")), (setting, seen("t/_txn", "t/x/_pm"))]
    assert [each for _, each in _of_other_causes(others, known)] == [seen("t/_txn")]
    assert len([*_of_other_causes([(elsewhere, seen(DATA))], known)]) == 1, "known of another test case only"


def test_what_any_of_several_power_cuts_took_back_is_a_cause() -> None:
    setting = setting_named("append-and-power-cut")
    record, header = seen_after(["t/_txn"], [DATA]), seen_after(["t/x/_pm"], [DATA])
    assert [each for _, each in _of_other_causes([(setting, header)], [(setting, record)])] == [header]
    assert not [*_of_other_causes([(setting, record)], [(setting, seen("t/_txn"))])], "the first cut is enough"


def setting_named(name: str, preset: str = "hardened") -> Setting:
    return setting_of(load_scenario(name), PRESETS[preset])


@pytest.mark.nightly
def test_findings_beyond_those_that_are_shrunk_are_kept_as_seen_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_phases, "FINDINGS_MAX", 1)
    setting = setting_named("reader-lives-through-a-kill", "questdb-9.4.2")
    phase = simulate(Explorer.PRODUCT, [setting], bounds=Bounds.of(EFFORTS["small"]))

    assert phase.verdict is Verdict.INVALID
    first, *others = phase.findings
    assert "log" in first.evidence and len(others) >= 2
    assert {each.evidence["note"] for each in others} == {NOT_SHRUNK}
    assert phase.bound.endswith(f"{len(others)} of {len(phase.findings)} findings are {NOT_SHRUNK}")
    assert len({each.property for each in phase.findings}) >= 2
    assert {replayed(each) for each in others} == {Verdict.INVALID}


def replayed(found: Finding) -> Verdict:
    """Replay a finding as a file holds it."""
    evidence = json.loads(json.dumps(found.evidence))
    return replay_finding(dataclasses.replace(found, evidence=evidence), DiskImage(), "")


@pytest.mark.nightly
def test_a_schedule_that_was_not_shrunk_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_phases, "FINDINGS_MAX", 0)
    setting = setting_named("two-commits-one-reader", "questdb-9.4.2")
    found, *_ = simulate(Explorer.SCHEDULES, [setting], bounds=Bounds.of(EFFORTS["small"])).findings
    assert "schedule" in found.evidence and replayed(found) is Verdict.INVALID

    def changed(schedule: Any) -> Verdict:
        return replayed(dataclasses.replace(found, evidence={**found.evidence, "schedule": schedule}))

    assert changed([[0, 1]]) is Verdict.VALID
    assert changed([[0, 10_000]]) is Verdict.UNKNOWN, "the writer has fewer steps"
    assert changed([["jump"]]) is Verdict.UNKNOWN
    sound = setting_named("two-commits-one-reader")
    assert replayed(with_case(sound.case, found)) is not Verdict.INVALID


def test_of_each_kind_of_violation_only_the_first_is_new_in_its_test_case_and_in_later_ones() -> None:
    known: set[tuple[Any, ...]] = {("known",)}
    first = [(("known",), 0), (("new",), 1), (("new",), 2), (("other",), 3)]
    second = [(("other",), 4), (("last",), 5)]
    assert [*_new(first, known), *_new(second, known)] == [1, 3, 5]


CONTROLS_OF_RUN = {
    "schedule_controls.failed_controls": lambda seed: (f"one writer from seed {seed}",),
    "schedule_writers.controls_of_run": lambda: ("several writers",),
    "power_controls.controls_of_run": lambda models: tuple(model.name for model in models),
    "schedule_crash.controls_of_run": lambda models: models,
}


@pytest.mark.parametrize(
    ("explorer", "parts"),
    [
        (Explorer.SCHEDULES, (ONE_WRITER, SEVERAL_WRITERS)),
        (Explorer.POWER, ("A B", "B C-8", "N-512")),
        (Explorer.PRODUCT, ("kill", *schedule_crash.PRODUCT_MODELS)),
    ],
)
def test_the_controls_of_all_parts_that_are_explored_are_tried(
    monkeypatch: pytest.MonkeyPatch, explorer: Explorer, parts: tuple[str, ...]
) -> None:
    """Only the first kind of parts may have had theirs, and the others counted as passed."""
    for name, controls in CONTROLS_OF_RUN.items():
        monkeypatch.setattr(f"{simulated_phases.__name__}.{name}", controls)
    strategy = simulated_phases._STRATEGIES[explorer]
    own = {part: {*strategy.controls((part,), 7)} for part in parts}
    assert all(own.values()) and len({*map(frozenset, own.values())}) == len(parts)
    for count in range(len(parts) + 1):
        for some in itertools.combinations(parts, count):
            assert {*strategy.controls(some, 7)} == {name for part in some for name in own[part]}
