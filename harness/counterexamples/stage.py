"""A run as it goes on: who is at work in which life, what decisions do to that, and what a power cut leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b

from tornproof.harness.counterexamples.log import Deviation, Fail, Kill, PowerCut, Switch, shortest
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, life_name, without_numbers
from tornproof.harness.search.crash_world import WRITER_PLACE, Lives
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call
from tornproof.harness.simulator.filesystem.kernel import Kernel, Refused
from tornproof.harness.simulator.persistence.legal_disks import Disk, chosen_disk
from tornproof.harness.simulator.persistence.models import Choice, FileChoice, choice_of, model_named
from tornproof.harness.simulator.process.client import Node
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import Refusal


class NoSuchDiskError(Exception):
    """A choice names what the disk cannot hold at that moment."""


def written(choice: Choice | str) -> str:
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
    """Return the choice that means the same, as far as there is that, in a case that was made smaller."""
    choice = read_choice(model, text)
    numbers = dict(kernel.paths())
    unnumbered = {without_numbers(path): path for path in numbers}
    files = {}
    for path, (size, base, blocks) in choice.files:
        there = path if path in numbers else unnumbered.get(without_numbers(path))
        if there is not None:
            last = len(kernel.files[numbers[there]].versions) - 1
            old = tuple((block, min(version, last)) for block, version in blocks)
            files[there] = FileChoice(min(size, last), min(base, last), old)
    names = choice.names and tuple(name for name in choice.names if name < len(kernel.entry_changes))
    return written(Choice(choice.model, names, tuple(files.items())))


def _is_there(chosen: tuple[str, FileChoice]) -> bool:
    """Refuse numbers that Python would count from the end."""
    _, (size, base, blocks) = chosen
    return min([size, base, *(number for pair in blocks for number in pair)]) >= 0


HASH_BYTES = 16


class Watcher:
    """Sees a run happen; this one looks away."""

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """See a call that was answered, where the client stands now, and the world after it."""

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """See a decision, with the files as they are right before it."""


@dataclass(slots=True, kw_only=True)
class Troupe:
    """A situation's clients, which learn once for all runs, and the names of their steps."""

    lives: Lives
    names: StepNames
    digests: dict[Node, bytes] = field(default_factory=dict)

    def digest(self, node: Node) -> bytes:
        """Return a digest of how a client came to a node from the one before."""
        known = self.digests.get(node)
        if known is None:
            call = None if node.parent is None else node.parent.call
            told = [(mark.kind, str(mark.value)) for mark in node.marks]
            text = "" if call is None else f"{call.kind} {call.path} {call.target_path} {call.offset_bytes}"
            known = blake2b(f"{text} {_words(node.answer)} {told} {node.outcome}".encode(), digest_size=8).digest()
            self.digests[node] = known
        return known


class Stage:
    """A world, the names of its clients in their lives, and who goes on."""

    def __init__(self, troupe: Troupe, watcher: Watcher, *, adapts: bool = False) -> None:
        """Begin at the situation's start; with `adapts`, a power cut leaves what is nearest to the choice."""
        self._adapts = adapts
        self.troupe = troupe
        self.world: World = troupe.lives.situation.begin(troupe.lives.first)
        self.current = WRITER_PLACE
        self.step_count = 0
        self._lives = [1] * len(self.world.nodes)
        self._watcher = watcher
        self._hash = blake2b(digest_size=HASH_BYTES)
        self._name()

    @property
    def following(self) -> int | None:
        """Who goes on by the policy: the same client, at its end the first that can; None where nobody can."""
        if self.world.nodes[self.current].call is not None:
            return self.current
        return next(iter(self.world.enabled), None)

    @property
    def trace_hash(self) -> str:
        """A digest of all that happened so far."""
        return self._hash.hexdigest()

    def client(self, place: int) -> str:
        """Return the name of a client in its life."""
        return self._clients[place]

    def place_of(self, client: str) -> int | None:
        """Return where a client stands, or None for one that there is not now."""
        return self._clients.index(client) if client in self._clients else None

    def next_step(self) -> Step:
        """Return the name of what the current client is about to do."""
        return self.troupe.names.name(self._clients[self.current], self.world.nodes[self.current])

    def advance(self) -> None:
        """Let the current client make its call."""
        self._call(None)

    def deviate(self, deviation: Deviation) -> Deviation | None:
        """Carry out a decision before the current client's next step, and return it; None where it means nothing."""
        match deviation:
            case Switch(to=to):
                return deviation if self._switch(to) else None
            case Fail(reason=reason):
                if deviation.at.operation == END:
                    return None
                self._watcher.deviated(deviation, self.world.kernel)
                self._call(reason)
                return deviation
            case Kill():
                if self.current != WRITER_PLACE:
                    return None
                self._watcher.deviated(deviation, self.world.kernel)
                self.world = self.troupe.lives.after_kill(self.world)
                self._lives[WRITER_PLACE] += 1
            case PowerCut(at=at, model=model, choice=choice):
                if self._adapts:
                    deviation = PowerCut(at, model, adapted(self.world.kernel, model, choice))
                try:
                    kernel = disk_after(self.world.kernel, model, deviation.choice).kernel()
                except NoSuchDiskError:
                    return None
                self._watcher.deviated(deviation, self.world.kernel)
                self.world = self.troupe.lives.after_power_cut(kernel, self.world.progress)
                self._lives = [life + 1 for life in self._lives]
        self.current = WRITER_PLACE
        self._name()
        return deviation

    def _switch(self, to: str) -> bool:
        place = self.place_of(to)
        if place is None or place == self.current:
            return False
        self.current = place
        return True

    def _call(self, reason: Refusal | None) -> None:
        place, world = self.current, self.world
        step, call = self.next_step(), world.call(place)
        if reason is None:
            world.step(place)
        else:
            file = world.kernel.file_of(place, call) if call.kind in BARRIERS else None
            if file is not None:
                world.kernel.files[file] = world.kernel.files[file].failed()
            world.answer(place, Refused(reason))
        node = world.nodes[place]
        self.step_count += 1
        self._hash.update(bytes([place]) + self.troupe.digest(node))
        self._watcher.stepped(step, call, node, world)

    def _name(self) -> None:
        clients = self.world.cast.clients
        self._clients = [life_name(client.name, life) for client, life in zip(clients, self._lives, strict=True)]
        self._hash.update("/".join(self._clients).encode())


def _words(answer: object) -> str:
    return f"{type(answer).__name__} {answer!s}"
