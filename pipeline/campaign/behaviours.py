"""Which behaviours of runs came when: how often something new came, and how likely it is that the next run is new.

Half of the runs are held out: each is an independent trial of how much the other half has not seen. Parts of a campaign
are counted apart and added in their order, so that tasks of Spark count, and the driver adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

BEHAVIOURS_MAX = 500_000
"""The most behaviours that are counted separately; later runs are not counted."""
POINTS_MAX = 200
NEVER = np.iinfo(np.int64).max
Integers = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]


class Point(NamedTuple):
    """The state after `run_count` runs; of the held-out ones, how many showed what no other run has shown."""

    run_count: int
    behaviour_count: int
    once_count: int
    held_out_count: int
    held_out_new_count: int


@dataclass(slots=True, kw_only=True)
class Behaviours:
    """By behaviour the numbers of its first and second run, and of the first that is not held out, or NEVER.

    `waiting` are the held-out runs before the latter. Runs are numbered from 0.
    """

    run_count: int
    is_held_out: npt.NDArray[np.bool_]
    digests: Digests
    first: Integers
    second: Integers
    learnt: Integers
    waiting: Integers
    waiting_digests: Digests

    @classmethod
    def of(cls, digests: Digests, is_held_out: npt.NDArray[np.bool_]) -> Self:
        """Count runs by the digests of their behaviours."""
        order = np.argsort(digests, kind="stable")
        known, starts, counts = np.unique(digests[order], return_index=True, return_counts=True)
        second = np.full(len(known), NEVER)
        second[counts > 1] = order[starts[counts > 1] + 1]
        own = np.where(is_held_out[order], NEVER, order)
        learnt = np.minimum.reduceat(own, starts) if len(known) else np.zeros(0, np.int64)
        numbers = np.flatnonzero(is_held_out)
        found = cls(
            run_count=len(digests),
            is_held_out=is_held_out,
            digests=known,
            first=order[starts],
            second=second,
            learnt=learnt,
            waiting=numbers,
            waiting_digests=digests[numbers],
        )
        found._forget_learnt()
        return found

    @classmethod
    def none(cls) -> Self:
        """Return no run."""
        return cls.of(np.zeros(0, np.uint64), np.zeros(0, np.bool_))

    @property
    def is_full(self) -> bool:
        """Whether there are too many behaviours to count further runs."""
        return len(self.digests) >= BEHAVIOURS_MAX

    @property
    def counted_count(self) -> int:
        """Number of runs up to the one with the last behaviour that is counted separately."""
        return (
            int(np.partition(self.first, BEHAVIOURS_MAX - 1)[BEHAVIOURS_MAX - 1]) + 1
            if self.is_full
            else self.run_count
        )

    def add(self, later: Self) -> None:
        """Add the runs after these, unless there are too many behaviours already."""
        if self.is_full or not later.run_count:
            return
        digests = np.concatenate([self.digests, later.digests])
        order = np.argsort(digests, kind="stable")
        known, starts, counts = np.unique(digests[order], return_index=True, return_counts=True)
        first, second, learnt = (
            np.concatenate([ours, np.where(theirs == NEVER, NEVER, theirs + self.run_count)])[order]
            for ours, theirs in ((self.first, later.first), (self.second, later.second), (self.learnt, later.learnt))
        )
        # Where both have a behaviour, ours is the first of the two, and their first run is the second if we had one.
        again = np.where(counts > 1, first[np.minimum(starts + 1, len(first) - 1)], NEVER)
        self.first, self.second = first[starts], np.minimum(second[starts], again)
        self.learnt = np.minimum.reduceat(learnt, starts)
        self.digests = known
        self.waiting = np.concatenate([self.waiting, later.waiting + self.run_count])
        self.waiting_digests = np.concatenate([self.waiting_digests, later.waiting_digests])
        self.is_held_out = np.concatenate([self.is_held_out, later.is_held_out])
        self.run_count += later.run_count
        self._forget_learnt()

    def trend(self) -> list[Point]:
        """Return the state after some of the runs, at most POINTS_MAX, and after all."""
        count, step = self.counted_count, 1
        while count // step >= POINTS_MAX:
            step *= 2
        marks = np.array([*range(step, count, step), count])
        learnt = self._learnt_of_waiting()
        first, second, shown, taken = (
            np.searchsorted(np.sort(numbers), marks) for numbers in (self.first, self.second, self.waiting, learnt)
        )
        held_out = np.concatenate([[0], np.cumsum(self.is_held_out)])[marks]
        columns = (marks, first, first - second, held_out, shown - taken)
        return [Point(*row) for row in np.stack(columns, axis=1).tolist()]

    def _learnt_of_waiting(self) -> Integers:
        return self.learnt[np.searchsorted(self.digests, self.waiting_digests)]

    def _forget_learnt(self) -> None:
        """Leave out held-out runs whose behaviour another run had shown before."""
        is_new = self.waiting < self._learnt_of_waiting()
        self.waiting, self.waiting_digests = self.waiting[is_new], self.waiting_digests[is_new]
