"""A finding of the simulator is a file that replays to the same finding, or to UNKNOWN with the reason."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from depth import nightly, sampled
from evidence_checksums import REMADE, RUNS, checksums, recorded
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from random_runs import (
    HEADER_BEFORE_BODY,
    broken_run,
    cut_finding,
    found,
    killed_finding,
    switched_finding,
    table_case,
    toy_case,
    toy_finding,
)

from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.case_document import (
    TOYS,
    UnknownTargetError,
    case_document,
    case_of,
    with_memory,
)
from tornproof.harness.counterexamples.cause import STEP_BUDGET
from tornproof.harness.counterexamples.encoded_groups import EncoderMemory
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.make import as_seen, finding_of
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.run import run_log
from tornproof.harness.counterexamples.words import lane_cells
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.models import C_512
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.table_rules import TableRules
from tornproof.harness.systems.toy import HeaderFirst, Toy
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.errors import StorageError
from tornproof.impl.write.commit import HARDENED

TIMES, FEW_TIMES = 10, 2
STEPS_MAX = 1_000 + STEP_BUDGET
"""A replay also looks for the cause again."""
INVALID, VALID, UNKNOWN = Verdict.INVALID, Verdict.VALID, Verdict.UNKNOWN


FINDINGS = [switched_finding, killed_finding, cut_finding, toy_finding]
EACH = pytest.mark.parametrize("find", sampled(2, FINDINGS))


def reread(finding: Finding) -> Finding:
    return replace(finding, evidence=json.loads(json.dumps(finding.evidence)))


def changed(finding: Finding, *path: str | int, to: Any) -> Finding:
    copy = reread(finding)
    inner: Any = copy.evidence
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return copy


def test_a_finding_whose_log_holds_no_decision_is_one_with_a_log() -> None:
    assert is_simulated({"log": [], "test_case": {}})
    assert not is_simulated({"test_case": {}}) and not is_simulated({"log": []})


@pytest.mark.parametrize(
    ("find", "all_times"),
    [
        (toy_finding, TIMES),
        (cut_finding, FEW_TIMES),
        *(nightly(find, TIMES) for find in FINDINGS if find is not toy_finding),
    ],
)
def test_a_finding_replays_every_time_with_the_same_evidence_in_few_steps(
    find: Callable[[], Finding], all_times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = reread(find())
    step, steps = World.step, count()
    monkeypatch.setattr(World, "step", lambda world, index: (next(steps), step(world, index))[1])
    for times in range(1, 1 + all_times):
        replayed = replay_planted(finding)
        assert next(steps) < times * STEPS_MAX
        assert (replayed.verdict, replayed.is_same, replayed.note) == (INVALID, True, "")
    assert replay_finding(finding, made_image(), "nowhere") is INVALID


@pytest.mark.parametrize("name", RUNS)
def test_the_evidence_is_what_it_was(name: str) -> None:
    assert checksums(RUNS[name]()) == recorded()[name], REMADE


@EACH
def test_a_log_that_breaks_nothing_is_valid(find: Callable[[], Finding]) -> None:
    assert replay_planted(changed(find(), "log", to=[])).verdict is VALID


def test_a_repaired_writer_is_valid_where_all_decisions_still_apply() -> None:
    protocol = case_document(replace(table_case(), target=with_memory(TableTarget())))["target"]["protocol"]
    assert replay_planted(switched_finding()).verdict is INVALID
    repaired = changed(switched_finding(), "test_case", "target", "protocol", to=protocol)
    assert replay_planted(repaired).verdict is VALID


@pytest.mark.parametrize(
    "line",
    [
        "writer@commit 9: write _txn #1 -> reader 1",
        "writer.2@end is killed",
        "writer@open: sync _txn #9 fails: NO_SPACE",
    ],
)
def test_a_decision_that_does_not_apply_is_unknown(line: str) -> None:
    (lost,) = DecisionLog.parse(line).document()
    replayed = replay_planted(changed(switched_finding(), "log", to=[*switched_finding().evidence["log"], lost]))
    assert replayed.verdict is UNKNOWN
    assert line in replayed.note


def test_another_property_or_part_is_not_the_same() -> None:
    assert replay_planted(replace(reread(switched_finding()), property=Property.STALE)).verdict is VALID
    assert replay_planted(changed(switched_finding(), "part", to="writer")).verdict is VALID


def test_other_words_are_the_same_property_with_other_evidence() -> None:
    replayed = replay_planted(changed(switched_finding(), "kind", to="as it was said before"))
    assert (replayed.verdict, replayed.is_same) == (INVALID, False)
    replayed = replay_planted(changed(switched_finding(), "explanation", "seen", to="something else"))
    assert (replayed.verdict, replayed.is_same) == (INVALID, False)


LATER = ("broken", "files", "files_at", "files_left_out", "narrative", "operations", "passes_when", "stands")
"""The parts of an explanation that the first release to write logs did not have."""


def as_first_written(finding: Finding) -> Finding:
    """Return a finding as the first release to write logs wrote it."""
    copy = reread(finding)
    explained = copy.evidence["explanation"]
    explained["lanes"] = [lane_cells(row, raw=True) for row in explained["lanes"]]
    for name in LATER:
        del explained[name]
    for name in ("done_action", "not_yet_action"):
        del explained["cause"][name]
    for name in ("lanes", "moved", "sees", "stands"):
        del explained["neighbour"][name]
    return copy


@EACH
def test_a_file_of_an_older_release_replays_with_the_evidence_that_it_has(find: Callable[[], Finding]) -> None:
    finding = find()
    older = as_first_written(finding)
    replayed = replay_planted(older)
    assert (replayed.verdict, replayed.is_same, replayed.note) == (INVALID, True, "")
    assert replayed.evidence == reread(finding).evidence
    for path in (("lanes", 0, 0), ("neighbour", "change"), ("trace",)):
        other = replay_planted(changed(older, "explanation", *path, to="another"))
        assert (other.verdict, other.is_same) == (INVALID, False)


@pytest.mark.parametrize("name", ["files", "files_at", "files_left_out", "lanes", "bytes"])
def test_the_whole_explanation_of_a_file_is_compared(name: str) -> None:
    replayed = replay_planted(changed(cut_finding(), "explanation", name, to=[]))
    assert (replayed.verdict, replayed.is_same) == (INVALID, False)


def test_another_release_may_tell_the_same_run_in_other_words() -> None:
    replayed = replay_planted(changed(cut_finding(), "explanation", "narrative", to=["It happened."]))
    assert (replayed.verdict, replayed.is_same) == (INVALID, True)


def test_row_groups_are_those_of_the_finding_whatever_the_encoder_does_now() -> None:
    case = case_of(reread(switched_finding()).evidence["test_case"])
    assert isinstance(case.target, TableTarget) and isinstance(case.target.encode, EncoderMemory)
    calls = count()
    inner = case.target.encode.inner

    def counted(*arguments: Any, **settings: Any) -> Any:
        next(calls)
        return inner(*arguments, **settings)

    case.target.encode.inner = counted
    result = run_log(case, DecisionLog.of_document(switched_finding().evidence["log"]))
    assert result.violations and next(calls) == 0
    encoded = switched_finding().evidence["test_case"]["target"]["encoded"]
    assert replay_planted(changed(switched_finding(), "test_case", "target", "encoded", to={})).verdict is INVALID
    assert encoded
    key = next(iter(encoded))
    torn = changed(switched_finding(), "test_case", "target", "encoded", key, "chunks", to=encoded[key]["chunks"][:-1])
    assert not replay_planted(torn).is_same


def test_a_case_comes_back_from_json() -> None:
    case = table_case("questdb-9.4.2", reads=3)
    case = replace(
        case,
        operations=(*case.operations, TableOperation(dropped=(7, 8), rewritten=(9,), purges=True)),
        target=TableTarget.of(PRESETS["questdb-9.4.2"]),
    )
    again = case_of(json.loads(json.dumps(case_document(case))))
    for name in ("path", "operations", "first_session", "second_session", "readers", "rules"):
        assert getattr(again, name) == getattr(case, name)
    assert again.kernel().image().files == case.kernel().image().files
    assert again.kernel().image().directories == case.kernel().image().directories
    assert again.target.name == case.target.name
    assert isinstance(again.target, TableTarget) and isinstance(case.target, TableTarget)
    assert (again.target.protocol, again.target.reader) == (case.target.protocol, case.target.reader)


def test_the_links_of_a_start_come_back_from_json_and_a_document_without_any_has_none() -> None:
    start = DiskImage.of_files({"toy/state": b"", "toy/other": b""})
    for links in ((), (("toy/other", "toy/state"),)):
        document = json.loads(json.dumps(case_document(toy_case(Toy(), start=start.with_links(links)))))
        assert ("links" in document) is bool(links)
        assert case_of(document).kernel().image().links == links
    for junk in (7, [7], [["toy/other", "elsewhere"]]):
        with pytest.raises((TypeError, StorageError)):
            case_of(document | {"links": junk})


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_comes_back_by_its_name(preset: str) -> None:
    case = table_case(preset)
    document = case_document(case)
    assert document["target"]["preset"] == preset
    target = case_of(document).target
    assert isinstance(target, TableTarget)
    assert (target.protocol, target.reader) == (PRESETS[preset].protocol, PRESETS[preset].reader)


class OwnToy(HeaderFirst):
    """A target that only its own test can make."""

    name = "own"


def test_a_target_of_a_test_is_unknown_until_the_test_hands_it_in() -> None:
    finding = reread(found(toy_case(OwnToy(), readers=(Readers(),))))
    assert replay_planted(finding).verdict is UNKNOWN
    assert replay_planted(finding, OwnToy()).verdict is INVALID
    assert replay_planted(finding, Toy()).verdict is not INVALID


@pytest.mark.parametrize("name", TOYS)
def test_each_toy_comes_back_by_its_name(name: str) -> None:
    document = case_document(toy_case(TOYS[name]()))
    assert type(case_of(document).target) is TOYS[name]


@pytest.mark.parametrize(
    ("part", "document"),
    [
        ("target", {"kind": "toy", "name": "nobody"}),
        ("target", {"kind": "table", "name": "hardened", "preset": "nobody"}),
        ("target", {"kind": "nobody", "name": "toy"}),
        ("rules", {"kind": "nobody", "name": "table"}),
    ],
)
def test_what_has_a_name_that_nobody_knows_is_not_taken_for_another_one(part: str, document: dict[str, str]) -> None:
    case = reread(toy_finding()).evidence["test_case"]
    with pytest.raises(UnknownTargetError):
        case_of(case | {part: document})


class OwnRules(TraceRules):
    """Rules that only this test has."""


def test_a_finding_by_rules_of_a_test_is_unknown() -> None:
    case = replace(toy_case(HeaderFirst(), readers=(Readers(),)), rules=OwnRules())
    assert replay_planted(reread(found(case))).verdict is UNKNOWN


def test_rules_of_a_table_come_back() -> None:
    unsynced = structs.replace(HARDENED, update=(HARDENED.update[0], *HARDENED.update[2:]))
    case = replace(table_case(protocol=unsynced), rules=TableRules(MADE_PATH))
    finding = reread(found(case))
    assert finding.property == Property.BARRIERS
    assert finding.evidence["log"] == []
    assert finding.evidence["explanation"]["neighbour"] is None
    assert replay_planted(finding).verdict is INVALID
    for rules in ({"kind": "none"}, {"kind": "table", "promises_barriers": False}):
        assert replay_planted(changed(finding, "test_case", "rules", to=rules)).verdict is VALID


def test_a_finding_with_an_operation_that_json_cannot_hold_is_unknown() -> None:
    class Letters(bytes):
        """Bytes of a kind of its own."""

    case = toy_case(
        HeaderFirst(), readers=(Readers(),), operations=(Letters(b"a"),), first_session=(0,), second_session=()
    )
    finding = reread(found(case))
    assert replay_planted(finding).verdict is UNKNOWN
    assert "Letters" not in str(finding.evidence["test_case"]["operations"])
    assert "b'a'" in str(finding.evidence["test_case"]["operations"])


PATHS = [
    (),
    ("log",),
    ("log", 0),
    ("log", 0, "at"),
    ("log", 0, "choice"),
    ("part",),
    ("kind",),
    ("explanation",),
    ("test_case",),
    ("test_case", "path"),
    ("test_case", "rules"),
    ("test_case", "directories"),
    ("test_case", "start_files"),
    ("test_case", "start_files", "made/_txn"),
    ("test_case", "operations"),
    ("test_case", "operations", 0),
    ("test_case", "operations", 0, "table", "rows"),
    ("test_case", "first_session"),
    ("test_case", "readers"),
    ("test_case", "target"),
    ("test_case", "target", "kind"),
    ("test_case", "target", "preset"),
    ("test_case", "target", "protocol"),
    ("test_case", "target", "options"),
    ("test_case", "target", "encoded"),
]
JUNK = st.sampled_from(
    [None, 0, -1, 10**30, 1.5, "", "x", "AAAA", "/", [], [0], [-1], ["x"], {}, {"x": 1}, {"kind": "toy", "name": []}]
)


@given(st.sampled_from(PATHS), JUNK)
def test_a_finding_that_was_edited_never_crashes_the_replay(path: tuple[str, ...], junk: Any) -> None:
    finding = (
        changed(cut_finding(), *path, to=junk)
        if path
        else replace(cut_finding(), evidence={"log": junk, "test_case": junk})
    )
    assert replay_planted(finding).verdict in (VALID, UNKNOWN, INVALID)


def test_rows_that_are_no_arrow_stream_are_unknown() -> None:
    broken = [{"arrow": "/////wgAAAAAAAAAAAAAAA=="}]
    assert (
        replay_planted(changed(cut_finding(), "test_case", "operations", 0, "table", "rows", to=broken)).verdict
        is UNKNOWN
    )


def test_files_that_unpack_to_too_much_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.harness.counterexamples.case_document.UNPACKED_LIMIT_BYTES", 1000)
    assert replay_planted(switched_finding()).verdict is UNKNOWN


def test_a_finding_records_how_it_was_found_and_how_much_smaller_it_is() -> None:
    case = table_case(protocol=HEADER_BEFORE_BODY)
    moves, violation = broken_run(case)
    finding = finding_of(case, moves, violation, phase="schedules", scenario="two hours")
    assert (finding.phase, finding.property, finding.evidence["scenario"]) == (
        "schedules",
        Property.REJECTED,
        "two hours",
    )
    assert finding.evidence["shrunk"]["operations"] == [4, 1]
    assert len(finding.evidence["test_case"]["operations"]) == 1
    before, after = finding.evidence["shrunk"]["decisions"]
    assert before > after == 1


@pytest.mark.parametrize("phase", ["product", "random"])
def test_moves_that_no_log_reproduces_replay_with_their_case(phase: str) -> None:
    """They were without their case, and nobody replayed those of the random phase."""
    case = toy_case(HeaderFirst(), readers=(Readers(),))
    moves, violation = broken_run(case)
    finding = as_seen(case, moves, violation, phase=phase, note="no log reproduces it")
    assert replay_finding(reread(finding), DiskImage(), "") is INVALID


@pytest.mark.nightly
def test_the_same_run_gives_the_same_finding() -> None:
    def make(case: TestCase) -> str:
        return json.dumps(found(case, C_512).evidence, sort_keys=True)

    assert make(table_case("specification")) == make(table_case("specification"))
