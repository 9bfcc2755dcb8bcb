"""A number in evidence is an integer as it stands there, and nothing that Python would take for one."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tornproof.harness.common.read_numbers import count_of, integer_of


@pytest.mark.parametrize("read", [integer_of, count_of])
@pytest.mark.parametrize("value", [True, False, 1.0, 0.5, "1", b"1", None, [1], np.int64(1), Fraction(1)], ids=repr)
def test_what_is_no_integer_is_rejected_even_if_it_is_equal_to_one(read: Callable[[object], int], value: Any) -> None:
    with pytest.raises(ValueError, match="expected an integer, found "):
        read(value)


def test_integers_are_read_as_they_are_and_a_count_is_not_negative() -> None:
    numbers = [0, 1, 1 << 70]
    assert [*map(integer_of, [*numbers, -1])] == [*numbers, -1] and [*map(count_of, numbers)] == numbers
    with pytest.raises(ValueError, match="expected a count, found -1"):
        count_of(-1)
