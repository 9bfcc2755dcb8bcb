"""A finding is a file that replays to the same finding, or to UNKNOWN with the reason; the log of a run is a value."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from depth import nightly, sampled
from evidence_checksums import REMADE, RUNS, checksums, recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from random_runs import (
    HEADER_BEFORE_BODY,
    broken_run,
    cut_finding,
    found,
    killed_finding,
    reread,
    switched_finding,
    table_case,
    toy_case,
    toy_finding,
    traces,
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
from tornproof.harness.counterexamples.log import DecisionLog, Fail, Kill, PowerCut, Switch, shortest
from tornproof.harness.counterexamples.make import as_seen, finding_of
from tornproof.harness.counterexamples.moves import from_schedule
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.run import run_log
from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.counterexamples.words import lane_cells
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.persistence.models import C_512, CDIR, Model
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
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.write.commit import HARDENED

TIMES, FEW_TIMES = 10, 2
STEPS_MAX = 1_000 + STEP_BUDGET
"""A replay also looks for the cause again."""
INVALID, VALID, UNKNOWN = Verdict.INVALID, Verdict.VALID, Verdict.UNKNOWN


FINDINGS = [switched_finding, killed_finding, cut_finding, toy_finding]
EACH = pytest.mark.parametrize("find", sampled(2, FINDINGS))


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


# Logs


ROOT = Path(__file__).parents[3]
WITH_READERS = {"readers": (Readers(count=2, read_count=2),)}
PROCESSES = st.sampled_from(["writer", "reader 1", "reader 12", "writer.2", "reader 3.4"])
STEPS = st.one_of(
    PROCESSES.map(lambda process: Step(process, END)),
    st.builds(
        Step,
        PROCESSES,
        st.sampled_from(["open", "look", "close", "commit 0", "commit 17", "read 1", "after read 2"]),
        st.sampled_from([kind.value for kind in CallKind]),
        st.text(),
        st.integers(1, 10**6),
    ),
)
PLAIN = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
DEVIATIONS = st.one_of(
    st.builds(Switch, STEPS, PROCESSES),
    st.builds(Fail, STEPS, st.sampled_from(StorageReason), st.just("") | PLAIN.map(shortest)),
    st.builds(Kill, STEPS),
    st.builds(PowerCut, STEPS, st.sampled_from(["B", "C-512", "Cdir"]), PLAIN.map(shortest)),
)


@settings(max_examples=50)
@given(st.lists(DEVIATIONS))
def test_a_log_comes_back_from_its_text_and_from_its_json(deviations: list[Switch]) -> None:
    log = DecisionLog(tuple(deviations))
    assert DecisionLog.parse(str(log)) == log
    assert DecisionLog.of_document(json.loads(json.dumps(log.document()))) == log


def test_a_finding_file_names_the_fields_of_a_decision_as_all_releases_do() -> None:
    step = {"client": "writer", "operation": "commit 0", "call": "write", "file": "_txn", "occurrence": 2}
    at = Step("writer", "commit 0", "write", "_txn", 2)
    log = DecisionLog(
        (
            Switch(at, "reader 1"),
            Fail(at, StorageReason.NO_SPACE),
            Fail(at, StorageReason.INPUT_OUTPUT, "[1,0,[[2,1]]]"),
            Kill(at),
            PowerCut(at, "Cdir", "[[],{}]"),
        )
    )
    assert DecisionLog.parse(str(log)) == log
    assert log.document() == [
        {"kind": "switch", "at": step, "to": "reader 1"},
        {"kind": "fail", "at": step, "reason": "NO_SPACE"},
        {"kind": "fail", "at": step, "reason": "INPUT_OUTPUT", "written": [1, 0, [[2, 1]]]},
        {"kind": "kill", "at": step},
        {"kind": "powercut", "at": step, "model": "Cdir", "choice": [[], {}]},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "writer",
        "writer@commit 1 -> ",
        "writer@open: dance _txn #1 is killed",
        "writer@end fails: BOREDOM",
        "@end is killed",
    ],
)
def test_what_is_no_decision_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match="no "):
        DecisionLog.parse(line)


@pytest.mark.parametrize("document", [[{}], [{"kind": "dance", "at": {}}], [7], 7])
def test_what_is_no_log_is_rejected(document: list[dict[str, object]]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        DecisionLog.of_document(document)


def test_without_decisions_each_process_runs_to_its_end_in_the_order_of_the_process_group() -> None:
    case = toy_case(Toy(), **WITH_READERS)
    result = run_log(case, DecisionLog())
    assert (result.violations, result.applied, result.dropped) == ((), (), ())
    moves = []
    with closing(case.process_group()) as process_group:
        world = case.begin(process_group)
        while enabled := world.enabled:
            world.step(enabled[0])
            moves.append((enabled[0], 1))
    assert from_schedule(case, moves).deviations == ()
    assert result.step_count == len(moves)


def test_a_step_is_named_by_process_operation_call_file_and_occurrence() -> None:
    case = table_case(readers=1)
    switch, switch_back = "writer@commit 1: store a word _txn #7 -> reader 1", "reader 1@read 1: read _txn #1 -> writer"
    log = DecisionLog.parse(f"{switch}\n{switch_back}")
    result = run_log(case, log)
    assert (result.applied, result.violations) == (log.deviations, ())
    longer = DecisionLog.parse(f"{switch.replace('#7', '#700')}\n{switch_back.replace('read 1', 'read 2')}")
    assert run_log(case, longer).dropped == longer.deviations


@pytest.mark.parametrize(
    ("log", "is_applied"),
    [
        ("writer@commit 0: truncate new #1 -> reader 1", True),
        ("writer@commit 0: truncate new #1 -> reader 9", False),
        ("writer@commit 0: truncate new #1 -> writer", False),
        ("writer@commit 0: truncate new #1 is killed", True),
        ("writer.2@open: look at new #1 is killed", False),
        ("reader 1@read 1: close state #1 is killed", False),
        ("writer@end is killed", True),
        ("writer@end fails: NO_SPACE", False),
        ("writer@commit 0: write new #1 fails: NO_SPACE", True),
        ("writer@commit 0: rename new #1 loses power: C-512 [null,{}]", True),
        ('writer@commit 0: rename new #1 loses power: C-512 [null,{"toy/new":[9,9,[]]}]', False),
        ('writer@commit 0: rename new #1 loses power: C-512 [null,{"toy/new":[-1,-1,[]]}]', False),
        ("writer@commit 0: rename new #1 loses power: X [null,{}]", False),
        ("writer@commit 0: rename new #1 loses power: C-512 7", False),
    ],
)
def test_a_decision_applies_where_it_means_something(log: str, is_applied: bool) -> None:
    decisions = DecisionLog.parse(log)
    result = run_log(toy_case(Toy(), **WITH_READERS), decisions)
    assert result.applied == (decisions.deviations if is_applied else ())
    assert result.dropped == (() if is_applied else decisions.deviations)
    assert result.violations == ()


@pytest.mark.parametrize(
    "crashes",
    sampled(3, [[], ["kill"], ["kill", "kill"], ["fail"], ["fail", C_512], [CDIR], [CDIR, "kill"]]),
    ids=lambda crashes: "-".join(map(str, crashes)) or "none",
)
def test_a_log_of_any_schedule_does_what_the_schedule_did(crashes: Sequence[str | Model]) -> None:
    case = toy_case(HeaderFirst() if "fail" not in crashes else Toy(), **WITH_READERS)
    for world, moves in islice(traces(case, *crashes, switch_probability=0.4), 40):
        log = from_schedule(case, moves)
        result = run_log(case, log)
        assert (result.dropped, result.violations[:1]) == ((), world.progress.violations[:1])
        assert result.step_count == sum(isinstance(move[0], int) or move[0] == "fail" for move in moves)


def test_impossible_moves_are_rejected() -> None:
    for moves in ([(0, 10_000)], [("dance",)], [("fail", 0, "boredom")]):
        with pytest.raises(ValueError, match=r"no step left|no move|not a valid"):
            from_schedule(toy_case(Toy()), moves)


BODY = """
from random_runs import broken_run, table_case, HEADER_BEFORE_BODY
from tornproof.harness.counterexamples.moves import from_schedule
from tornproof.harness.counterexamples.run import run_log
case = table_case(protocol=HEADER_BEFORE_BODY)
moves, _ = broken_run(case)
print(run_log(case, from_schedule(case, moves)).trace_hash)
"""


@pytest.mark.nightly
def test_a_trace_is_the_same_in_every_process() -> None:
    case = table_case(protocol=HEADER_BEFORE_BODY)
    (_, moves) = next((world, moves) for world, moves in traces(case) if world.progress.violations)
    log = from_schedule(case, moves)
    hashes = {run_log(case, log).trace_hash for _ in range(3)}
    # The hashes of this process may be randomized; those of the other one are not.
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests/support'}", "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", BODY], env=environment, capture_output=True, text=True, check=True)
    hashes.add(done.stdout.strip())
    assert len(hashes) == 1
    assert run_log(case, DecisionLog()).trace_hash not in hashes


def test_a_run_ends_at_the_first_violation() -> None:
    case = toy_case(HeaderFirst(), **WITH_READERS)
    log = DecisionLog.parse("writer@commit 0: write state #1 -> reader 1")
    result = run_log(case, log)
    assert [violation.property for violation in result.violations] == [Property.REJECTED]
    assert result.step_count < run_log(case, DecisionLog()).step_count
