"""The memory explorer: a reader of `_txn` concurrent with the real writer, under three memory models.

The writer runs once and leaves its stores and fences; then every execution of the reader is visited that sequential
consistency, total store order and weak memory allow. This checks the order that the protocol requires, not how a
processor executes CPython.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.verdict import OF_ANOTHER_RUN, Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.memory.exploration import (
    GREW,
    OLDER_WORD,
    POINTS,
    Baseline,
    Explored,
    MemoryExploration,
    ReaderState,
    has_grown,
)
from tornproof.harness.explorers.memory.narrative import loads_of, narrative
from tornproof.harness.explorers.memory.trace import WriterTrace, trace_writer, transaction_reader
from tornproof.harness.explorers.memory.variants import (
    ALL_FENCES,
    CASES,
    GOES_BACK,
    NO_BARRIER_BEFORE_VERSION,
    NO_FENCE_AFTER_VERSION,
    NO_FENCE_BEFORE_VERSION,
    NO_FINAL_LOOK,
    NO_LOAD_FENCE_BEFORE_FINAL_LOOK,
    NO_LOAD_FENCES,
    PANICS,
    MemoryCase,
    MemoryVariant,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Answer
from tornproof.harness.simulator.memory_model import litmus
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel, NotMappedError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import Node, Process
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.write.commit import HARDENED

PHASE = "memory"
READ_COUNT = 2
SEQUENTIAL, TOTAL_STORE_ORDER, WEAK_WITH_SYSTEM_CALLS, WEAK = CASES
CONTROLS = (
    # What is reordered.
    (NO_FENCE_BEFORE_VERSION, WEAK, Property.WRONG_SNAPSHOT),
    (NO_FENCE_AFTER_VERSION, WEAK, Property.WRONG_SNAPSHOT),
    (NO_LOAD_FENCE_BEFORE_FINAL_LOOK, WEAK, Property.WRONG_SNAPSHOT),
    (NO_BARRIER_BEFORE_VERSION, WEAK_WITH_SYSTEM_CALLS, Property.WRONG_SNAPSHOT),
    (NO_FINAL_LOOK, SEQUENTIAL, Property.WRONG_SNAPSHOT),
    # What is judged.
    (NO_FENCE_BEFORE_VERSION, WEAK, Property.REJECTED),
    (GOES_BACK, SEQUENTIAL, Property.WENT_BACK),
    (PANICS, SEQUENTIAL, Property.DISORDERLY),
)
NEGATIVE_CONTROLS = ((NO_FENCE_BEFORE_VERSION, TOTAL_STORE_ORDER), (NO_LOAD_FENCES, WEAK_WITH_SYSTEM_CALLS))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTestCase:
    """Commits of one session to a table, the first `settled_count` of which precede the reader."""

    __test__ = False
    """pytest is not to take it for a class of tests."""
    target: TableTarget
    operations: tuple[Any, ...]
    path: str
    start: DiskImage | None = None
    settled_count: int = 0

    def trace(self, variant: MemoryVariant = ALL_FENCES) -> WriterTrace:
        """Run the writer; raises NotExplorableError."""
        trace = trace_writer(variant.of(self.target), self.operations, start=self.start, path=self.path)
        return trace.settled(self.settled_count)

    @contextmanager
    def reader(self, variant: MemoryVariant = ALL_FENCES, read_count: int = 1) -> Iterator[Process]:
        """Start the reader, patched by the variant while the block runs."""
        with variant.applied():
            process = Process("reader", transaction_reader(self.path, read_count))
            try:
                yield process
            finally:
                process.close()


def explore_memory(
    target: TableTarget,
    operations: Sequence[Any],
    *,
    start: DiskImage | None = None,
    path: str,
    settled_count: int = 0,
    cases: Sequence[MemoryCase] = CASES,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Explore a reader that reads twice during the commits of `operations`, in every case.

    The first `settled_count` operations are committed before the reader begins. Raises NotExplorableError where the
    writer fails.
    """
    test_case = MemoryTestCase(
        target=target, operations=tuple(operations), path=path, start=start, settled_count=settled_count
    )
    failed = failed_controls(test_case)
    on_progress(1, 1 + len(cases))
    trace = test_case.trace()
    results: dict[MemoryCase, Explored] = {}
    findings: dict[str, Finding] = {}
    notes: list[str] = []
    with test_case.reader(read_count=READ_COUNT) as reader:
        for number, case in enumerate(cases, start=2):
            try:
                baseline = baseline_of(trace, case)
                results[case] = MemoryExploration(baseline, reader).run(has_time)
            except NotMappedError as error:
                notes.append(str(error))
                break
            for violated, state in results[case].detected.items():
                findings.setdefault(violated, _finding(baseline, case, violated, state, settled_count))
            on_progress(number, 1 + len(cases))
    phase = _phase(trace, results, tuple(findings.values()), notes).with_controls(failed)
    return dataclasses.replace(phase, complete=phase.complete and len(results) == len(cases))


def baseline_of(trace: WriterTrace, case: MemoryCase) -> Baseline:
    """Put a writer's trace under the rules of a case; raises NotMappedError."""
    return Baseline.of(trace, case.model, system_calls_are_fences=case.system_calls_are_fences)


def failed_controls(test_case: MemoryTestCase) -> list[str]:
    """Return a description of each broken variant that was not detected, and of the correct one if it was rejected."""
    return [*failures(test_case)]


def failures(test_case: MemoryTestCase) -> Iterator[str]:
    """Explore one variant after the other; describe each broken one not detected, and the correct one if rejected.

    The variants leave something out of the hardened commit or of our own reader, whatever target is explored.
    """
    hardened = dataclasses.replace(test_case, target=dataclasses.replace(test_case.target, protocol=HARDENED))
    for variant, case, violated in CONTROLS:
        if not _is_detected(hardened, variant, case, violated):
            yield f"{variant.name} was not detected under {case}: {violated}"
    for variant, case in NEGATIVE_CONTROLS:
        if _is_detected(hardened, variant, case, Property.WRONG_SNAPSHOT):
            yield f"{variant.name} was rejected under {case}"
    yield from litmus.failed_controls()


def _is_detected(test_case: MemoryTestCase, variant: MemoryVariant, case: MemoryCase, violated: str) -> bool:
    """Explore until the reader first breaks a property."""
    read_count = READ_COUNT if violated == Property.WENT_BACK else 1
    with test_case.reader(variant, read_count) as reader:
        exploration = MemoryExploration(baseline_of(test_case.trace(variant), case), reader)
        explored = exploration.run(lambda: violated not in exploration.explored.detected)
    return violated in explored.detected


def replay_memory(
    target: TableTarget, operations: Sequence[Any], finding: Finding, *, start: DiskImage | None = None, path: str
) -> Verdict:
    """Return INVALID when the finding's loads, answered by the same words, break the same property again.

    VALID when the model no longer allows one of the words, or they break nothing; UNKNOWN when it cannot be tried: the
    reader loads something else now, or the evidence is invalid.
    """
    try:
        again = seen_again(target, operations, finding, start=start, path=path)
    except (*OF_ANOTHER_RUN, NotMappedError):
        return Verdict.UNKNOWN
    if again is None:
        return Verdict.VALID
    return Verdict.INVALID if again.property == finding.property else Verdict.UNKNOWN


def seen_again(
    target: TableTarget, operations: Sequence[Any], finding: Finding, *, start: DiskImage | None = None, path: str
) -> Finding | None:
    """Return the finding of the same loads now, or None where the model no longer allows them or they break nothing.

    Raises KeyError, TypeError, ValueError, IndexError, NotMappedError where they cannot be tried.
    """
    evidence = finding.evidence
    case = MemoryCase(model=MemoryModel(evidence["model"]), system_calls_are_fences=evidence["system_calls_are_fences"])
    settled_count = count_of(evidence["settled_count"])
    test_case = MemoryTestCase(
        target=target, operations=tuple(operations), path=path, start=start, settled_count=settled_count
    )
    baseline = baseline_of(test_case.trace(), case)
    with test_case.reader(read_count=READ_COUNT) as reader:
        state = _load_again(MemoryExploration(baseline, reader), reader, evidence["loads"])
    if state is None or not state.violated:
        return None
    return _finding(baseline, case, state.violated, state, settled_count)


def _load_again(
    exploration: MemoryExploration, reader: Process, loads: Sequence[Mapping[str, Any]]
) -> ReaderState | None:
    """Let the reader load the same words again; None where it cannot, ValueError where it loads other positions."""
    node: Node = reader.root
    state = exploration.observed(node, ReaderState())
    while node.call is not None and not state.violated:
        found = _choice_of(exploration.after(node.call, state), loads)
        if found is None:
            return None
        answer, state = found
        node = reader.advance(node, answer)
        state = exploration.observed(node, state)
    if not state.violated and len(loads_of(state)) < len(loads):
        raise ValueError("the reader ends before it has loaded all")
    return state


def _choice_of(
    choices: Iterator[tuple[Answer, ReaderState]], expected: Sequence[Mapping[str, Any]]
) -> tuple[Answer, ReaderState] | None:
    """Return the choice whose loads so far are the first expected ones; None where other words are not possible."""
    is_elsewhere = True
    for answer, state in choices:
        made = loads_of(state)
        found = [(load.offset_bytes, len(load.content)) for load in made]
        if found == [(load["offset_bytes"], load["size_bytes"]) for load in expected[: len(made)]]:
            is_elsewhere = False
            values = [int.from_bytes(load.content, "little") for load in made]
            if values == [load["value"] for load in expected[: len(made)]]:
                return answer, state
    if is_elsewhere:
        raise ValueError("the reader loads something else now")
    return None


def _finding(baseline: Baseline, case: MemoryCase, violated: str, state: ReaderState, settled_count: int) -> Finding:
    text = narrative(baseline, state)
    return Finding(
        property=violated,
        phase=PHASE,
        sentence=f"Under {case}: {text['then']}, because {text['because']}.",
        evidence={
            "model": case.model.value,
            "system_calls_are_fences": case.system_calls_are_fences,
            "settled_count": settled_count,
            **text,
        },
    )


def _phase(
    trace: WriterTrace,
    results: dict[MemoryCase, Explored],
    findings: tuple[Finding, ...],
    notes: list[str],
) -> Phase:
    cut = [str(case) for case, explored in results.items() if not explored.is_complete]
    reached = sum((explored.reached for explored in results.values()), Counter[str](dict.fromkeys(POINTS, 0)))
    commit_count = len(trace.versions) - 1
    executions = f"some executions under {', '.join(cut)}" if cut else "every execution"
    possible = {
        GREW: any(has_grown(trace, commit) for commit in range(1, commit_count + 1)),
        OLDER_WORD: any(case.model is MemoryModel.WEAK for case in results),
    }
    phase = Phase(
        name=PHASE,
        explored=sum(len(explored.executions) for explored in results.values()),
        complete=not cut,
        bound=f"{executions} of {commit_count} commits x 1 reader of _txn that reads it "
        f"{READ_COUNT} times, under {'; '.join(map(str, results))}; one writer, words of 8 bytes",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        counts={f"executions under {case}": len(explored.executions) for case, explored in results.items()}
        | {f"wrong under {case}": explored.wrong_count for case, explored in results.items()},
        reached={point: reached[point] for point in POINTS},
        note="; ".join(notes),
        findings=findings,
    )
    return phase.with_coverage_goals([point for point in POINTS if possible.get(point, True)])
