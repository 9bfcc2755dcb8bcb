"""Whose mistake an exception is: the explorer's own, of what it explores, or of neither, because the disk is full."""

from __future__ import annotations

import errno
import functools
import resource
from collections.abc import Callable, Iterable
from typing import Literal, ParamSpec, TypeVar

from tornproof.impl.errors import TornproofError

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
EXPLORERS = "tornproof.harness.explorers."


class NoRoomError(TornproofError):
    """This machine has no room for the files of what is explored, which says nothing about it."""


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


def is_of_machine(error: BaseException) -> bool:
    """Return whether an exception began with a call of the system that failed for want of room on this machine."""
    begun: BaseException | None = error
    while begun is not None:
        if isinstance(begun, OSError) and _is_without_room(begun.errno):
            return True
        begun = begun.__cause__ or begun.__context__
    return False


def _is_without_room(number: int | None) -> bool:
    # Without a limit (ulimit -f) a file is only too large for who writes far behind its end.
    is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    return number in (errno.ENOSPC, errno.EDQUOT) or (number == errno.EFBIG and is_limited)


def errors_as_problems(problem_of: Callable[Arguments, str | None]) -> Callable[Arguments, str | None]:
    """Return a function that says what is wrong, and takes an exception for that if it is of what is explored."""

    @functools.wraps(problem_of)
    def wrapped(*arguments: Arguments.args, **settings: Arguments.kwargs) -> str | None:
        try:
            return problem_of(*arguments, **settings)
        except Exception as error:
            if is_of_explorers(error) or is_of_machine(error):
                raise
            return f"{type(error).__name__}: {error}"

    return wrapped
