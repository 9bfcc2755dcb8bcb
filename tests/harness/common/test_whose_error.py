"""Whose mistake an exception is."""

from __future__ import annotations

from typing import Any

import pytest

from tornproof.harness.common.whose_error import UnmetError, errors_as_problems, needed, the_only

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


@pytest.mark.parametrize("values", [(), (1, 2)])
def test_of_what_there_must_be_one_another_number_is_a_problem_of_what_is_explored(values: tuple[int, ...]) -> None:
    assert the_only(iter([None])) is None
    with pytest.raises(UnmetError, match=f"there are {len(values)} of what there must be one"):
        the_only(values)
