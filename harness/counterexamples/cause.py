"""Infers the cause of a finding: the small changes of its run that make it pass, each tried by a replay."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from tornproof.harness.counterexamples.actions import CHANGING, LOOKS, NOTABLE, Action, ActionRecorder, Look
from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Kill, PowerCut, Switch, moved_to, step_text
from tornproof.harness.counterexamples.replay_engine import Change, NoSuchDiskError, choice_text, read_choice
from tornproof.harness.counterexamples.run import Replayer
from tornproof.harness.counterexamples.step_names import END, OPEN, Step, is_commit, kind_of, without_numbers
from tornproof.harness.search.crash_world import WRITER_INDEX
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CallKind
from tornproof.harness.simulator.filesystem.kernel import CallRejectedError, Kernel, entries_of
from tornproof.harness.simulator.persistence.models import Choice, FileChoice
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

CHANGE_WORDS = frozenset(kind.value for kind in CHANGING)
NOTABLE_WORDS = frozenset(kind.value for kind in NOTABLE)
DELAYABLE = frozenset(
    kind.value
    for kind in (CallKind.STORE, CallKind.PWRITE, CallKind.UNLINK, CallKind.RMDIR, CallKind.RENAME, CallKind.MKDIR)
)
REMOVING_WORDS = frozenset(kind.value for kind in (CallKind.UNLINK, CallKind.RMDIR))
BARRIER_WORDS = frozenset(kind.value for kind in BARRIERS)
DESTROYING_WORDS = REMOVING_WORDS | {CallKind.TRUNCATE.value}
AS_SYNCED = FileChoice(0, 0)
"""What a power cut leaves of a file that lost all changes since its last sync."""
SAID_MAX = 5
LATER_STEPS_MAX = 60
STEP_BUDGET = 100_000
"""Of all runs together; a run of a scenario has some 200 steps."""


class Run(NamedTuple):
    """A run that has to pass: a log on a test case, with a change of what its processes do."""

    case: TestCase
    log: DecisionLog
    change: Change | None = None


class Candidate(NamedTuple):
    """A change in words, its kind with the place that it is about, and the runs that pass if it is enough.

    A last resort is tried only where no smaller change before it was enough.
    """

    sentence: str
    kind: str
    runs: tuple[Run, ...]
    is_last_resort: bool = False


class Inferred(NamedTuple):
    """The changes that are enough, in the order of preference, how many were tried, and whether steps ran out."""

    enough: tuple[Candidate, ...]
    tried_count: int
    is_cut: bool

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "tried": self.tried_count,
            "enough": len(self.enough),
            "is_cut": self.is_cut,
            "changes": [{"text": each.sentence, "kind": each.kind} for each in self.enough[:SAID_MAX]],
        }


class Decisive(NamedTuple):
    """A decision by its number in a log, and the steps of its process before and after it with what they do."""

    log: DecisionLog
    number: int
    done: Sequence[Step]
    later: Sequence[Step]
    actions: Mapping[Step, Action]

    @property
    def deviation(self) -> Deviation:
        """The decision itself."""
        return self.log.deviations[self.number]

    @property
    def last_change(self) -> Step | None:
        """The last step before it that changes something."""
        return next((step for step in reversed(self.done) if step.call in CHANGE_WORDS), None)

    @property
    def after_change(self) -> Step | None:
        """The step that follows the last change."""
        steps = [*self.done, *self.later]
        return next(iter(steps[steps.index(self.last_change) + 1 :]), None) if self.last_change in steps else None

    def text_of(self, step: Step) -> str:
        """Return what a step does in words, else the call."""
        return _text_of(step, self.actions)

    def stands_before(self, at: Step) -> dict[str, str]:
        """Return what the process has done last before one of its steps, and what it does next."""
        steps = [*self.done, *self.later]
        index = steps.index(at) if at in steps else len(steps)
        return _stands(steps[:index], steps[index:], self.actions)

    def moved(self, at: Step) -> DecisionLog:
        """Return the log with the decision at another step."""
        return self.replaced(moved_to(self.deviation, at))

    def replaced(self, deviation: Deviation) -> DecisionLog:
        """Return the log with another decision in its place."""
        deviations = self.log.deviations
        return DecisionLog((*deviations[: self.number], deviation, *deviations[self.number + 1 :]))


def infer(
    case: TestCase, decisive: Decisive | None, log: DecisionLog, recorder: ActionRecorder, process: str
) -> Inferred:
    """Try the changes of each kind until one is enough, and return those that are; `process` breaks the property."""
    candidates = itertools.chain(
        _other_protocols(case, log), () if decisive is None else _about(case, decisive, recorder, process)
    )
    enough: dict[str, Candidate] = {}
    tried_count = 0
    with ExitStack() as stack:
        judge = _Judge(stack)
        for each in candidates:
            if judge.step_count > STEP_BUDGET:
                break
            if each.kind not in enough and not (each.is_last_resort and enough):
                tried_count += 1
                if all(map(judge.passes, each.runs)):
                    enough[each.kind] = each
    return Inferred(tuple(enough.values()), tried_count, judge.step_count > STEP_BUDGET)


class _Judge:
    """Runs candidates, and counts the steps."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._replayers: dict[int, Replayer] = {}
        self.step_count = 0

    def passes(self, run: Run) -> bool:
        """Say whether a run breaks nothing, and takes all its decisions."""
        replayer = self._replayers.get(id(run.case))
        if replayer is None:
            replayer = self._replayers[id(run.case)] = self._stack.enter_context(Replayer(run.case))
        try:
            result = replayer.play(run.log, adapts=True, change=run.change)
        except (NotExplorableError, CallRejectedError, NoSuchDiskError):
            # What is right there is unknown, so this run does not count as passing.
            return False
        self.step_count += result.step_count
        return not result.violations and not result.dropped


def notable(steps: Sequence[Step]) -> Step | None:
    """Return the first step that changes something or waits for the disk, else the first one."""
    return next((step for step in steps if step.call in NOTABLE_WORDS), next(iter(steps), None))


def stands_in(recorder: ActionRecorder, at: Step) -> dict[str, str]:
    """Return what a process has done last before a step of a run, and what it does next."""
    return _stands(recorder.until(at), recorder.since(at), recorder.actions())


def _stands(done: Sequence[Step], later: Sequence[Step], actions: Mapping[Step, Action]) -> dict[str, str]:
    last, following = notable(done[::-1]), notable(later)
    return {
        "after": "" if last is None else _text_of(last, actions),
        "before": "" if following is None or following.operation == END else _text_of(following, actions),
    }


def _text_of(step: Step, actions: Mapping[Step, Action]) -> str:
    action = actions.get(step)
    return step_text(step).partition("@")[2] if action is None else action.text


def _other_protocols(case: TestCase, log: DecisionLog) -> Iterator[Candidate]:
    """Yield the run of a target that does one thing as this implementation does."""
    for words, target in case.target.repaired():
        yield Candidate(words, words, (Run(replace(case, target=target), log),))


def _about(case: TestCase, decisive: Decisive, recorder: ActionRecorder, process: str) -> Iterator[Candidate]:
    match decisive.deviation:
        case PowerCut():
            yield from _synced(case, decisive, recorder)
            yield from _whole(case, decisive)
            yield from _delayed(case, decisive)
            yield from _put_off(case, decisive)
            yield from _restored(case, decisive, recorder)
        case Kill():
            yield from _restored(case, decisive, recorder)
        case Switch(at=at) if kind_of(at.process) == "writer":
            yield from _delayed(case, decisive)
            yield from _seen(case, decisive, recorder, process)
            yield from _seen_later(case, decisive, recorder, process)
            yield from _together(case, decisive)
        case Switch():
            yield from _postponed(case, decisive, recorder, is_destroying=True)
            yield from _seen(case, decisive, recorder, process)
            yield from _postponed(case, decisive, recorder, is_destroying=False)
            yield from _seen_later(case, decisive, recorder, process)
            yield from _together(case, decisive)


def _synced(case: TestCase, decisive: Decisive, recorder: ActionRecorder) -> Iterator[Candidate]:
    """Yield runs in which one file is durable before the last change, or right after it."""
    last = decisive.last_change
    if last is None:
        return
    following = decisive.after_change
    words = decisive.text_of(last) + (f", in {_doer(last)}" if last.operation == OPEN else "")
    syncs = list(_syncs(recorder.kernels[decisive.deviation], case))
    one_by_one = [(name, (path,)) for name, path in syncs]
    together = [("everything that was written", tuple(path for _, path in syncs))] if len(syncs) > 1 else []
    for name, paths in [*one_by_one, *together]:
        is_last_resort = len(paths) > 1
        # The last change itself may then be lost.
        logs = (decisive.log, _with_left(decisive, recorder.path_of(last), AS_SYNCED))
        before = tuple(Run(case, log, Synced(paths, last, is_before=True)) for log in logs)
        yield Candidate(f"{name} is synced before: {words}", f"sync {name}", before, is_last_resort)
        after = Run(case, decisive.log, Synced(paths, last, is_before=False))
        # A cut may come between the change and the sync.
        between = [Run(case, decisive.moved(following))] if following is not None else []
        sentence = f"{name} is synced right after: {words}"
        yield Candidate(sentence, f"sync {name}", (after, *between), is_last_resort)


def _with_left(decisive: Decisive, path: str, *kept: FileChoice) -> DecisionLog:
    """Return the log with a power cut that leaves `kept` of a file, and all of it without."""
    cut = decisive.deviation
    assert isinstance(cut, PowerCut)
    choice = read_choice(cut.model, cut.choice)
    others = (each for each in choice.files if each[0] != path)
    files = (*others, *((path, each) for each in kept))
    return decisive.replaced(replace(cut, choice=choice_text(Choice(choice.model, choice.names, files))))


def _whole(case: TestCase, decisive: Decisive) -> Iterator[Candidate]:
    """Yield runs in which what was written to one file reaches the disk as a whole or not at all."""
    cut = decisive.deviation
    assert isinstance(cut, PowerCut)
    for path, _ in read_choice(cut.model, cut.choice).files:
        logs = _with_left(decisive, path), _with_left(decisive, path, AS_SYNCED)
        name = _relative(path, case)
        sentence = f"the bytes of {name} reach the disk all or not at all"
        yield Candidate(sentence, f"whole {name}", tuple(Run(case, log) for log in logs))


def _restored(case: TestCase, decisive: Decisive, recorder: ActionRecorder) -> Iterator[Candidate]:
    """Yield runs in which the next session finds one file as it was before the operation that ended there."""
    is_cut = isinstance(decisive.deviation, PowerCut)
    for path, content in recorder.changed_before(decisive.deviation).items():
        name = _relative(path, case)
        run = Run(case, decisive.log, Restored(path, content, decisive.deviation.at))
        words = f"the next session finds {name} without what the {'one before' if is_cut else 'killed one'} left in it"
        done = [step for step in decisive.done if step.call in CHANGE_WORDS and step.file == without_numbers(name)]
        words += f": {decisive.text_of(done[-1])}" if done else ""
        yield Candidate(words, f"left {name}", (run,), is_last_resort=is_cut)


def _delayed(case: TestCase, decisive: Decisive) -> Iterator[Candidate]:
    """Yield runs in which the last change comes later, after one of the next ones."""
    last = decisive.last_change
    if last is not None and last.call in DELAYABLE:
        yield from _after(case, decisive, last, _later_changes(decisive))


def _put_off(case: TestCase, decisive: Decisive) -> Iterator[Candidate]:
    """Yield runs in which the last change comes after one of the next barriers, which a cut must not come before."""
    last = decisive.last_change
    if last is not None and last.call in DELAYABLE | {CallKind.TRUNCATE.value}:
        barriers = _later(decisive, BARRIER_WORDS)
        yield from (each._replace(is_last_resort=True) for each in _after(case, decisive, last, barriers))


def _after(case: TestCase, decisive: Decisive, last: Step, steps: Iterable[tuple[Step, Step]]) -> Iterator[Candidate]:
    """Yield runs in which the last change comes after one of these steps; each has the one that follows it."""
    for step, following in steps:
        # What is between both steps must pass as well as what is behind both.
        runs = (
            Run(case, decisive.log, Delayed(last, step)),
            Run(case, decisive.moved(following), Delayed(last, None)),
            Run(case, decisive.moved(following), Delayed(last, step)),
        )
        sentence = f"the step “{decisive.text_of(last)}” comes after: {decisive.text_of(step)}"
        yield Candidate(sentence, f"order {last.file}", runs)


def _seen(case: TestCase, decisive: Decisive, recorder: ActionRecorder, reader: str) -> Iterator[Candidate]:
    """Yield runs in which a reader sees one file as it was before an operation of the writer."""
    # The file that it looked at last, and the last operation, come first.
    for path, looks in reversed(recorder.looks(reader).items()):
        for number, begin in reversed(list(enumerate(recorder.begins))):
            late = [look for look in looks if look.begun_count > number]
            as_it_was = f"as it was before {_doer(begin.step)}"
            yield from _seen_otherwise(case, decisive, late, begin.files.get(path), as_it_was, "seen before")


def _seen_later(case: TestCase, decisive: Decisive, recorder: ActionRecorder, reader: str) -> Iterator[Candidate]:
    """Yield runs in which a reader sees one file, which it looked at before others went on, as it was afterwards."""
    switches = (each for each in decisive.log.deviations if isinstance(each, Switch) and each.at.process == reader)
    done = [step for switch in switches for step in recorder.until(switch.at)]
    after = recorder.kernel.image().files
    for path, looks in recorder.looks(reader).items():
        early = [look for look in looks if look.step in done]
        yield from _seen_otherwise(case, decisive, early, after.get(path), "as it is in the end", "seen later")


def _seen_otherwise(
    case: TestCase, decisive: Decisive, looks: Sequence[Look], content: bytes | None, how: str, kind: str
) -> Iterator[Candidate]:
    other = next((look for look in looks if content is not None and look.differs(content)), None)
    if content is not None and other is not None and kind_of(other.step.process) == "reader":
        reader, path = other.step.process, other.call.path
        words = f"{reader} sees {_relative(path, case)} {how}; here it does: {decisive.text_of(other.step)}"
        yield Candidate(words, kind, (Run(case, decisive.log, Seen(reader, path, content)),))


def _doer(step: Step) -> str:
    """Return what a writer does at a step: a commit, or the recovery where it opens."""
    return f"{step.operation if is_commit(step.operation) else 'the recovery'} of {step.process}"


def _postponed(
    case: TestCase, decisive: Decisive, recorder: ActionRecorder, *, is_destroying: bool
) -> Iterator[Candidate]:
    """Yield runs in which the process that comes between a reader's steps stops before one of its changes.

    Either those that take away or overwrite what others may read, or the others; the last one comes first.
    """
    switch, deviations = decisive.deviation, decisive.log.deviations
    assert isinstance(switch, Switch)
    reader = switch.at.process
    without_pin = "" if any(map(recorder.holds_lock, decisive.done[-1:])) else ", which has no pin (it holds no lock)"
    actions = recorder.actions()
    changes = [
        step
        for step in recorder.steps.get(switch.to, ())
        if step.call in CHANGE_WORDS
        and (step.call in DESTROYING_WORDS or actions[step].is_overwriting) is is_destroying
    ]
    for step in reversed(changes):
        log = DecisionLog((*deviations, Switch(step, switch.at.process)))
        pin = without_pin if step.call in REMOVING_WORDS else ""
        sentence = f"{_doer(step)} does not do this before {reader} has read on{pin}: {decisive.text_of(step)}"
        yield Candidate(sentence, "postponed", (Run(case, log),))


def _together(case: TestCase, decisive: Decisive) -> Iterator[Candidate]:
    """Yield runs in which no other process runs between the last step before a switch and one of the next ones."""
    at = decisive.deviation.at
    done = decisive.last_change or next(reversed(decisive.done), None)
    if done is None:
        return
    is_reader = kind_of(at.process) == "reader"
    for step, following in itertools.pairwise(decisive.later) if is_reader else _later_changes(decisive):
        steps = f"{decisive.text_of(done)}; {decisive.text_of(step)}"
        sentence = f"no other process runs between two steps of {at.process}: {steps}"
        yield Candidate(sentence, "together", (Run(case, decisive.moved(following)),))


def _later_changes(decisive: Decisive) -> Iterator[tuple[Step, Step]]:
    """Yield the changes of the same operation after the decision, each with the step that follows it."""
    return _later(decisive, CHANGE_WORDS)


def _later(decisive: Decisive, words: Container[str]) -> Iterator[tuple[Step, Step]]:
    operation = decisive.deviation.at.operation
    for step, following in itertools.pairwise(decisive.later[:LATER_STEPS_MAX]):
        if step.call in words and step.operation == operation:
            yield step, following


def _syncs(kernel: Kernel, case: TestCase) -> Iterator[tuple[str, str]]:
    """Yield each file and directory of which a power cut may take something: its name in words, and its path."""
    for path, number in sorted(kernel.paths()):
        if not kernel.files[number].is_durable:
            yield _relative(path, case), path
    changed = {entry[0] for change in kernel.entry_changes for entry in change}
    for path, number in sorted(entries_of(kernel.directories)):
        if number in changed and number in kernel.directories:
            yield ("the table's directory" if path == case.path else f"directory {_relative(path, case)}"), path


def _relative(path: str, case: TestCase) -> str:
    return path.removeprefix(f"{case.path}/")


class Synced(Change):
    """Files and directories are synced before a step, or right after it."""

    def __init__(self, paths: Sequence[str], at: Step, *, is_before: bool) -> None:
        """Wait for the step."""
        self._paths, self._at, self._is_before = paths, at, is_before

    def make(self, step: Step, world: World, index: int) -> None:
        """Let a process make its next call."""
        if step == self._at and self._is_before:
            self._sync(world.kernel)
        world.step(index)
        if step == self._at and not self._is_before:
            self._sync(world.kernel)

    def _sync(self, kernel: Kernel) -> None:
        for number in (found for path in self._paths if (found := kernel.find(path)) is not None):
            if number in kernel.directories:
                kernel.sync_entries(number)
            elif number in kernel.files:
                kernel.sync_names_of(number)
                kernel.files[number] = kernel.files[number].synced()


class Seen(Change):
    """A process sees a file with other content."""

    def __init__(self, process: str, path: str, content: bytes) -> None:
        """Wait for its looks at the file."""
        self._process, self._path, self._content = process, path, content

    def make(self, step: Step, world: World, index: int) -> None:
        """Let a process make its next call; what it has mapped stays there to its end."""
        call, files = world.call(index), world.kernel.files
        number = world.kernel.file_of(index, call)
        is_there = not call.mapping or call.offset_bytes + call.size_bytes <= len(self._content)
        is_look = step.process == self._process and call.path == self._path and call.kind in LOOKS
        if number is None or not is_look or not is_there:
            world.step(index)
            return
        state = files[number]
        files[number] = FileState(self._content)
        world.step(index)
        files[number] = state


class Restored(Change):
    """The session after a kill or a power cut finds a file with other content."""

    def __init__(self, path: str, content: bytes, at: Step) -> None:
        """Wait for the end of the session before that step."""
        self._path, self._content, self._at = path, content, at

    def crashed(self, at: Step, kernel: Kernel) -> None:
        """Restore the file."""
        number = kernel.find(self._path)
        if number is not None and at == self._at:
            state = kernel.files[number]
            kernel.files[number] = state.resized(len(self._content)).written(self._content, 0)


class Delayed(Change):
    """A write of the writer takes effect after a later step of it, or never."""

    def __init__(self, delayed: Step, until: Step | None) -> None:
        """Wait for both steps."""
        self._delayed, self._until = delayed, until
        self._pending: Node | None = None

    def make(self, step: Step, world: World, index: int) -> None:
        """Let a process make its next call, or answer it without an effect."""
        node = world.nodes[index]
        if step == self._delayed:
            self._pending = node
            world.answer(index, None)
            return
        world.step(index)
        if step == self._until and self._pending is not None:
            _take_effect(world.kernel, self._pending)


def _take_effect(kernel: Kernel, node: Node) -> None:
    """Make a call that was delayed: on its file, which may be closed by now, else by its path."""
    call = node.call
    assert call is not None, "a delayed step is a call"
    number = kernel.find(call.path)
    if call.kind in (CallKind.STORE, CallKind.PWRITE):
        if number is not None:
            kernel.files[number] = kernel.files[number].written(call.content, call.offset_bytes)
        return
    if call.kind is CallKind.TRUNCATE:
        if number is not None:
            kernel.files[number] = kernel.files[number].resized(call.size_bytes)
        return
    node.make_call(kernel, WRITER_INDEX)
