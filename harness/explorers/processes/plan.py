"""What every writer of a run does, and where it is killed; it follows from the seed and does not depend on timing.

In random order, each position at which a writer can be killed comes once before any comes again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tornproof.harness.explorers.processes.expected import Change
from tornproof.harness.explorers.processes.stop import (
    APPEND_PM,
    COMMIT,
    COMMIT_POSITIONS,
    DIRECTORIES,
    HEADERS,
    MAKE_DIRECTORY,
    PATCH_HEADER,
    POSITIONS,
    PUBLICATION,
    PURGE,
    RECOVERY,
    REMOVE_DIRECTORY,
    REMOVE_FILE,
    STORE_RECORD,
    STORE_VERSION,
    SYNC_HEADER,
    SYNC_PM,
    SYNC_RECORD,
    WRITES,
    Stop,
)

COMMITS_BEFORE_MAX, OCCURRENCES_MAX, SPARE_COMMITS = 2, 3, 2
"""Commits before the one that is stopped, occurrences of a position, and spare commits, which may lack the position."""
PURGE_CHANCE = 0.3
FILE_COUNT = 2
"""The number of files in a partition's directory."""
_RECOVERY_AFTER = {
    # Restating an orphan needs one: a generation that was published and that no version names.
    (APPEND_PM, SYNC_PM, PATCH_HEADER, SYNC_HEADER): (
        Change.GROW,
        (SYNC_HEADER, STORE_RECORD, SYNC_RECORD, STORE_VERSION),
    ),
    # Removing a directory needs one that no version ever named.
    (REMOVE_FILE, REMOVE_DIRECTORY): (Change.REWRITE, (*WRITES, *DIRECTORIES)),
}
"""Steps that a recovery takes only after some commits: the change of such a commit, and where it may be killed."""


class Act(enum.StrEnum):
    """What a writer does next; `PAUSE` waits for a message of the parent."""

    COMMIT = "commit"
    PURGE = "purge"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An act; `change` says what a commit does at least, and from this step on the writer stops at `stop`."""

    act: Act
    change: Change = Change.ANY
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one writer does after its recovery, in which it may already stop."""

    steps: tuple[Step, ...] = ()
    stop_in_recovery: Stop | None = None
    rewrites_early: bool = False

    @property
    def kill_position(self) -> str:
        """The position at which the writer is killed."""
        stops = (self.stop_in_recovery, *(step.stop for step in self.steps))
        return next(stop.position for stop in stops if stop is not None)


def plan_kills(seed: int) -> Iterator[Plan]:
    """Yield the plans of writers that are killed, endlessly."""
    draw = np.random.default_rng(seed)
    while True:
        for position, change in _positions(draw):
            yield _plan(position, change, draw)


def plan_last(seed: int) -> Plan:
    """Return the plan of the writer that ends normally.

    Readers that pinned a version inside its second commit are beside a purge of what they pinned, and read it again
    after two commits. Then they pin the newest version, and what was replaced before is purged beside them. The last
    commit adds rows, so that its content differs from the one before.
    """
    draw = np.random.default_rng([seed, 0])
    position = f"{COMMIT}: {PUBLICATION[int(draw.integers(len(PUBLICATION)))]}"
    return Plan(
        steps=(
            Step(act=Act.COMMIT, change=Change.GROW),
            Step(act=Act.COMMIT, stop=Stop(position=position, occurrence=1, written_part=0.0)),
            Step(act=Act.COMMIT, change=Change.REWRITE),
            Step(act=Act.PURGE),
            Step(act=Act.PAUSE),
            Step(act=Act.PURGE),
            Step(act=Act.COMMIT),
            Step(act=Act.COMMIT, change=Change.GROW),
        )
    )


def _positions(draw: np.random.Generator) -> Iterator[tuple[str, Change]]:
    """Yield every position once, with the change that leads to it; one of a commit comes first.

    Positions of recoveries that depend on a commit come right after that commit.
    """
    followers: dict[str, tuple[str, Change]] = {}
    for steps, (change, ends) in _RECOVERY_AFTER.items():
        for step, end in zip(steps, draw.permutation(ends), strict=False):
            followers[f"{COMMIT}: {end}"] = f"{RECOVERY}: {step}", change
    following = {position for position, _ in followers.values()}
    order = [POSITIONS[number] for number in draw.permutation(len(POSITIONS)) if POSITIONS[number] not in following]
    first = next(number for number, position in enumerate(order) if position in COMMIT_POSITIONS)
    for position in (*order[first:], *order[:first]):
        if position not in followers:
            yield position, _change(position, draw)
            continue
        follower, change = followers[position]
        yield position, change
        yield follower, Change.ANY


def _change(position: str, draw: np.random.Generator) -> Change:
    stage, _, step = position.partition(": ")
    if stage == PURGE or step in (MAKE_DIRECTORY, *DIRECTORIES):
        return Change.REWRITE
    if step in HEADERS:
        return Change.GROW
    return Change.ANY if step in PUBLICATION else (Change.GROW, Change.REWRITE)[int(draw.integers(2))]


def _plan(position: str, change: Change, draw: np.random.Generator) -> Plan:
    stage, _, step = position.partition(": ")
    occurrence = int(draw.integers(1, OCCURRENCES_MAX, endpoint=True))
    before = int(draw.integers(1, COMMITS_BEFORE_MAX, endpoint=True))
    stop = Stop(position=position, occurrence=occurrence, written_part=float(draw.random()))
    first = [Step(act=Act.COMMIT)] * before
    if draw.random() < PURGE_CHANCE:
        first.append(Step(act=Act.PURGE))
    match stage:
        case "recovery":
            return Plan(stop_in_recovery=_at(stop, 1))
        case "purge":
            occurrence = min(occurrence, FILE_COUNT) if step == REMOVE_FILE else 1
            # At the pause readers pin the newest version, so that no pin protects what was replaced.
            last = [Step(act=Act.COMMIT, change=change), Step(act=Act.PAUSE)]
            return Plan(steps=(*first, *last, Step(act=Act.PURGE, stop=_at(stop, occurrence))))
        case _:
            last = [Step(act=Act.COMMIT, change=change)] * (occurrence + SPARE_COMMITS)
            last[0] = Step(act=Act.COMMIT, change=change, stop=stop)
            return Plan(steps=(*first, *last), rewrites_early=change is not Change.GROW and bool(draw.integers(2)))


def _at(stop: Stop, occurrence: int) -> Stop:
    return Stop(position=stop.position, occurrence=occurrence, written_part=stop.written_part)
