"""What is worked out twice, as a question and its answer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.impl.errors import TornproofError


@dataclass(frozen=True, slots=True)
class Question:
    """What is worked out twice: its kind, the words for it, what the implementation says, and what is right."""

    kind: str
    name: str
    found: Callable[[], Any]
    expected: Any


def ask(kind: str, name: str, expected: Any, call: Callable[..., Any], /, *arguments: Any, **settings: Any) -> Question:
    """Return the question what a call answers to arguments."""
    return Question(kind, name, functools.partial(call, *arguments, **settings), expected)


@errors_as_problems
def problem_of(question: Question) -> str | None:
    """Say what is wrong with an answer; None if it is right."""
    found = question.found()
    return None if found == question.expected else f"{found} instead of {question.expected}"


def outcome_of(call: Callable[[], Any]) -> Any:
    """Return what a call answers, or the name of the error of the implementation."""
    try:
        return call()
    except TornproofError as error:
        return type(error).__name__
