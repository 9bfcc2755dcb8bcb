"""The crash states of a trace: after each step, each disk that a model of persistence allows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tornproof.harness.recording.following import STOPS
from tornproof.harness.recording.replaying import Machine
from tornproof.harness.recording.steps import STORE, Step, Trace
from tornproof.harness.simulator.persistence.legal_disks import Disk, LegalDisks, Picked, chosen_disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.legal_names import change_count
from tornproof.harness.simulator.persistence.models import Choice, Model, choice_of, model_named
from tornproof.impl.errors import UsageError

KEY_BYTES = 12


class Point(NamedTuple):
    """A crash after the first `step` steps, and the machine then."""

    step: int
    machine: Machine


class State(NamedTuple):
    """A disk that a crash after `step` steps may leave; `deviation` counts what differs from the page cache.

    States with equal keys have the same disk and the same acknowledgements.
    """

    deviation: int
    key: bytes
    step: int
    choice: Choice

    @property
    def name(self) -> str:
        """A text that `state_named` reads."""
        return f"{self.step}:{self.choice.text()}"


@dataclass(slots=True, kw_only=True)
class Enumerated:
    """What one model allows: `states` are the first of those with different keys, `keys` are of all that were tried."""

    points: int = 0
    unsynced_points: int = 0
    legal: int = 0
    tried: int = 0
    is_complete: bool = True
    keys: frozenset[bytes] = frozenset()
    states: tuple[State, ...] = ()


def points_of(trace: Trace, model: Model, steps: Sequence[Step] | None = None) -> Iterator[Point]:
    """Yield the start and the crash after each step that changes something; `steps` may be others than the trace's.

    Where the page cache survives, there are no crashes at which it is not known.
    """
    steps = trace.steps if steps is None else steps
    unknown = _cache_unknown(steps) if model.keeps_cache else frozenset()
    machine = Machine(trace.start)
    if 0 not in unknown:
        yield Point(0, machine.fork())
    for index, step in enumerate(steps):
        before = machine.fork()
        machine.apply(step, index, syncs_whole_files=model.syncs_whole_files)
        if index + 1 not in unknown and _differ(before, machine):
            yield Point(index + 1, machine.fork())


def _cache_unknown(steps: Sequence[Step]) -> frozenset[int]:
    """Return after how many steps the page cache may hold more than was recorded by then.

    Stores through mappings are seen at the next sync, and may have been made at any time since the last one.
    """
    unknown: set[int] = set()
    waits = False
    for index in range(len(steps) - 1, -1, -1):
        waits = steps[index].name not in STOPS and (waits or steps[index].name == STORE)
        if waits:
            unknown.add(index)
    return frozenset(unknown)


def _differ(one: Machine, other: Machine) -> bool:
    """Return whether a crash may leave something else, or must."""
    before, after = one.kernel, other.kernel
    return (
        one.acknowledged != other.acknowledged
        or before.files != after.files
        or before.entry_changes is not after.entry_changes
        or before.journalled_count != after.journalled_count
    )


def enumerate_states(trace: Trace, model: Model, limits: Limits, count_max: int) -> Enumerated:
    """Return the states under a model, and up to `count_max` of them: those that deviate least."""
    return enumerate_points(points_of(trace, model), model, limits, count_max)


def enumerate_points(points: Iterable[Point], model: Model, limits: Limits, count_max: int) -> Enumerated:
    """Return the same of some crash points."""
    found = Enumerated()
    states: dict[bytes, State] = {}
    for point in points:
        kernel = point.machine.kernel
        disks = legal_disks(kernel, model, limits)
        found.points += 1
        found.unsynced_points += bool(kernel.entry_changes) or not all(
            state.is_durable for state in kernel.files.values()
        )
        found.legal += disks.legal_count
        found.is_complete &= disks.is_complete
        for deviation, key, picked in _picked(point, model, disks):
            found.tried += 1
            if key not in states:
                states[key] = State(deviation, key, point.step, disks.choice(picked))
    found.keys = frozenset(states)
    found.states = tuple(sorted(states.values(), key=lambda state: state[:3])[:count_max])
    return found


def _picked(point: Point, model: Model, disks: LegalDisks) -> Iterator[tuple[int, bytes, Picked]]:
    """Yield each disk with its deviation and its key."""
    change_count_all = change_count(point.machine.kernel, model)
    of_tree: dict[int, tuple[int, bytes]] = {}
    digests: dict[int, bytes] = {}
    for picked in disks:
        if picked.tree not in of_tree:
            names = disks.choice(picked).names
            lost = 0 if names is None else change_count_all - len(names)
            of_tree[picked.tree] = lost, _shape(picked.disk, point.machine.acknowledged)
        lost, shape = of_tree[picked.tree]
        contents = []
        for content in picked.disk.contents:
            # The contents of one crash point are shared by its disks.
            if id(content) not in digests:
                digests[id(content)] = _digest(content)
            contents.append(digests[id(content)])
        yield lost + sum(map(bool, picked.indexes)), _digest(b"".join((shape, *contents))), picked


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=KEY_BYTES).digest()


def _shape(disk: Disk, acknowledged: int) -> bytes:
    return repr((disk.tree.names(), acknowledged)).encode(errors="surrogateescape")


def key_of(disk: Disk, acknowledged: int) -> bytes:
    """Return the key of a disk with so many acknowledgements."""
    return _digest(b"".join((_shape(disk, acknowledged), *map(_digest, disk.contents))))


def state_named(trace: Trace, name: str) -> tuple[Point, State]:
    """Return the state that `State.name` names, with its crash point; raises UsageError."""
    step, _, text = name.partition(":")
    try:
        choice = choice_of(text)
        model = model_named(choice.model)
        point = next(point for point in points_of(trace, model) if point.step == int(step))
        disk = chosen_disk(point.machine.kernel, model, choice)
        for path, _ in choice.files:
            if path not in disk.tree.paths:
                raise IndexError(f"there is no file {path} then")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration) as error:
        raise UsageError(f"--only-state {name!r}: no state of this trace: {error or 'no such step'}") from error
    return point, State(0, key_of(disk, point.machine.acknowledged), point.step, choice)
