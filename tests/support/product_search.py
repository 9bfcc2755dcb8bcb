"""Schedule × crash: the writer dies at any step, beside a reader at any step, by single calls.

Under A and D the reader survives the crash; under B, C and Cdir all processes die, and a new reader reads beside the
recovery. Known states are not entered again, so the count is one of distinct states.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from identity import Identities

from tornproof.harness.search.crash_world import WRITER_INDEX, Action, Disks, Sessions
from tornproof.harness.search.outcome import Said, said_by
from tornproof.harness.simulator.process.bodies import FAILED
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.world import World

Path: TypeAlias = "tuple[Path, Action] | None"
"""How a state was reached: the last action, and the path before it."""


@dataclass(slots=True)
class ProductCounts:
    """What a search went through; an outcome is what the reader said, the commits at the end, and whether one died."""

    states: int = 0
    outcomes: set[tuple[Said, int, bool]] = field(default_factory=set)
    crashes: int = 0
    is_complete: bool = False
    reached: Counter[str] = field(default_factory=Counter)
    found: list[tuple[Violation, list[Action]]] = field(default_factory=list)


class ProductSearch:
    """One search of a test case under one persistence model, "A", "D", or that of `disks`."""

    def __init__(self, sessions: Sessions, model: str, disks: Disks, goes_on: Callable[[int], bool]) -> None:
        """Explore until all is done or `goes_on`, called with the number of states, returns False."""
        self._sessions = sessions
        self._model = model
        self._disks = disks
        self._goes_on = goes_on
        self._identities = Identities()
        self._known: set[bytes] = set()
        self.counts = ProductCounts()

    def run(self) -> ProductCounts:
        """Search to the end."""
        counts = self.counts
        start = self._sessions.case.begin(self._sessions.first)
        pending: list[tuple[World, Path]] = [(start, None)]
        while pending:
            if not self._goes_on(counts.states):
                return counts
            world, path = pending.pop()
            identity = self._identities.of(world)
            if identity in self._known:
                continue
            self._known.add(identity)
            counts.states += 1
            if world.progress.violations:
                counts.found.append((world.progress.violations[0], actions_of(path)))
                continue
            followers = list(self._followers(world, path))
            pending += followers
            if not followers:
                has_crashed = world.process_group is self._sessions.second
                counts.outcomes.add((said_by(world.nodes[1]), len(world.progress.committed), has_crashed))
        counts.is_complete = True
        return counts

    def _followers(self, world: World, path: Path) -> Iterator[tuple[World, Path]]:
        indexes = world.enabled
        if world.process_group is self._sessions.first:
            has_ended = world.nodes[WRITER_INDEX].call is None
            for action, crashed in () if has_ended else self._sessions.crashes(world, self._model, self._disks):
                self.counts.crashes += 1
                self._count(world, crashed)
                yield crashed, (path, action)
            if any(mark.kind == FAILED for mark in world.nodes[WRITER_INDEX].marks):
                # The writer stopped at a call that failed, and its process ends.
                yield self._sessions.after_kill(world), (path, ("kill",))
        alone = next((index for index in indexes if not world.accesses(index)), None)
        for index in indexes if alone is None else [alone]:
            following = world.fork()
            following.step(index)
            yield following, (path, ("step", index))

    def _count(self, before: World, after: World) -> None:
        reached, progress = self.counts.reached, before.progress
        reached["crash inside a commit"] += progress.pending is not None
        reached["crash inside a recovery"] += before.nodes[WRITER_INDEX].depth > 0 and not _has_opened(before)
        reached["crash after a reader saw what is not acknowledged"] += progress.seen > len(progress.committed)
        reached["crash while a reader was at work"] += any(node.depth > 0 and node.call for node in before.nodes[1:])


def _has_opened(world: World) -> bool:
    return world.progress.pending is not None or bool(world.progress.committed)


def actions_of(path: Path) -> list[Action]:
    """Return the actions of a path from the start on."""
    actions = []
    while path is not None:
        path, action = path
        actions.append(action)
    return actions[::-1]
