"""Which cases of a test are tried always, and which in the nightly run only."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

PARAMETERS = type(pytest.param())


def nightly(*values: Any, id: str | None = None) -> Any:
    """Return the case of a parametrized test that only the nightly run tries."""
    return pytest.param(*values, marks=pytest.mark.nightly, id=id)


def always_if(is_tried_always: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Return single values as cases, of which all but some are for the nightly run only."""
    return [case if is_tried_always(case) else nightly(case) for case in cases]


def drawn(count: int, cases: Sequence[Any], *, seed: int = 0) -> list[Any]:
    """Return so many of the cases, drawn by seed."""
    return random.Random(seed).sample(cases, count)


def sampled(
    count: int, cases: Sequence[Any], *, seed: int = 0, besides: Callable[[Any], bool] = lambda case: False
) -> list[Any]:
    """Return single values or tuples of values as cases, all but so many of which, drawn by seed, are for the night.

    What is tried always besides, such as cases that take no time, and what is for the night already are not among those
    that are drawn from.
    """
    others = [number for number, case in enumerate(cases) if not _is_nightly(case) and not besides(case)]
    always = {*range(len(cases))} - {*others} | {*drawn(min(count, len(others)), others, seed=seed)}
    return [case if number in always else _by_night(case) for number, case in enumerate(cases)]


def _is_nightly(case: Any) -> bool:
    return isinstance(case, PARAMETERS) and any(mark.name == "nightly" for mark in case.marks)


def _by_night(case: Any) -> Any:
    if isinstance(case, PARAMETERS):
        return pytest.param(*case.values, marks=pytest.mark.nightly, id=case.id)
    return nightly(*case) if isinstance(case, tuple) else nightly(case)
