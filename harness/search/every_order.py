"""Every order of the calls of some processes, one call after the other: what reduced searches are compared with.

Nothing is known here of which calls depend on each other. States that were met before are not entered again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.harness.search.crash_world import WRITER_INDEX, Disks, Sessions
from tornproof.harness.simulator.process.bodies import FAILED
from tornproof.harness.simulator.process.world import World


def every_end(world: World) -> Iterator[World]:
    """Yield the worlds at the ends of all orders."""
    pending, met = [world.fork()], set()
    while pending:
        at = pending.pop()
        identity = _identity(at)
        if identity in met:
            continue
        met.add(identity)
        enabled = at.enabled
        if not enabled:
            yield at
        pending += [_stepped(at, index) for index in enabled]


def every_crash(sessions: Sessions, model: str, disks: Disks) -> Iterator[World]:
    """Yield the worlds at the ends of all orders with a crash of the writer at most, before any of its calls."""
    pending, met = [sessions.case.begin(sessions.first)], set()
    while pending:
        at = pending.pop()
        identity = at.process_group is sessions.first, _identity(at)
        if identity in met:
            continue
        met.add(identity)
        following = [_stepped(at, index) for index in at.enabled]
        writer = at.nodes[WRITER_INDEX]
        if at.process_group is sessions.first:
            if writer.call is not None:
                following += [world for _, world in sessions.crashes(at, model, disks)]
            if any(mark.kind == FAILED for mark in writer.marks):
                following.append(sessions.after_kill(at))
        if not following:
            yield at
        pending += following


def _stepped(world: World, index: int) -> World:
    following = world.fork()
    following.step(index)
    return following


def _identity(world: World) -> object:
    return tuple(node.number for node in world.nodes), world.progress, world.known, world.kernel.identity()
