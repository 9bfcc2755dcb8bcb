"""Whose mistake an exception is: the explorer's own, or of what it explores."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

Arguments = ParamSpec("Arguments")
EXPLORERS = "tornproof.harness.explorers."


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
