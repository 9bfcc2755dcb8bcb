"""Smaller cases than a given one: an operation, a reader or a read less, with the log adapted; simpler power cuts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.replay_engine import choice_text, read_choice
from tornproof.harness.counterexamples.step_names import Step, kind_of
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_files import version_bytes
from tornproof.harness.simulator.persistence.legal_names import longer_names
from tornproof.harness.simulator.persistence.models import FileChoice, Model, model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Operations

Rename = Callable[[Step], Step]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A test case, and a log to run on it."""

    case: TestCase
    log: DecisionLog

    @property
    def operation_count(self) -> int:
        """How many commits both sessions try."""
        return len(self.case.first_session) + len(self.case.second_session)


def with_fewer_operations(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the case without each of its operations; the others keep their numbers.

    The decisions in that operation are left out, or move to the operation before or after it.
    """
    case = candidate.case
    for rest, number, near in _without_one(case.second_session):
        yield from _with_log(replace(case, second_session=rest), candidate.log, number, near)
    for rest, number, near in _without_one(case.first_session):
        yield from _with_log(replace(case, first_session=rest), candidate.log, number, near)


def _without_one(operations: Operations) -> Iterator[tuple[Operations, int, Operations]]:
    """Yield the operations without one, that one, and its neighbours; the last one first."""
    for index in reversed(range(len(operations))):
        before, after = operations[:index], operations[index + 1 :]
        yield (*before, *after), operations[index], (*before[-1:], *after[:1])


def _with_log(case: TestCase, log: DecisionLog, gone: int, near: Operations) -> Iterator[Candidate]:
    yield Candidate(case, log)
    for other in near:
        yield Candidate(case, renamed(log, partial(_in_other_operation, gone=gone, other=other)))


def without_crash(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the case without its one crash: the second session's operations replace the first one's, or follow them."""
    case = candidate.case
    if candidate.log.crash_count != 1:
        return

    def rename(step: Step) -> Step:
        return step._replace(process=step.process.removesuffix(".2"))

    kept = tuple(each for each in candidate.log.deviations if not isinstance(each, Kill | PowerCut))
    log = renamed(DecisionLog(kept), rename)
    for first in (case.second_session, (*case.first_session, *case.second_session)):
        yield Candidate(replace(case, first_session=first, second_session=()), log)


def with_fewer_readers(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the case without each reader, and with each that reads more than once reading once less."""
    readers = _single(candidate.case.readers)
    for index in reversed(range(len(readers))):
        fewer = replace(candidate.case, readers=(*readers[:index], *readers[index + 1 :]))
        yield Candidate(fewer, DecisionLog(tuple(_without_process(candidate.log.deviations, f"reader {index + 1}"))))
    for index, reader in enumerate(readers):
        if reader.read_count > 1:
            shorter = replace(reader, read_count=reader.read_count - 1)
            fewer = replace(candidate.case, readers=(*readers[:index], shorter, *readers[index + 1 :]))
            yield Candidate(fewer, candidate.log)
            yield Candidate(fewer, renamed(candidate.log, partial(_read_before, process=f"reader {index + 1}")))


def compact(candidate: Candidate) -> Candidate:
    """Return the case with only the operations that a session tries, renumbered from 0."""
    case = candidate.case
    used = sorted({*case.first_session, *case.second_session})
    number_of = {old: new for new, old in enumerate(used)}

    def rename(step: Step) -> Step:
        commit = re.fullmatch(r"commit (\d+)", step.operation)
        return step if commit is None else step._replace(operation=f"commit {number_of[int(commit[1])]}")

    smaller = replace(
        case,
        operations=tuple(case.operations[number] for number in used),
        first_session=tuple(number_of[number] for number in case.first_session),
        second_session=tuple(number_of[number] for number in case.second_session),
        readers=_single(case.readers),
    )
    return Candidate(smaller, renamed(candidate.log, rename))


def renamed(log: DecisionLog, rename: Rename) -> DecisionLog:
    """Return the log with its steps renamed, and the processes that are switched to as well."""
    return DecisionLog(tuple(_renamed(each, rename) for each in log.deviations))


def _renamed(deviation: Deviation, rename: Rename) -> Deviation:
    moved = replace(deviation, at=rename(deviation.at))
    return replace(moved, to=rename(Step(moved.to, "")).process) if isinstance(moved, Switch) else moved


def _in_other_operation(step: Step, gone: int, other: int) -> Step:
    return step._replace(operation=f"commit {other}") if step.operation == f"commit {gone}" else step


def _single(readers: Iterable[Readers]) -> tuple[Readers, ...]:
    return tuple(replace(each, count=1) for each in readers for _ in range(each.count))


def _without_process(deviations: Iterable[Deviation], gone: str) -> Iterator[Deviation]:
    """Leave a process out: a switch to it goes to the process that it switched to; later readers move up."""
    waiting: Switch | None = None
    for each in deviations:
        if each.at.process.split(".")[0] == gone:
            if isinstance(each, Switch) and waiting is not None and each.to != waiting.at.process:
                yield _moved_up(replace(waiting, to=each.to), gone)
            waiting = None
        elif isinstance(each, Switch) and each.to.split(".")[0] == gone:
            waiting = each
        else:
            yield _moved_up(each, gone)


def _moved_up(deviation: Deviation, gone: str) -> Deviation:
    number = int(gone.rpartition(" ")[2])

    def rename(step: Step) -> Step:
        found = re.fullmatch(r"reader (\d+)(.*)", step.process)
        if found is None or int(found[1]) < number:
            return step
        return step._replace(process=f"reader {int(found[1]) - 1}{found[2]}")

    return _renamed(deviation, rename)


def _read_before(step: Step, process: str) -> Step:
    """Name a step of the second read as one of the first, and so on."""
    found = re.fullmatch(r"(.*read )(\d+)", step.operation)
    if found is None or step.process.split(".")[0] != process or kind_of(process) != "reader" or found[2] == "1":
        return step
    return step._replace(operation=f"{found[1]}{int(found[2]) - 1}")


def simpler_choices(kernel: Kernel, model: str, text: str) -> Iterator[str]:
    """Yield choices of the same model that keep more: many blocks at once first, then single ones."""
    choice = read_choice(model, text)
    names, files = choice.names, choice.files
    if names is not None:
        yield choice_text(choice._replace(names=None))
        for longer in longer_names(kernel, model_named(model), names):
            yield choice_text(choice._replace(names=longer))
    states = {path: kernel.files[number] for path, number in kernel.paths()}
    for index in range(len(files)):
        yield choice_text(choice._replace(files=(*files[:index], *files[index + 1 :])))
    for index, (path, chosen) in enumerate(files):
        if path in states:
            for simpler in _simpler_files(states[path], model_named(model), chosen):
                changed = (*files[:index], (path, simpler), *files[index + 1 :])
                yield choice_text(choice._replace(files=changed))


def _simpler_files(state: FileState, model: Model, chosen: FileChoice) -> Iterator[FileChoice]:
    last = len(state.versions) - 1
    if model.block_bytes is None:
        later = range(last - 1, chosen.base, -1)
        yield from (FileChoice(number, number) for number in later)
        return
    blocks = _old_blocks(state, model.block_bytes, chosen)
    if chosen.size != last:
        yield FileChoice(last, last, _old_blocks(state, model.block_bytes, chosen._replace(size=last)))
    if chosen != (chosen.size, last, blocks):
        yield FileChoice(chosen.size, last, blocks)
    yield from (FileChoice(chosen.size, last, kept) for kept in _with_fewer(blocks))


def _old_blocks(state: FileState, block_bytes: int, chosen: FileChoice) -> tuple[tuple[int, int], ...]:
    """Return the blocks that differ from the last version, with their versions."""
    size_bytes = len(state.versions[chosen.size])
    versions = dict(chosen.blocks)
    old = []
    for block in range(-(-size_bytes // block_bytes)):
        version = versions.get(block, chosen.base)
        start, stop = block * block_bytes, min((block + 1) * block_bytes, size_bytes)
        held, last = (version_bytes(state, number, start, stop) for number in (version, len(state.versions) - 1))
        if held != last:
            old.append((block, version))
    return tuple(old)


def _with_fewer(blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the blocks without the half of them, without a quarter, and so on down to one."""
    width = (len(blocks) + 1) // 2
    while width:
        for start in range(0, len(blocks), width):
            yield (*blocks[:start], *blocks[start + width :])
        width //= 2
