"""The memory explorer detects exactly what lacks a fence, where memory is weak, and nothing that has all fences."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest
from depth import always_if, drawn, nightly
from explorations import explore_variant
from recorded_phases import AsRecorded

from tornproof.harness.common.verdict import Finding, HasTime, Phase, Verdict, always, calls_at_most
from tornproof.harness.explorers.memory.exploration import (
    GREW,
    MIXED,
    OLDER_WORD,
    POINTS,
    WORD_BYTES,
    Explored,
    MemoryExploration,
)
from tornproof.harness.explorers.memory.explorer import (
    CONTROLS,
    MemoryTestCase,
    baseline_of,
    explore_memory,
    failed_controls,
    replay_memory,
)
from tornproof.harness.explorers.memory.variants import (
    ALL_FENCES,
    CASES,
    NO_BARRIER_BEFORE_VERSION,
    NO_FENCE_AFTER_VERSION,
    NO_FENCE_BEFORE_VERSION,
    NO_FINAL_LOOK,
    NO_LOAD_FENCE_AFTER_VERSION,
    NO_LOAD_FENCE_BEFORE_FINAL_LOOK,
    NO_LOAD_FENCES,
    VARIANTS,
    MemoryCase,
    MemoryVariant,
)
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel, NotMappedError, View
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Progress, Property
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image

IMAGE = made_image()
GROWN, MERGED, REWRITTEN, _ = crash_operations(IMAGE, MADE_PATH)
SEQUENTIAL, TOTAL_STORE_ORDER, WEAK_WITH_SYSTEM_CALLS, WEAK = CASES
REWRITES = MemoryTestCase(
    target=TableTarget(), operations=(REWRITTEN,) * 4, path=MADE_PATH, start=IMAGE, settled_count=2
)
GROWING = dataclasses.replace(REWRITES, operations=(MERGED,), settled_count=0)
EXPECTED = {
    ALL_FENCES: ((40, 0), (40, 0), (68, 0), (68, 0)),
    NO_FENCE_BEFORE_VERSION: ((40, 0), (40, 0), (68, 0), (803, 705)),
    NO_FENCE_AFTER_VERSION: ((40, 0), (40, 0), (68, 0), (83, 15)),
    NO_LOAD_FENCE_AFTER_VERSION: ((40, 0), (40, 0), (68, 0), (803, 705)),
    NO_LOAD_FENCE_BEFORE_FINAL_LOOK: ((40, 0), (40, 0), (68, 0), (83, 15)),
    NO_LOAD_FENCES: ((40, 0), (40, 0), (68, 0), (2018, 1695)),
    NO_FINAL_LOOK: ((11, 8), (11, 8), (18, 15), (18, 15)),
}
"""Executions, and wrong ones among them, of two rewrites of a partition beside one read, in the order of CASES."""
SMALL = [variant for variant, counted in EXPECTED.items() if max(counted)[0] < 2_000]
BY_DAY = drawn(3, SMALL)


def counts(each: Explored) -> tuple[int, int]:
    assert each.is_complete
    return len(each.executions), each.wrong_count


@pytest.fixture
def without_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are explored anew for each test case, and longer than what some tests look at."""
    monkeypatch.setattr("tornproof.harness.explorers.memory.explorer.failed_controls", lambda test_case: [])


def explore(variant: MemoryVariant = ALL_FENCES, has_time: HasTime = always) -> Phase:
    return explore_memory(
        variant.of(REWRITES.target),
        REWRITES.operations,
        start=IMAGE,
        path=MADE_PATH,
        settled_count=2,
        has_time=has_time,
    )


@cache
def explored(variant: MemoryVariant) -> dict[MemoryCase, Explored]:
    return dict(zip(CASES, explore_variant(REWRITES, variant), strict=True))


@cache
def detected() -> Phase:
    return explore(NO_FENCE_AFTER_VERSION)


def replay(finding: Finding, variant: MemoryVariant = NO_FENCE_AFTER_VERSION) -> Verdict:
    return replay_memory(variant.of(REWRITES.target), REWRITES.operations, finding, start=IMAGE, path=MADE_PATH)


@pytest.mark.parametrize("variant", always_if(BY_DAY.__contains__, VARIANTS), ids=lambda variant: variant.name)
def test_two_commits_beside_one_read_have_these_executions_and_these_wrong_ones(variant: MemoryVariant) -> None:
    assert tuple(map(counts, explored(variant).values())) == EXPECTED[variant]


def test_the_table_in_the_documents_is_the_one_that_is_measured() -> None:
    page = (Path(__file__).parents[4] / "docs" / "memory.md").read_text()
    for variant in VARIANTS:
        cells = (variant.name, *(f"{executions} / {wrong}" for executions, wrong in EXPECTED[variant]))
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.parametrize(("case", "executions"), [(TOTAL_STORE_ORDER, 437), nightly(WEAK, 1221)], ids=str)
def test_three_commits_with_all_fences_are_right_in_every_case(case: MemoryCase, executions: int) -> None:
    three = dataclasses.replace(REWRITES, operations=(REWRITTEN,) * 5)
    assert list(map(counts, explore_variant(three, ALL_FENCES, (case,)))) == [(executions, 0)]


def test_a_fence_that_a_sync_replaces_is_missed_without_the_sync() -> None:
    cases = WEAK_WITH_SYSTEM_CALLS, TOTAL_STORE_ORDER
    assert explored(NO_FENCE_BEFORE_VERSION)[WEAK_WITH_SYSTEM_CALLS].wrong_count == 0
    weak, strong = explore_variant(REWRITES, NO_BARRIER_BEFORE_VERSION, cases)
    assert weak.wrong_count > 0
    assert strong.wrong_count == 0


def test_the_fence_after_the_version_is_missed_from_the_second_commit_on() -> None:
    one = dataclasses.replace(REWRITES, operations=(REWRITTEN,) * 3)
    assert explore_variant(one, NO_FENCE_AFTER_VERSION, [WEAK])[0].wrong_count == 0
    assert explored(NO_FENCE_AFTER_VERSION)[WEAK].wrong_count > 0


@pytest.mark.parametrize("variant", always_if(SMALL.__contains__, VARIANTS[1:]), ids=lambda variant: variant.name)
def test_a_missing_fence_lets_a_reader_accept_a_mixed_record(variant: MemoryVariant) -> None:
    assert Property.WRONG_SNAPSHOT in explored(variant)[WEAK].detected


@pytest.mark.parametrize(("memory_case", "execution_count"), [(REWRITES, EXPECTED[ALL_FENCES][0][0]), (GROWING, 9)])
def test_sequential_executions_are_those_of_a_writer_that_is_stopped_after_each_call(
    memory_case: MemoryTestCase, execution_count: int
) -> None:
    """A second method: the kernel after each call of the writer answers the reader, and time passes between words."""
    test_case = TestCase(
        target=TableTarget(),
        path=MADE_PATH,
        operations=memory_case.operations,
        first_session=tuple(range(len(memory_case.operations))),
        start=IMAGE,
    )
    process_group = test_case.process_group()
    world = process_group.begin(test_case.kernel(), Progress())
    kernels: list[Kernel] = []
    acknowledged = 0
    while world.nodes[0].call is not None:
        world.step(0)
        acknowledged += any(mark.kind == ACKNOWLEDGED for mark in world.nodes[0].marks)
        if acknowledged >= memory_case.settled_count:
            kernels.append(world.kernel.fork())
    process_group.close()
    ends: set[int] = set()
    visited: set[tuple[int, int]] = set()
    with memory_case.reader() as reader:
        waiting: list[tuple[Node, int]] = [(reader.root, 0)]
        while waiting:
            node, time = waiting.pop()
            call = node.call
            if call is None:
                ends.add(node.number)
            elif call.kind is not CallKind.PREAD:
                # The file stays open for the other executions.
                for kernel in kernels if call.kind is CallKind.OPEN_FOR_READING else ():
                    apply(kernel, 1, call)
                waiting.append((reader.advance(node, None), time))
            elif (node.number, time) not in visited:
                visited.add((node.number, time))
                waiting += [(reader.advance(node, content), later) for content, later in copied(kernels, call, time)]
    assert len(ends) == execution_count


def copied(kernels: Sequence[Kernel], call: Call, time: int) -> Iterable[tuple[bytes, int]]:
    """What a read may return that copies word by word while time passes, and when it ends at the earliest.

    A reader that can end later has nothing before it that the one that ended earlier has not.
    """
    earliest = {b"": time}
    contents = [apply(kernel, 1, call) for kernel in kernels]
    for start in range(0, call.size_bytes, WORD_BYTES):
        following: dict[bytes, int] = {}
        for read, begun in earliest.items():
            for later, content in enumerate(contents[begun:], start=begun):
                if isinstance(content, bytes):
                    longer = read + content[start : start + WORD_BYTES]
                    following[longer] = min(later, following.get(longer, later))
        earliest = following
    return earliest.items()


def test_a_reader_sees_every_version_and_may_see_any_later_one_next() -> None:
    for each in explore_variant(REWRITES, ALL_FENCES, read_count=2):
        assert each.seen == set(itertools.combinations_with_replacement(range(3), 2))


def test_with_all_fences_the_phase_is_valid_and_says_what_was_explored(as_recorded: AsRecorded) -> None:
    phase = explore()
    as_recorded(phase)
    assert (phase.verdict, phase.complete, phase.controls, phase.note) == (Verdict.VALID, True, "passed", "")
    assert phase.findings == ()
    assert [phase.counts[f"executions under {case}"] for case in CASES] == [99, 99, 169, 169]
    assert phase.explored == 99 + 99 + 169 + 169
    assert phase.bound.startswith("every execution of 2 commits x 1 reader")
    assert all(str(case) in phase.bound for case in CASES)
    assert all(phase.reached[point] for point in POINTS if point != GREW)


def test_an_area_that_grows_is_reached_and_right() -> None:
    for each in explore_variant(GROWING, ALL_FENCES):
        assert each.reached[GREW] > 0
        assert counts(each) == (9, 0)


def test_points_of_weak_memory_are_not_reached_under_stronger_models() -> None:
    for case, reaches in ((SEQUENTIAL, False), (TOTAL_STORE_ORDER, False), (WEAK, True)):
        assert (explored(ALL_FENCES)[case].reached[OLDER_WORD] > 0) == reaches
    assert explored(NO_FINAL_LOOK)[WEAK].reached[MIXED] == 0


@pytest.mark.usefixtures("without_controls")
def test_a_time_limit_is_said_in_the_bound_of_memory() -> None:
    phase = explore(has_time=calls_at_most(5))
    assert (phase.verdict, phase.complete) == (Verdict.UNKNOWN, False)
    assert phase.note.startswith("never reached: ")
    assert phase.bound.startswith("some executions under sequential consistency") and phase.explored < 20


def test_what_is_never_reached_makes_the_verdict_unknown() -> None:
    phase = explore_memory(
        REWRITES.target,
        (REWRITTEN,) * 3,
        start=IMAGE,
        path=MADE_PATH,
        settled_count=2,
    )
    assert phase.verdict is Verdict.UNKNOWN
    assert MIXED in phase.note
    assert "no final look was not detected under sequential consistency" in phase.controls


@pytest.mark.usefixtures("without_controls")
def test_findings_say_which_store_answered_each_load_and_why_it_could() -> None:
    phase = detected()
    assert phase.verdict is Verdict.INVALID
    assert {finding.property for finding in phase.findings} == {Property.WRONG_SNAPSHOT, Property.REJECTED}
    (finding,) = [finding for finding in phase.findings if finding.property == Property.WRONG_SNAPSHOT]
    assert finding.sentence == (
        "Under weak memory, system calls are no fences: the reader took version 8 with words that no committed version "
        "has, because its load of VERSION returned the value from the start although the writer had put store 5 "
        "(of commit 1) there before store 7 (of commit 2), which the reader had seen at LAG_CHECKSUM and LAG_TXN_COUNT"
        ": nothing keeps them in order."
    )
    loads = finding.evidence["loads"]
    assert loads[0]["field"] == "VERSION" and {load["size_bytes"] for load in loads} == {WORD_BYTES}
    assert [load["value"] for load in loads if load["field"] == "VERSION"][:2] == [8, 8]
    assert {commit for load in loads for commit in load["commits"]} == {0, 2}
    assert {"LAG_CHECKSUM and LAG_TXN_COUNT", "TOKEN of partition 0"} <= {load["field"] for load in loads}


def test_a_finding_is_replayed_where_the_fence_is_missing_and_nowhere_else() -> None:
    for finding in detected().findings:
        assert replay(finding) is Verdict.INVALID
        assert replay(finding, ALL_FENCES) is Verdict.VALID


@pytest.mark.parametrize(
    "change",
    [
        lambda evidence: {},
        lambda evidence: {**evidence, "model": "no model"},
        lambda evidence: {**evidence, "loads": evidence["loads"][:3]},
        lambda evidence: {**evidence, "loads": [{**load, "offset_bytes": 8} for load in evidence["loads"]]},
    ],
    ids=["nothing", "another model", "too few loads", "other loads"],
)
def test_evidence_that_cannot_be_tried_is_unknown(change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    finding = detected().findings[0]
    assert replay(dataclasses.replace(finding, evidence=change(finding.evidence))) is Verdict.UNKNOWN


def test_loads_that_a_stronger_model_rules_out_are_valid() -> None:
    finding = detected().findings[0]
    stronger = {**finding.evidence, "model": MemoryModel.TOTAL_STORE_ORDER.value}
    assert replay(dataclasses.replace(finding, evidence=stronger)) is Verdict.VALID


def test_controls_fail_when_the_explorer_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed_controls(REWRITES) == []
    monkeypatch.setattr(MemoryExploration, "_saw", lambda _exploration, _transaction, state: state)
    judged_there = {Property.WRONG_SNAPSHOT, Property.WENT_BACK}
    assert len(failed_controls(REWRITES)) == sum(violated in judged_there for *_, violated in CONTROLS)


@pytest.mark.parametrize(("case", "floor"), [(WEAK_WITH_SYSTEM_CALLS, 3), (WEAK, 0)])
def test_a_reader_that_enters_the_system_has_passed_a_fence_where_that_is_one(case: MemoryCase, floor: int) -> None:
    baseline = baseline_of(REWRITES.trace(), case)
    ((_, _, view),) = baseline.answers(Call(kind=CallKind.CLOSE, path=""), View(pending=3))
    assert view.floor == floor


def test_a_reader_of_another_file_is_rejected() -> None:
    with pytest.raises(NotMappedError):
        list(baseline_of(REWRITES.trace(), WEAK).answers(Call(kind=CallKind.PREAD, path=""), View()))


def test_a_writer_that_fails_without_a_fault_cannot_be_explored() -> None:
    with pytest.raises(NotExplorableError):
        baseline_of(dataclasses.replace(REWRITES, path="elsewhere").trace(), WEAK)
