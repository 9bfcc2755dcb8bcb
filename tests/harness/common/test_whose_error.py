"""Whose mistake an exception is."""

from __future__ import annotations

import errno
import os
import resource
from typing import Any

import pytest

from tornproof.harness.common.whose_error import UnmetError, errors_as_problems, is_of_machine, needed, the_only
from tornproof.impl.errors import StorageError

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


def error_of_a_writer(number: int) -> Exception:
    """An error of a writer, which met one of its storage when a call of the system had failed."""
    try:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise StorageError("data.parquet", "write", "some reason") from error
    except StorageError:
        try:
            raise KeyError("while it cleaned up")
        except KeyError as error:
            return error


@pytest.mark.parametrize(
    ("number", "limit_bytes", "is_full"),
    [
        (errno.ENOSPC, resource.RLIM_INFINITY, True),
        (errno.EDQUOT, resource.RLIM_INFINITY, True),
        (errno.EFBIG, 1 << 20, True),
        (errno.EFBIG, resource.RLIM_INFINITY, False),
        (errno.EBADF, 1 << 20, False),
    ],
)
def test_a_full_disk_is_the_mistake_of_nobody(
    number: int, limit_bytes: int, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit_bytes, resource.RLIM_INFINITY))
    error = error_of_a_writer(number)
    assert is_of_machine(error) is is_full

    @errors_as_problems
    def problem_of() -> str | None:
        raise error

    if is_full:
        with pytest.raises(KeyError):
            problem_of()
    else:
        assert problem_of() == "KeyError: 'while it cleaned up'"


def test_a_fault_that_is_injected_is_no_full_disk() -> None:
    assert not is_of_machine(StorageError("data.parquet", "write", "no space is left"))
