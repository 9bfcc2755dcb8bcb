"""A run while it is replayed: which process runs in which session, how decisions apply, and what a power cut leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b

from tornproof.harness.counterexamples.log import Deviation, Fail, Kill, PowerCut, Switch, shortest
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, session_name, without_numbers
from tornproof.harness.search.crash_world import WRITER_INDEX, Sessions, fail_call
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.persistence.legal_disks import Disk, chosen_disk
from tornproof.harness.simulator.persistence.legal_names import nearest_names, tree_after
from tornproof.harness.simulator.persistence.models import (
    STALE,
    Choice,
    FileChoice,
    choice_of,
    file_choice_of,
    model_named,
)
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World


class NoSuchDiskError(Exception):
    """A choice names what the disk cannot hold in that state."""


def choice_text(choice: Choice | str) -> str:
    """Return a choice, or the text of one, as JSON without its model."""
    return shortest(json.loads(choice if isinstance(choice, str) else choice.text())[1:])


def read_choice(model: str, text: str) -> Choice:
    """Return the choice; raises TypeError, ValueError for what is none."""
    return choice_of(shortest([model, *json.loads(text)]))


def disk_after(kernel: Kernel, model: str, text: str) -> Disk:
    """Return the disk after a power cut by a model's choice; raises NoSuchDiskError."""
    try:
        choice = read_choice(model, text)
        if any(not _is_there(each) for each in choice.files) or any(name < 0 for name in choice.names or ()):
            raise NoSuchDiskError(model)
        return chosen_disk(kernel, model_named(model), choice)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NoSuchDiskError(f"{type(error).__name__}: {error}") from error


def adapted(kernel: Kernel, model: str, text: str) -> str:
    """Return the nearest choice for another state of the files, such as that of a smaller case."""
    choice, of = read_choice(model, text), model_named(model)
    names = choice.names and nearest_names(kernel, of, choice.names)
    # A choice names files by the paths that they have after the cut, which need not be those before it.
    tree, found = tree_after(kernel, of, names)
    numbers = dict(zip(tree.paths, found, strict=True))
    unnumbered = {without_numbers(path): path for path in numbers}
    files = {}
    for path, (size, base, blocks) in choice.files:
        there = path if path in numbers else unnumbered.get(without_numbers(path))
        if there is not None:
            last = len(kernel.files[numbers[there]].versions) - 1
            old = tuple((block, min(version, last)) for block, version in blocks)
            files[there] = FileChoice(min(size, last), min(base, last), old)
    return choice_text(Choice(choice.model, names, tuple(files.items())))


def _is_there(chosen: tuple[str, FileChoice]) -> bool:
    """Reject numbers that Python would count from the end."""
    _, (size, base, blocks) = chosen
    return min(size, base) >= 0 and all(block >= 0 and (version >= 0 or version == STALE) for block, version in blocks)


HASH_BYTES = 16


class Observer:
    """Is told what happens in a run; this one ignores it."""

    def stepping(self, step: Step, call: Call, kernel: Kernel) -> None:
        """Receive a call that is about to be made, and the files before it."""

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Receive a call that was answered, the node of the process after it, and the world."""

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Receive a decision, and the files right before it."""


class Change:
    """What a run does otherwise than its processes; this one changes nothing."""

    def make(self, step: Step, world: World, index: int) -> None:
        """Let a process make its next call, which is `step`."""
        world.step(index)

    def crashed(self, at: Step, kernel: Kernel) -> None:
        """Receive the files that a kill or a power cut before a step leaves, to change them."""


@dataclass(slots=True, kw_only=True)
class ReplayProcesses:
    """The processes of a test case, whose nodes all runs share, and the names of their steps."""

    sessions: Sessions
    names: StepNames
    digests: dict[Node, bytes] = field(default_factory=dict)

    def digest(self, node: Node) -> bytes:
        """Return a digest of the step that led to a node."""
        known = self.digests.get(node)
        if known is None:
            call = None if node.parent is None else node.parent.call
            marks = [(mark.kind, str(mark.value)) for mark in node.marks]
            text = "" if call is None else f"{call.kind} {call.path} {call.target_path} {call.offset_bytes}"
            text = f"{text} {type(node.answer).__name__} {node.answer!s} {marks} {node.outcome}"
            known = blake2b(text.encode(), digest_size=8).digest()
            self.digests[node] = known
        return known


class ReplayEngine:
    """A world, the names of its processes in their sessions, and which of them runs."""

    def __init__(
        self, processes: ReplayProcesses, observer: Observer, *, adapts: bool = False, change: Change | None = None
    ) -> None:
        """Begin at the start of the test case; with `adapts`, a power cut leaves what is nearest to its choice."""
        self._adapts = adapts
        self._change = change or Change()
        self.processes = processes
        self.world: World = processes.sessions.case.begin(processes.sessions.first)
        self.current = WRITER_INDEX
        self.step_count = 0
        self._sessions = [1] * len(self.world.nodes)
        self._observer = observer
        self._hash = blake2b(digest_size=HASH_BYTES)
        self._name_processes()

    @property
    def following(self) -> int | None:
        """Who runs next by the policy: the same process until it ends or waits, then the first that can; or None."""
        return self.world.following(self.current)

    @property
    def trace_hash(self) -> str:
        """A digest of the run so far."""
        return self._hash.hexdigest()

    def name_of(self, index: int) -> str:
        """Return the name of a process, with its session."""
        return self._names[index]

    def index_of(self, name: str) -> int | None:
        """Return the index of a process by its name, None if no process has it now."""
        return self._names.index(name) if name in self._names else None

    def next_step(self) -> Step:
        """Return the name of the current process's next step."""
        return self.processes.names.name(self._names[self.current], self.world.nodes[self.current])

    def advance(self) -> None:
        """Let the current process make its call."""
        step, call = self.next_step(), self.world.call(self.current)
        self._observer.stepping(step, call, self.world.kernel)
        self._change.make(step, self.world, self.current)
        self._note(step, call)

    def deviate(self, deviation: Deviation) -> Deviation | None:
        """Apply a decision before the current process's next step, and return it; None where it does not apply."""
        match deviation:
            case Switch(to=to):
                return deviation if self._switch(to) else None
            case Fail():
                return deviation if self._fail(deviation) else None
            case Kill():
                if self.current != WRITER_INDEX:
                    return None
                self._observer.deviated(deviation, self.world.kernel)
                self.world = self.processes.sessions.after_kill(self.world)
                self._change.crashed(deviation.at, self.world.kernel)
                self._sessions[WRITER_INDEX] += 1
            case PowerCut(at=at, model=model, choice=choice):
                if self._adapts:
                    deviation = PowerCut(at, model, adapted(self.world.kernel, model, choice))
                try:
                    kernel = disk_after(self.world.kernel, model, deviation.choice).kernel()
                except NoSuchDiskError:
                    return None
                self._observer.deviated(deviation, self.world.kernel)
                self.world = self.processes.sessions.after_power_cut(self.world, kernel)
                self._change.crashed(at, self.world.kernel)
                self._sessions = [session + 1 for session in self._sessions]
        self.current = WRITER_INDEX
        self._name_processes()
        return deviation

    def _switch(self, to: str) -> bool:
        index = self.index_of(to)
        if index is None or index == self.current:
            return False
        self.current = index
        return True

    def _fail(self, deviation: Fail) -> bool:
        if deviation.at.operation == END:
            return False
        step, call, before = self.next_step(), self.world.call(self.current), self.world.kernel.fork()
        try:
            written = file_choice_of(json.loads(deviation.written)) if deviation.written else None
            fail_call(self.world, self.current, Rejected(deviation.reason), written)
        except (LookupError, TypeError, ValueError):
            return False
        self._observer.stepping(step, call, before)
        self._observer.deviated(deviation, before)
        self._note(step, call)
        return True

    def _note(self, step: Step, call: Call) -> None:
        node = self.world.nodes[self.current]
        self.step_count += 1
        self._hash.update(bytes([self.current]) + self.processes.digest(node))
        self._observer.stepped(step, call, node, self.world)

    def _name_processes(self) -> None:
        processes = self.world.process_group.processes
        self._names = [
            session_name(process.name, session) for process, session in zip(processes, self._sessions, strict=True)
        ]
        self._hash.update("/".join(self._names).encode())
