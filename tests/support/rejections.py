"""What a refused call says."""

from collections.abc import Callable

import pytest

from tornproof.impl.errors import CorruptError, Problem, ProblemError


def rejection(call: Callable[[], object], kind: type[ProblemError] = CorruptError) -> Problem:
    """Demand that `call` raises `kind` and return what the error says."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value.problem
