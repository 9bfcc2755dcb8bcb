"""The cause of a finding of several writers: the step that a process must not take while another one is at work.

Each step that a process takes while another one is open is made to wait, in a replay, until that one has ended. The
last step by which waiting helps is the cause. Where the first writer comes to an end, that it does is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tornproof.harness.counterexamples.actions import CHANGING, LOOKS, ActionNames, content_of
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.world import World

POSITIONS_MAX = 200


class Explorer(Protocol):
    """What replays and judges."""

    world: World

    def without_first(self, world: World, end: str) -> World:
        """Return the world in which the first writer has come to an end, and the others have gone on."""

    def judge(self, world: World, end: str = "") -> list[Violation]:
        """Return what is violated in the end."""


class Taken(NamedTuple):
    """A step of a run: who takes it, what it does in words, whether with a lock, and which others are open then."""

    process: int
    text: str
    is_change: bool
    has_lock: bool
    others: tuple[int, ...]


def cause_of(
    explorer: Explorer, names: ActionNames, processes: Sequence[str], schedule: Schedule, end: str, broken: str
) -> dict[str, Any]:
    """Return the cause as JSON, as causes of other findings are; {} where nothing that is tried helps."""
    order = [index for index, count in schedule for _ in range(count)]
    if end:
        return _of_end(explorer, names, processes, order, end)
    taken = list(_steps(explorer.world.fork(), order, names))
    tried = 0
    for index, other in _pairs(taken):
        at = [number for number, step in enumerate(taken) if step.process == index and other in step.others]
        at = at[:POSITIONS_MAX]
        helps = [broken not in _violated_if_waiting(explorer, taken, number, other) for number in at]
        tried += len(at)
        if any(helps):
            last = taken[at[len(helps) - 1 - helps[::-1].index(True)]]
            waiting = f"{processes[index]} waits for the end of {processes[other]} before: {last.text}"
            locked = "with" if last.has_lock else "without"
            words = f"{processes[index]} does this {locked} a lock while {processes[other]} is at work: {last.text}"
            return _document(words, waiting, tried, sum(helps))
    return {}


def _of_end(
    explorer: Explorer, names: ActionNames, processes: Sequence[str], order: Sequence[int], end: str
) -> dict[str, Any]:
    world = explorer.world.fork()
    for index in order:
        world.step(index)
    call = world.nodes[order[-1]].call if order else None
    text = "its end" if call is None else names.action(call, *(content_of(world.kernel, call.path),) * 2).text
    first = processes[0]
    ended = explorer.without_first(world, end)
    kept = f"; {first} keeps its lock" if _has_lock(ended, 0) else ""
    happens = f"this call of {first} does not fail" if "fails" in end else f"{first} does not die before"
    world.run(0)
    world.finish()
    words = f"{end}{'' if 'fails' in end else ' before'}: {text}{kept}"
    return {} if explorer.judge(world) else _document(words, f"{happens}: {text}", 1, 1)


def _pairs(taken: Sequence[Taken]) -> Iterator[tuple[int, int]]:
    """Yield who may wait for whom: those first that are open beside another one's last changes."""
    pairs = {(step.process, other): step.is_change for step in taken for other in step.others}
    yield from sorted(pairs, key=lambda pair: (not pairs[pair], pair))


def _steps(world: World, order: Sequence[int], names: ActionNames) -> Iterator[Taken]:
    """Take the steps of a run to its end, and yield those that look at files or change them."""
    begun: set[int] = set()
    for index in to_the_end(world, order):
        call = world.call(index)
        old = content_of(world.kernel, call.path)
        world.step(index)
        text = ""
        if call.kind in CHANGING | LOOKS:
            text = names.action(call, old, content_of(world.kernel, call.path)).text
            begun.add(index)
        others = tuple(each for each in sorted(begun - {index}) if world.nodes[each].call is not None)
        yield Taken(index, text, call.kind in CHANGING, _has_lock(world, index), others if text else ())


def _has_lock(world: World, index: int) -> bool:
    return any(lock.session == index for locks in world.kernel.locks.values() for lock in locks)


def to_the_end(world: World, order: Sequence[int]) -> Iterator[int]:
    """Yield who goes on: those of a schedule, and then as `World.finish` lets them."""
    yield from order
    following = world.following(0)
    while following is not None:
        yield following
        following = world.following(following)


def _violated_if_waiting(explorer: Explorer, taken: Sequence[Taken], number: int, other: int) -> set[str]:
    """Return what is violated if the step waits until another process has ended."""
    world = explorer.world.fork()
    for step in taken[:number]:
        world.step(step.process)
    world.run(other)
    for step in taken[number:]:
        if world.nodes[step.process].goes_on:
            world.step(step.process)
    world.finish()
    return {violation.property for violation in explorer.judge(world)}


def _document(words: str, change: str, tried: int, enough: int) -> dict[str, Any]:
    changes = [{"text": change, "kind": change}]
    return {"cause": words, "kind": words, "passes_when": {"tried": tried, "enough": enough, "changes": changes}}
