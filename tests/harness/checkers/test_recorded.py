import numpy as np
import pytest

from tornproof.harness.checkers import recorded as module


@pytest.mark.parametrize("count", [1, (1 << 15) - 1, 1 << 15, (1 << 16) - 1, 1 << 16])
def test_numbers_stay_the_same_in_as_few_bytes_as_they_need(count: int) -> None:
    numbers = np.arange(count)
    assert np.array_equal(module._small(numbers), numbers)
    assert np.array_equal(module._small(numbers[-3:], count), numbers[-3:])
