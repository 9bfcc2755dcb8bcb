"""The rows of a large partition are one row of the model, equal only to that of the same rows."""

import pyarrow as pa
import pytest

from tornproof.harness.systems.table_specification import _whole


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [([1, 2, 3], True), ([1, 2, 4], False), ([2, 1, 3], False), ([1, 2, None], False), ([1, 2], False)],
)
def test_rows_are_equal_as_a_whole_only_if_each_is(other: list[int | None], is_equal: bool) -> None:
    chunks = pa.chunked_array([pa.array(other[:1]), pa.array(other[1:])])
    assert (_whole(pa.table({"v": [1, 2, 3]})) == _whole(pa.table({"v": chunks}))) is is_equal
