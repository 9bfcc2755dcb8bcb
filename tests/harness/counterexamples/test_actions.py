"""What a step is said to do is what it did: values before and after, read from the files by other code."""

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest
from random_runs import cut_finding, killed_finding, switched_finding, table_case

from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.actions import Action, ActionRecorder, in_order
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.log import DecisionLog, Kill, parse_deviation
from tornproof.harness.counterexamples.replay_engine import Observer
from tornproof.harness.counterexamples.run import Replayer
from tornproof.harness.counterexamples.step_names import OPEN, Step
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

EACH = pytest.mark.parametrize("find", [switched_finding, killed_finding, cut_finding], ids=lambda each: each.__name__)
SIZE = struct.Struct("<q")


class Contents(Observer):
    """Keeps the bytes of each call's file before and after it, and passes all on."""

    def __init__(self, inner: ActionRecorder) -> None:
        self.inner = inner
        self.kept: dict[Step, tuple[Call, bytes, bytes]] = {}
        self._old = b""

    def stepping(self, step: Step, call: Call, kernel: Kernel) -> None:
        self.inner.stepping(step, call, kernel)
        self._old = kernel.image().files.get(call.path, b"")

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        self.inner.stepped(step, call, node, world)
        self.kept[step] = call, self._old, world.kernel.image().files.get(call.path, b"")

    def deviated(self, deviation: Any, kernel: Kernel) -> None:
        self.inner.deviated(deviation, kernel)


def played(finding: Finding) -> tuple[dict[Step, Action], dict[Step, tuple[Call, bytes, bytes]]]:
    case = case_of(finding.evidence["test_case"])
    contents = Contents(ActionRecorder(case))
    with Replayer(case) as replayer:
        replayer.play(DecisionLog.of_document(finding.evidence["log"]), observer=contents)
    return contents.inner.actions(), contents.kept


@EACH
def test_each_value_that_is_said_to_change_did_so(find: Callable[[], Finding]) -> None:
    actions, kept = played(find())
    assert actions.keys() == kept.keys()
    said = 0
    for step, action in actions.items():
        call, old, new = kept[step]
        if call.kind not in (CallKind.STORE, CallKind.PWRITE):
            continue
        if action.written is not None:
            assert action.written == (call.offset_bytes, call.offset_bytes + len(call.content))
            assert (action.verb == "append") == (call.offset_bytes == len(old))
            continue
        for value in action.values:
            match = re.search(r"^(version|_pm size) (-?\d+) → (-?\d+)", value)
            if match:
                assert SIZE.unpack_from(old)[0] == int(match[2]) and SIZE.unpack_from(new)[0] == int(match[3])
                said += 1
            token = re.search(r"^token (-?\d+|nothing) → (-?\d+) of ", value)
            if token:
                assert SIZE.unpack_from(new, call.offset_bytes)[0] == int(token[2])
                assert token[1] == "nothing" or SIZE.unpack_from(old, call.offset_bytes)[0] == int(token[1])
                said += 1
    assert said >= 1


@EACH
def test_rows_of_the_lanes_have_each_change_of_the_run_once_and_in_order(find: Callable[[], Finding]) -> None:
    finding = find()
    for row in finding.evidence["explanation"]["lanes"]:
        assert bool(row["actions"]) == bool(row["does"])
        syncs = [text.split(" ")[-1].rstrip(")") for text in row["actions"] if text.startswith("sync ")]
        called = [text for text in row["does"] if text.startswith("sync ")]
        assert len(syncs) <= sum(int(text.rpartition(" x")[2]) if " x" in text else 1 for text in called)
        assert bool(syncs) == bool(called)


@EACH
def test_an_operation_is_said_to_end_as_it_ended(find: Callable[[], Finding]) -> None:
    finding = find()
    case = case_of(finding.evidence["test_case"])
    explained = finding.evidence["explanation"]
    assert explained["operations"] == [str(operation) for operation in case.operations]
    for row in explained["lanes"]:
        if row["operation"].startswith("commit ") and row["ends"]:
            operation = case.operations[int(row["operation"].split(" ")[1])]
            aborted = any(end.startswith("aborted") for end in row["ends"])
            assert aborted == (operation.abandons and "acknowledged" not in row["ends"])
            assert not (operation.abandons and "acknowledged" in row["ends"])


def test_actions_of_one_verb_and_file_are_one_and_ranges_that_touch_are_one() -> None:
    stores = [Action("store", (f"{name} 1 → 2",), "_txn") for name in ("TXN", "A", "B", "token", "C")]
    assert in_order(stores) == ["store token 1 → 2, TXN 1 → 2, A 1 → 2, 2 more (_txn)"]
    writes = [Action("write", (), "f", (0, 8)), Action("write", (), "f", (8, 16)), Action("write", (), "f", (24, 32))]
    assert in_order(writes) == ["write bytes 0 to 16 (f)", "write bytes 24 to 32 (f)"]
    assert in_order([Action("sync f"), Action("sync f"), Action("sync g")]) == ["sync f", "sync g"]


def test_files_that_an_operation_has_made_before_a_crash_are_among_those_that_it_changed() -> None:
    case = table_case("questdb-9.4.3")
    recorder, kernel = ActionRecorder(case), Kernel.of(DiskImage.of_files({"a": b"new", "b": b"made", "c": b"same"}))
    recorder._at_begin = {"a": b"old", "c": b"same", "d": b"gone"}
    kill = parse_deviation("writer@commit 0: write b #1 is killed")
    recorder.deviated(kill, kernel)
    assert recorder.changed_before(kill) == {"a": b"old", "b": b""}


def test_an_operation_begins_again_after_a_kill_also_if_it_has_the_same_name() -> None:
    recorder = ActionRecorder(case_of(killed_finding().evidence["test_case"]))
    opening = Step("writer 1", OPEN, CallKind.SIZE, "_txn")
    for session in range(2):
        kernel = Kernel.of(DiskImage.of_files({"table/_txn": b"%d" % session}))
        recorder.stepping(opening, Call(kind=CallKind.SIZE, path="table/_txn"), kernel)
        recorder.deviated(Kill(opening), kernel)
    assert [begin.files["table/_txn"] for begin in recorder.begins] == [b"0", b"1"]
