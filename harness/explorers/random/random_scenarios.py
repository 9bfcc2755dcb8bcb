"""Random scenarios that can be executed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tornproof.harness.systems.scenario import FORMAT, At, Commit, Explorer, ReaderGroup, Rows, Scenario, Style

COMMITS_MAX, READERS_MAX, HOURS = 3, 2, 3
KINDS = ("append", "merge", "new", "several", "rewrite", "drop", "abandon", "purge")


def one_of(choices: Iterable[Any], chance: np.random.Generator) -> Any:
    """Return one of some choices, each with the same probability."""
    listed = list(choices)
    return listed[int(chance.integers(len(listed)))]


def random_scenario(chance: np.random.Generator) -> Scenario:
    """Generate commits that a table accepts in this order, and readers; a second session only adds rows."""
    present = {0}
    first = tuple(_commit(chance, present) for _ in range(_up_to(COMMITS_MAX, chance)))
    second = (Commit(rows=(_rows(chance, {0}),)),) if _is_so(chance) else ()
    readers = ReaderGroup(style=one_of(Style, chance), count=_up_to(READERS_MAX, chance), reads=_up_to(2, chance))
    return Scenario(
        format=FORMAT,
        title="random",
        explorers=(Explorer.PRODUCT,),
        start=(Commit(rows=(Rows(hour=0, count=_up_to(3, chance)),)),),
        first=first,
        second=second,
        readers=(readers,),
    )


def _commit(chance: np.random.Generator, present: set[int]) -> Commit:
    kind = one_of(KINDS, chance)
    hour = one_of(sorted(present), chance)
    match kind:
        case "merge":
            return Commit(rows=(Rows(hour=hour, at=one_of((At.MIDDLE, At.START), chance)),))
        case "new" | "several":
            new = one_of(range(HOURS), chance)
            present.add(new)
            rows = {each: Rows(hour=each) for each in ((new, hour) if kind == "several" else (new,))}
            return Commit(rows=tuple(rows.values()))
        case "rewrite":
            return Commit(rewrite=(hour,), purge=_is_so(chance))
        case "drop" if len(present) > 1:
            present.discard(hour)
            return Commit(drop=(hour,), purge=_is_so(chance))
        case "abandon":
            return Commit(rows=(_rows(chance, present),), abandon=True)
        case "purge":
            return Commit(rows=(_rows(chance, present),), purge=True)
    return Commit(rows=(_rows(chance, present),))


def _rows(chance: np.random.Generator, present: set[int]) -> Rows:
    return Rows(hour=one_of(sorted(present), chance), count=_up_to(12, chance))


def _up_to(largest: int, chance: np.random.Generator) -> int:
    return int(chance.integers(1, largest + 1))


def _is_so(chance: np.random.Generator) -> bool:
    return bool(chance.integers(2))
