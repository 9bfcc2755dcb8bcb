"""Finds forks: two reads of one table that several writers commit to, each of which saw what the other one did not.

In histories, each writer is judged by itself; snapshots of the table must also be in one order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence


def forks(reads: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield pairs of reads, by their indexes, that no order of the commits explains.

    A read is the version of each writer that it saw. If any two reads contradict each other, then two that are next to
    each other by the number of commits do.
    """
    order = sorted(range(len(reads)), key=lambda index: sum(reads[index]))
    for earlier, later in itertools.pairwise(order):
        if any(before > after for before, after in zip(reads[earlier], reads[later], strict=True)):
            yield earlier, later
