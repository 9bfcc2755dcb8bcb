"""What a crash state lacks: the steps of the program whose effects are not on the disk, or only in part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tornproof.harness.common.verdict import without_digits
from tornproof.harness.counterexamples.byte_map import padded
from tornproof.harness.recording.replaying import Machine
from tornproof.harness.recording.steps import Step, parts_of
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_names import tree_after
from tornproof.harness.simulator.persistence.models import Choice, Model, Names

_MADE_UP = re.compile(r"[^/ ._-]*\d[^/ ._-]*|(?<=/)[0-9a-f]{2}(?=[/ ]|$)|(?<=[._-])[A-Za-z0-9]{6}(?=[/ ]|$)")
"""Parts of names with a digit, two hexadecimal characters as git's directories, and what mkstemp draws."""
LOST, IN_PART = "is not on disk", "is on disk in part"


class Effect(NamedTuple):
    """A step of a trace by its index, of a write the first one, and what became of it."""

    step: int
    state: str


def lost_effects(
    steps: Sequence[Step], machine: Machine, model: Model, choice: Choice, disk: Disk
) -> tuple[Effect, ...]:
    """Return the steps that are not on a disk, or only in part, in their order."""
    found = dict(_lost_names(machine, model, choice))
    tree, numbers = tree_after(machine.kernel, model, choice.names)
    assert tree is disk.tree
    for number, content in zip(numbers, disk.contents, strict=True):
        state = machine.kernel.files[number]
        if content != state.content:
            found.update(_lost_writes(state, machine.writes.get(number, ()), content))
    whole: dict[int, str] = {}
    made = _open_steps(machine)
    for step in sorted(found):
        parts = parts_of(steps, step)
        is_lost = all(found.get(part) == LOST for part in parts if part in made)
        whole[parts.start] = LOST if is_lost else IN_PART
    return tuple(Effect(*each) for each in whole.items())


def kept_effects(steps: Sequence[Step], machine: Machine, lost: Sequence[Effect]) -> tuple[int, ...]:
    """Return the steps that no sync has made durable and that are on the disk all the same."""
    there = {parts_of(steps, step).start for step in _open_steps(machine)}
    return tuple(sorted(there - {effect.step for effect in lost}))


def _open_steps(machine: Machine) -> set[int]:
    """Return the steps that were made, and that no sync has made durable."""
    return {step for of_file in machine.writes.values() for step in of_file} | {step for _, step in machine.changes}


def sites(steps: Sequence[Step], effects: Iterable[Effect]) -> frozenset[str]:
    """Return by which calls on which files the effects came: equal for two runs of one loop."""
    return frozenset(site(steps[effect.step]) for effect in effects)


def site(step: Step) -> str:
    """Return the place of a step in the program, as far as it is known; names that were made up are all one."""
    return f"{step.name} {_MADE_UP.sub('*', f'{step.path} {step.target}')} {without_digits(step.place)}"


def _lost_names(machine: Machine, model: Model, choice: Choice) -> Iterator[tuple[int, str]]:
    if choice.names is None:
        return
    kept, first = set(choice.names), 0
    for change, step in machine.changes:
        count = len(change) if model.names is Names.EACH_ENTRY else 1
        there = sum(number in kept for number in range(first, first + count))
        first += count
        if there < count:
            yield step, IN_PART if there else LOST


def _lost_writes(state: FileState, steps: Sequence[int], content: bytes) -> Iterator[tuple[int, str]]:
    """Yield what became of each version of a file whose content on disk is not the latest."""
    size_bytes = max(map(len, (*state.versions, content)))
    held, last = padded(content, size_bytes), padded(state.versions[-1], size_bytes)
    before = padded(state.versions[0], size_bytes)
    for version, step in zip(state.versions[1:], steps, strict=False):
        after = padded(version, size_bytes)
        changed = before != after
        is_there = (held == after) | (held == last)
        if not is_there[changed].all():
            yield step, IN_PART if is_there[changed].any() else LOST
        before = after
