"""Whose mistake an exception is."""

from __future__ import annotations

from typing import Any

import pytest

from tornproof.harness.common.whose_error import errors_as_problems, needed

EXPLORER = """
def problem_of(value):
    needed(value, "there is no value")
    return [][value]
"""


def test_what_an_explorer_needs_is_a_problem_and_its_own_mistake_is_not() -> None:
    module: dict[str, Any] = {"__name__": "tornproof.harness.explorers.one", "needed": needed}
    exec(EXPLORER, module)
    problem_of = errors_as_problems(module["problem_of"])
    assert [problem_of(None), problem_of(False)] == ["UnmetError: there is no value"] * 2
    with pytest.raises(IndexError):
        problem_of(0)


def test_what_is_given_is_returned() -> None:
    assert [needed(value, "") for value in (0, "", True, ())] == [0, "", True, ()]
