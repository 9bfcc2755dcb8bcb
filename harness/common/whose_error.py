"""Whose mistake an exception is: the explorer's own, or of what it explores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Literal, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
EXPLORERS = "tornproof.harness.explorers."


class UnmetError(Exception):
    """What is explored did not do what an explorer needs to go on, which is a problem of it."""


def needed(value: Value | Literal[False] | None, words: str) -> Value:
    """Return a value that what is explored must give; raises UnmetError with the words if it is None or False."""
    if value is None or value is False:
        raise UnmetError(words)
    return value


def the_only(values: Iterable[Value]) -> Value:
    """Return the one value that what is explored must give; raises UnmetError if there are none or several."""
    found = [*values]
    if len(found) != 1:
        raise UnmetError(f"there are {len(found)} of what there must be one")
    return found[0]


def is_of_explorers(error: Exception) -> bool:
    """Return whether an exception was raised by a line of an explorer itself, not by what it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals["__name__"]).startswith(EXPLORERS)


def errors_as_problems(problem_of: Callable[Arguments, str | None]) -> Callable[Arguments, str | None]:
    """Return a function that says what is wrong, and takes an exception for that unless it is an explorer's own."""

    @functools.wraps(problem_of)
    def wrapped(*arguments: Arguments.args, **settings: Arguments.kwargs) -> str | None:
        try:
            return problem_of(*arguments, **settings)
        except Exception as error:
            if is_of_explorers(error):
                raise
            return f"{type(error).__name__}: {error}"

    return wrapped
