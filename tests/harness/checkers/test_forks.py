import itertools
import random

import pytest

from tornproof.harness.checkers.forks import forks


@pytest.mark.parametrize("reads", [[], [(0, 0)], [(0, 0), (1, 0), (1, 1), (1, 1)], [(2, 3), (0, 1), (1, 1)]])
def test_snapshots_in_one_order_are_no_fork(reads: list[tuple[int, ...]]) -> None:
    assert list(forks(reads)) == []


@pytest.mark.parametrize(
    ("reads", "pair"), [([(1, 0), (0, 1)], {0, 1}), ([(0, 0, 0), (2, 0, 1), (1, 1, 3), (3, 3, 3)], {1, 2})]
)
def test_two_reads_that_each_lack_a_commit_of_the_other_are_a_fork(
    reads: list[tuple[int, ...]], pair: set[int]
) -> None:
    assert {*next(forks(reads))} == pair


def test_neighbours_are_enough() -> None:
    draw = random.Random(0)
    kinds = set()
    for _ in range(300):
        reads = [tuple(draw.randrange(3) for _ in range(2)) for _ in range(4)]

        def is_before(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
            return all(left <= right for left, right in zip(one, other, strict=True))

        has_fork = any(not (is_before(a, b) or is_before(b, a)) for a, b in itertools.combinations(reads, 2))
        assert bool(list(forks(reads))) is has_fork
        kinds.add(has_fork)
    assert kinds == {False, True}
