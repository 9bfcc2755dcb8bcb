"""The cause of a finding: the changes that prevent it are those that the sound twin makes, and blind ones find none."""

import json
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from depth import nightly
from random_runs import (
    HEADER_BEFORE_BODY,
    VERSION_BEFORE_RECORD,
    cut_finding,
    found,
    switched_finding,
    table_case,
    toy_case,
)

from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples import cause as inference
from tornproof.harness.counterexamples.actions import ActionRecorder
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.cause import STEP_BUDGET, Delayed, Restored, Seen, Synced
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.replay_engine import Change
from tornproof.harness.counterexamples.run import Replayer, Signature, run_log
from tornproof.harness.counterexamples.smaller import Candidate
from tornproof.harness.counterexamples.step_names import OPEN, Step, StepNames
from tornproof.harness.counterexamples.words import brief, sentences
from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.causes import find
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.models import C_8, B
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Process, Say
from tornproof.harness.simulator.process.world import NO_RULES, ProcessGroup
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, SwallowsErrors, Toy
from tornproof.impl.storage.interface import OpenMode, Storage

ORPHAN_BASE = "questdb-9.4.2"


def passes_when(finding: Finding) -> dict[str, Any]:
    inferred: dict[str, Any] = finding.evidence["explanation"]["passes_when"]
    return inferred


def kinds(finding: Finding) -> list[str]:
    return [change["kind"] for change in passes_when(finding)["changes"]]


def again(finding: Finding) -> dict[str, Any]:
    """Return what is inferred for a finding now."""
    case, log = case_of(finding.evidence["test_case"]), DecisionLog.of_document(finding.evidence["log"])
    wanted = Signature(finding.property, finding.evidence["part"], finding.evidence["kind"])
    explained: dict[str, Any] = explain(Candidate(case, log), wanted)
    return explained


def header_first() -> Finding:
    return found(toy_case(HeaderFirst(), readers=(Readers(),)))


def test_a_header_that_comes_too_early_is_the_cause_and_the_twin_that_stores_it_late_is_sound() -> None:
    finding = header_first()
    first = passes_when(finding)["changes"][0]
    assert first["kind"] == "order state"
    before, _, after = first["text"].partition("comes after: ")
    assert "bytes 0 to 8 (state)" in before and "bytes 8 to " in after
    log = DecisionLog.of_document(finding.evidence["log"])
    assert not run_log(toy_case(Toy(), readers=(Readers(),)), log).violations


@pytest.mark.parametrize(
    ("protocol", "file", "first", "then"),
    [
        (HEADER_BEFORE_BODY, "_pm", "publish _pm size ", "append bytes "),
        (VERSION_BEFORE_RECORD, "_txn", "store version ", "store "),
    ],
    ids=["header", "version"],
)
def test_of_two_steps_in_the_wrong_order_the_order_is_the_cause(
    protocol: Any, file: str, first: str, then: str
) -> None:
    finding = found(table_case(protocol=protocol))
    (order,) = [each for each in passes_when(finding)["changes"] if each["kind"].startswith("order ")]
    assert order["kind"].endswith(file)
    assert order["text"].startswith(f"the step “{first}") and f"comes after: {then}" in order["text"]


def test_bytes_that_a_power_cut_takes_are_prevented_by_a_sync_at_that_place() -> None:
    finding = cut_finding()
    assert any(kind.startswith(("sync ", "whole ")) for kind in kinds(finding)), passes_when(finding)
    ordered = found(toy_case(HeaderFirst(), second_session=(), readers=(Readers(),)), C_8)
    assert kinds(ordered) == ["order state"], "where all bytes are kept, the order of writes is the cause"
    lost = found(toy_case(AcknowledgesFirst(), first_session=(0, 1), second_session=()), B)
    assert all(not kind.startswith("sync") for kind in kinds(lost)), "what was not written cannot be synced"


def test_what_a_released_server_does_otherwise_is_tried_one_by_one() -> None:
    finding = found(table_case(ORPHAN_BASE, readers=1))
    texts = [change["text"] for change in passes_when(finding)["changes"]]
    assert any(text.startswith(("the reader decodes", "a commit continues", "the token in _txn")) for text in texts)
    protocols = dict(table_case(ORPHAN_BASE).target.repaired())
    sound = PRESETS["hardened"]
    assert len(protocols) >= 7 and not list(table_case().target.repaired())
    for target in protocols.values():
        assert isinstance(target, TableTarget)
        changed = [
            name
            for name in target.protocol.__struct_fields__
            if getattr(target.protocol, name) != getattr(PRESETS[ORPHAN_BASE].protocol, name)
        ]
        assert len(changed) + (target.reader is sound.reader) == 1


@pytest.mark.parametrize("blinded", [Delayed, Synced, Restored, Seen], ids=lambda each: each.__name__)
def test_a_change_that_does_nothing_prevents_nothing(blinded: type[Change], monkeypatch: pytest.MonkeyPatch) -> None:
    findings = {
        Delayed: lambda: header_first(),
        Seen: lambda: header_first(),
        Synced: lambda: cut_finding(),
        Restored: lambda: found(table_case(ORPHAN_BASE, readers=0), "kill"),
    }
    prefix = {Delayed: "order ", Synced: "sync ", Restored: "left ", Seen: "seen"}[blinded]
    finding = findings[blinded]()
    assert any(kind.startswith(prefix) for kind in kinds(finding)), passes_when(finding)
    monkeypatch.setattr(blinded, "make", Change.make)
    monkeypatch.setattr(blinded, "crashed", Change.crashed)
    now = again(finding)["passes_when"]
    assert not any(change["kind"].startswith(prefix) for change in now["changes"])
    assert now["tried"] >= passes_when(finding)["tried"]


@pytest.mark.parametrize(("size_bytes", "loaded"), [(16, (3, 4)), (15, (3, 2)), (8, (3, 2)), (7, (1, 2)), (0, (1, 2))])
def test_a_process_sees_each_word_of_other_content_that_is_there(size_bytes: int, loaded: tuple[int, int]) -> None:
    """The last word of a mapped file was seen as it was."""
    content, other = struct.pack("<2q", 1, 2), struct.pack("<2q", 3, 4)[:size_bytes]

    def body(storage: Storage, say: Say) -> None:
        with storage.open_for_reading("d/f") as file, file.map(len(content)) as mapping:
            say("found", (mapping.load_u64(0), mapping.load_u64(8)))
            say("found", file.pread(len(content), 0))

    names, change = StepNames("d"), Seen("reader 1", "d/f", other)
    group = ProcessGroup(processes=(Process("reader 1", body),), judge=Judge(lambda operations: None))
    world = group.begin(Kernel.of(DiskImage.of_files({"d/f": content})), Progress())
    try:
        while world.nodes[0].call is not None:
            change.make(names.name("reader 1", world.nodes[0]), world, 0)
        marks = [mark.value for node in path_to(world.nodes[0]) for mark in node.marks]
    finally:
        group.close()
    assert marks == [loaded, other] and world.kernel.image().files == {"d/f": content}


@pytest.mark.parametrize("is_before", [True, False])
def test_a_file_is_synced_right_before_a_step_or_right_after_it_and_not_both(*, is_before: bool) -> None:
    """A sync before a step that was made after it, too, would be named as the cause that only the latter is."""

    def body(storage: Storage, say: Say) -> None:
        with storage.open_for_writing("d/f") as file:
            for letter in (b"a", b"b", b"c"):
                file.pwrite(letter, 0)

    names, group = StepNames("d"), ProcessGroup(processes=(Process("writer", body),), judge=Judge(lambda _: None))
    world = group.begin(Kernel.of(DiskImage.of_files({"d/f": b"-"})), Progress())
    left: dict[bytes, tuple[bytes, ...]] = {}
    try:
        while (call := world.nodes[0].call) is not None:
            step = names.name("writer", world.nodes[0])
            at = Step("writer", step.operation, CallKind.PWRITE.value, "f", 2)
            Synced(("d/f",), at, is_before=is_before).make(step, world, 0)
            left[call.content] = world.kernel.files[world.kernel.entry("d/f")].versions
    finally:
        group.close()
    second = (b"a", b"b") if is_before else (b"b",)
    assert [left[letter] for letter in (b"a", b"b", b"c")] == [(b"-", b"a"), second, (*second, b"c")]


def left_by(body: Callable[[Storage], None], start: DiskImage, change: Change) -> object:
    """Return all of a disk that a later call can depend on, after a writer whose run is changed."""
    process = Process("writer", lambda storage, _: body(storage))
    names, group = StepNames("d"), ProcessGroup(processes=(process,), judge=Judge(lambda _: None))
    world = group.begin(Kernel.of(start), Progress())
    try:
        while world.nodes[0].call is not None:
            change.make(names.name("writer", world.nodes[0]), world, 0)
    finally:
        group.close()
    return world.kernel.identity()


@pytest.mark.parametrize("synced", ["d", "d/g"])
@pytest.mark.parametrize("start", [{"d/f": b"-"}, {"d/g": b"+"}, {"d/f": b"-", "d/g": b"+"}], ids=str)
def test_what_is_synced_is_as_durable_as_if_its_writer_had_synced_it(synced: str, start: dict[str, bytes]) -> None:
    """Of a file that got another name the new one is durable, too, for which a sync of its data would not do."""

    def body(storage: Storage, *, is_own: bool) -> None:
        with storage.open_for_writing("d/f", OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(b"a", 0)
            storage.rename("d/f", "d/g")
            if is_own and synced == "d":
                storage.sync_directory("d")
            elif is_own:
                file.fsync()
            file.pwrite(b"b", 0)

    change = Synced((synced,), Step("writer", OPEN, CallKind.PWRITE.value, "f", 2), is_before=True)
    left = left_by(partial(body, is_own=False), DiskImage.of_files(start), change)
    assert left == left_by(partial(body, is_own=True), DiskImage.of_files(start), Change())


DELAYED: dict[CallKind, Callable[[Storage], object]] = {
    CallKind.RENAME: lambda storage: storage.rename("d/f", "d/g"),
    CallKind.UNLINK: lambda storage: storage.unlink("d/f"),
    CallKind.MKDIR: lambda storage: storage.mkdir("d/f"),
    CallKind.RMDIR: lambda storage: storage.rmdir("d/f"),
}


@pytest.mark.parametrize("kind", DELAYED)
def test_a_step_that_is_delayed_leaves_what_it_leaves_if_its_writer_makes_it_later(kind: CallKind) -> None:
    """What is lost of both, if the power fails, depends on which name was changed first."""

    def body(storage: Storage, *, is_late: bool) -> None:
        if not is_late:
            DELAYED[kind](storage)
        storage.rename("d/one", "d/other")
        if is_late:
            DELAYED[kind](storage)

    start = DiskImage(
        {"d/one": b"1", **({"d/f": b"-"} if kind in (CallKind.RENAME, CallKind.UNLINK) else {})},
        frozenset({"d", "d/f"} if kind is CallKind.RMDIR else {"d"}),
    )
    change = Delayed(*(Step("writer", OPEN, of.value, file, 1) for of, file in ((kind, "f"), (CallKind.RENAME, "one"))))
    late, early = (left_by(partial(body, is_late=is_late), start, Change()) for is_late in (True, False))
    assert left_by(partial(body, is_late=False), start, change) == late != early


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "file", "looks"),
    [
        nightly("decoded by the newest footer", "_pm", "read _pm size 648"),
        ("size of data.parquet from the file", "data.parquet", "see a size of 1624 bytes"),
    ],
)
def test_a_reader_that_decides_by_what_is_not_committed_is_told_by_the_file_that_misleads_it(
    fault: str, file: str, looks: str
) -> None:
    finding = find(fault_named(fault))
    assert finding is not None and finding.phase == "schedules"
    seen = passes_when(finding)["changes"][0]
    assert seen["kind"] == "seen before"
    assert seen["text"].startswith(f"reader 1 sees 2024-01-01T00.0/{file} as it was before commit 0 of writer")
    assert f"here it does: {looks}" in seen["text"]


def test_what_is_removed_beside_a_reader_without_a_pin_is_told_so() -> None:
    finding = find(fault_named("pin not taken"))
    assert finding is not None and finding.phase == "schedules"
    (removed,) = [each["text"] for each in passes_when(finding)["changes"] if each["kind"] == "postponed"]
    assert "which has no pin" in removed and "remove 2024-01-01T00.0/" in removed


def test_a_reader_has_a_lock_from_its_pin_to_its_end() -> None:
    case = baseline_of("purge-beside-a-pinned-reader").case(TableTarget(), NO_RULES)
    recorder = ActionRecorder(case)
    with Replayer(case) as replayer:
        replayer.play(DecisionLog(()), observer=recorder)
    steps = recorder.steps["reader 1"]
    held = [recorder.holds_lock(step) for step in steps]
    pinned = next(number for number, step in enumerate(steps) if step.call == "lock")
    released = max(number for number, step in enumerate(steps) if step.call == "close" and step.file == "_pins")
    assert held == [pinned <= number < released for number in range(len(steps))]


def test_what_nothing_prevents_is_said_so_and_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = header_first()
    monkeypatch.setattr(inference, "STEP_BUDGET", 0)
    cut = again(finding)["passes_when"]
    assert cut["is_cut"] and cut["tried"] == 1 < passes_when(finding)["tried"] and not passes_when(finding)["is_cut"]
    assert STEP_BUDGET > 0
    evidence = {**finding.evidence, "explanation": {**finding.evidence["explanation"], "passes_when": cut}}
    said = " ".join(sentences(finding.property, evidence))
    assert "1 small change of the run tried before the limit" in said or "None of 1 small change" in said
    swallowed = found(toy_case(SwallowsErrors()), "fail", C_8)
    assert json.dumps(passes_when(swallowed))


def test_the_few_lines_of_the_terminal_name_the_first_change() -> None:
    finding = switched_finding()
    lines = dict(brief(finding.property, finding.evidence))
    assert list(lines) == ["broken", "let", "then", "cause"]
    assert lines["cause"] == f"it does not happen when {passes_when(finding)['changes'][0]['text']}"
