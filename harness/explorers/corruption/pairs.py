"""Pairs of flipped bits, each of which alone is not rejected: together they may lead to a wrong answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tornproof.harness.explorers.corruption.plan import Flip, Kind, Pair, Task

SEED = 0
DRAWS_PER_PAIR = 4

NamedFlip = tuple[Flip, str]


@dataclass(frozen=True, slots=True)
class ChosenPairs:
    """The pairs to try, those within one file first, and the number of all pairs."""

    pairs: tuple[Pair, ...]
    total: int

    @property
    def are_sampled(self) -> bool:
        """Whether some are left out."""
        return len(self.pairs) < self.total


def choose_pairs(different: Sequence[NamedFlip], harmless: Sequence[NamedFlip], pairs_max: int) -> ChosenPairs:
    """Choose among the pairs of flips that were not rejected: all of them, or a sample.

    In a sample of `pairs_max`, up to half are pairs with a flip of `different`, which led to another answer. The others
    are random with the seed SEED, each pair of fields being as likely as any other.
    """
    named = [*sorted(different, key=_file_and_bit), *sorted(harmless, key=_file_and_bit)]
    total = len(named) * (len(named) - 1) // 2
    if total <= pairs_max:
        chosen = set(itertools.combinations(range(len(named)), 2))
    else:
        with_different = ((first, second) for first in range(len(different)) for second in range(first + 1, len(named)))
        chosen = set(itertools.islice(with_different, pairs_max // 2))
        for pair in _random(named, DRAWS_PER_PAIR * pairs_max):
            if len(chosen) == pairs_max:
                break
            chosen.add(pair)
    pairs = [Pair(named[first][0], named[second][0]) for first, second in sorted(chosen)]
    return ChosenPairs(tuple(sorted(pairs, key=lambda pair: pair.first.file != pair.second.file)), total)


def _random(named: Sequence[NamedFlip], count: int) -> Iterator[tuple[int, int]]:
    """Yield at most `count` pairs of indexes into `named`, some of them more than once."""
    fields: dict[tuple[str, str], list[int]] = {}
    for number, (flip, name) in enumerate(named):
        fields.setdefault((flip.file, name), []).append(number)
    members = list(fields.values())
    generator = np.random.default_rng(SEED)
    chosen = generator.integers(len(members), size=(count, 2)).tolist()
    parts = generator.random((count, 2)).tolist()
    for both in zip(chosen, parts, strict=True):
        first, second = sorted(
            members[field][int(part * len(members[field]))] for field, part in zip(*both, strict=True)
        )
        if first != second:
            yield first, second


def pair_tasks(pairs: Sequence[Pair], size: int) -> Iterator[Task]:
    """Cut the pairs into tasks of at most `size`, each of pairs whose first bit is in one file."""
    for file, group in itertools.groupby(pairs, key=lambda pair: pair.file):
        mine = tuple(group)
        for start in range(0, len(mine), size):
            piece = mine[start : start + size]
            yield Task(file=file, kind=Kind.PAIR, start=0, stop=len(piece), pairs=piece)


def _file_and_bit(named: NamedFlip) -> tuple[str, int]:
    return named[0].file, named[0].bit
