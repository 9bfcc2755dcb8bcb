"""The outcome of a schedule: what each process reported, which rules were broken, and the files at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

Said: TypeAlias = tuple[tuple[str, Hashable], ...]
DIGEST_BYTES = 16


class Outcome(NamedTuple):
    """The same for all schedules that differ only in the order of independent calls.

    `violations` are (property, process) without stale reads and what the model does not allow, which depend on the
    order of independent calls: `tornproof.harness.search.staleness` finds the former, runs themselves the latter.
    """

    said: tuple[Said, ...]
    violations: frozenset[tuple[str, str]]
    files: bytes


class Outcomes:
    """Gives the outcomes of schedules, and caches what processes said and digests of files."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._said: dict[Node, Said] = {}
        self._files: dict[object, bytes] = {}

    def of(self, world: World) -> Outcome:
        """Return the outcome of a schedule that is at its end."""
        violations = ((each.property, each.process) for each in world.progress.violations)
        return Outcome(
            tuple([self._said.get(node) or self._learn(node) for node in world.nodes]),
            frozenset(each for each in violations if each[0] not in (Property.STALE, Property.BEHAVIOUR)),
            self._digest(world),
        )

    def _learn(self, node: Node) -> Said:
        self._said[node] = said_by(node)
        return self._said[node]

    def _digest(self, world: World) -> bytes:
        kernel = world.kernel
        files = frozenset([(number, state.content) for number, state in kernel.files.items()])
        key = files, tuple([tuple(names.items()) for names in kernel.directories.values()])
        if key not in self._files:
            self._files[key] = digest_of_files(world)
        return self._files[key]


def path_to(node: Node) -> list[Node]:
    """Return the nodes of a process from its start to this one."""
    path = [node]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    path.reverse()
    return path


def said_by(node: Node) -> Said:
    """Return everything that a process said up to a node, and how it ended."""
    path = path_to(node)
    said = [(mark.kind, mark.value) for each in path for mark in each.marks]
    return (*said, ("ended", node.outcome))


def digest_of_files(world: World) -> bytes:
    """Return a digest of all files and directories as readers see them."""
    image = world.kernel.image()
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in sorted(image.directories):
        digest.update(f"{name}\0".encode())
    for path, content in sorted(image.files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.digest()
