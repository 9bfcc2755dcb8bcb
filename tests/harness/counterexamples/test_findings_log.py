"""A run is a value: its log is the same as text and as JSON, and gives the same run every time."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from depth import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from random_runs import HEADER_BEFORE_BODY, table_case, toy_case, traces

from tornproof.harness.counterexamples.log import DecisionLog, Fail, Kill, PowerCut, Switch, shortest
from tornproof.harness.counterexamples.moves import from_schedule
from tornproof.harness.counterexamples.run import run_log
from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.persistence.models import C_512, CDIR, Model
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import HeaderFirst, Toy
from tornproof.impl.storage.interface import StorageReason

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
