"""QuestDB's binary arrays become lists, and only sound ones do."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rejections import rejection

from tornproof.impl.errors import CorruptError, ProblemError, RowsRejectedError, UnsupportedError
from tornproof.impl.types import raw_arrays
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.raw_arrays import lists_of, raw_of


def blob(lengths: Sequence[int], elements: Sequence[float]) -> bytes:
    header = struct.pack(f"<{len(lengths)}I", *lengths)
    return header + bytes(-len(header) % 8) + struct.pack(f"<{len(elements)}d", *elements)


def decoded(values: Sequence[bytes | None], dimensions: int) -> pa.Array:
    binary = pa.array(values, pa.binary())
    result = lists_of(binary, dimensions, file="data.parquet", field="values of column 'x'", offset_bytes=4)
    result.validate(full=True)
    return result


def nested(lengths: Sequence[int], elements: Sequence[float]) -> list[Any]:
    return np.array(elements, np.float64).reshape(lengths).tolist()  # type: ignore[no-any-return]


@st.composite
def shaped_arrays(draw: st.DrawFn, dimensions: int) -> tuple[list[int], list[float]]:
    lengths = draw(st.lists(st.integers(0, 4), min_size=dimensions, max_size=dimensions))
    count = int(np.prod(lengths))
    return lengths, draw(st.lists(st.floats(allow_nan=False), min_size=count, max_size=count))


@given(st.data(), st.integers(1, 5))
def test_arrays_of_any_shape_come_back(data: st.DataObject, dimensions: int) -> None:
    arrays = data.draw(st.lists(st.none() | shaped_arrays(dimensions), max_size=6))
    found = decoded([None if array is None else blob(*array) for array in arrays], dimensions)
    assert found.to_pylist() == [None if array is None else nested(*array) for array in arrays]


@pytest.mark.parametrize(
    ("lengths", "expected"), [([0], []), ([0, 3], []), ([2, 0], [[], []]), ([1, 2, 0], [[[], []]]), ([0, 0, 0], [])]
)
def test_empty_arrays_are_lists_and_not_nulls(lengths: list[int], expected: list[Any]) -> None:
    assert decoded([blob(lengths, []), None], len(lengths)).to_pylist() == [expected, None]


def test_no_arrays_at_all_are_no_lists() -> None:
    assert decoded([], 2).to_pylist() == []
    assert decoded([None, None], 2).to_pylist() == [None, None]


def test_values_of_a_slice_are_its_own() -> None:
    binary = pa.array([blob([1], [1.0]), None, blob([2], [2.0, 3.0]), blob([1], [4.0])], pa.binary()).slice(1, 2)
    result = lists_of(binary, 1, file="data.parquet", field="values", offset_bytes=4)
    assert result.to_pylist() == [None, [2.0, 3.0]]


def test_nan_stays_a_value() -> None:
    found = decoded([blob([2], [float("nan"), 1.0])], 1)
    assert found.flatten().null_count == 0
    assert str(found.to_pylist()) == "[[nan, 1.0]]"


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        bytes(4),
        blob([2], [1.0]),
        blob([1], [1.0, 2.0]),
        blob([1], [1.0]) + b"x",
        blob([0xFFFFFFFF], [1.0]),
        struct.pack("<IId", 1, 7, 1.0),
    ],
)
def test_value_of_another_length_than_its_shape_is_corrupt(wrong: bytes) -> None:
    problem = rejection(lambda: decoded([blob([1], [1.0]), wrong], 1))
    assert (problem.field, problem.offset_bytes) == ("values of column 'x'", 4)


def test_shape_whose_product_overflows_is_corrupt() -> None:
    with pytest.raises(CorruptError):
        decoded([blob([0xFFFFFFFF] * 32, [1.0])], 32)


def test_lists_without_elements_are_limited_in_number() -> None:
    assert len(decoded([blob([1 << 12, 0], [])], 2)[0]) == 1 << 12
    with pytest.raises(UnsupportedError):
        decoded([blob([0xFFFFFFFF, 0], [])], 2)
    with pytest.raises(UnsupportedError):
        decoded([blob([1 << 20, 1 << 20, 0], [])], 3)


def test_lists_of_all_levels_together_are_limited_in_number() -> None:
    assert len(decoded([blob([1 << 12] + 30 * [1] + [0], [])], 32)[0]) == 1 << 12
    with pytest.raises(UnsupportedError):
        decoded([blob([1 << 19] + 30 * [1] + [0], [])], 32)


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(1, 32))
def test_any_bytes_are_lists_or_an_error_that_names_the_column(values: list[bytes], dimensions: int) -> None:
    try:
        assert len(decoded(values, dimensions)) == len(values)
    except ProblemError as error:
        assert error.problem.field == "values of column 'x'"


def raw(arrays: list[Any], dimensions: int) -> pa.Array:
    result = raw_of(pa.array(arrays, list_type(dimensions)), dimensions, column="x")
    result.validate(full=True)
    return result


@given(st.data(), st.integers(1, 5))
def test_arrays_are_written_as_they_were_read(data: st.DataObject, dimensions: int) -> None:
    arrays = data.draw(st.lists(st.none() | shaped_arrays(dimensions), max_size=6))
    lists = decoded([None if array is None else blob(*array) for array in arrays], dimensions)
    start = data.draw(st.integers(0, len(arrays)))
    written = raw_of(lists.slice(start), dimensions, column="x")
    written.validate(full=True)
    assert decoded(written.to_pylist(), dimensions).to_pylist() == lists.slice(start).to_pylist()
    for value, array in zip(written.to_pylist(), arrays[start:], strict=True):
        # After a length of 0, lists do not show the other lengths.
        if array is not None and 0 not in array[0]:
            assert value == blob(*array)


@pytest.mark.parametrize(
    ("array", "lengths"), [([], [0, 0]), ([[], []], [2, 0]), ([[1.5, -0.0]], [1, 2]), ([[1.0], [2.0]], [2, 1])]
)
def test_lengths_of_a_written_array_are_those_of_its_lists(array: list[Any], lengths: list[int]) -> None:
    elements = [element for row in array for element in row]
    assert raw([None, array], 2).to_pylist() == [None, blob(lengths, elements)]


def test_null_element_is_written_as_nan() -> None:
    (value,) = raw([[1.0, None]], 1).to_pylist()
    assert value == blob([2], [1.0, float("nan")])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([None, [[1.0], [2.0, 3.0]]], "row 1: expected lists of 1 .* dimension 2 .* found one of 2"),
        ([[[1.0]], [[1.0], []]], "row 1: .* dimension 2"),
        ([[[]], [[1.0], None]], "row 1: expected no null inside of an array"),
    ],
)
def test_lists_that_are_no_array_are_rejected_by_row(arrays: list[Any], message: str) -> None:
    # Without the type's promise that inner lists are not null, which pyarrow would keep here.
    lists = pa.array(arrays, pa.list_(pa.list_(pa.float64())))
    with pytest.raises(RowsRejectedError, match=f"column 'x', {message}"):
        raw_of(lists, 2, column="x")


def test_arrays_that_need_more_bytes_than_arrow_can_count_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [[1.0], [2.0]]
    monkeypatch.setattr(raw_arrays, "BINARY_MAX_BYTES", 32)
    assert len(raw(arrays, 1)) == 2
    monkeypatch.setattr(raw_arrays, "BINARY_MAX_BYTES", 31)
    with pytest.raises(RowsRejectedError, match="at most 31 bytes of arrays, found 32"):
        raw(arrays, 1)
