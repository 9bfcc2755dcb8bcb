"""Whether all rows of one table are in another one, each at least as often, whatever their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.harness.systems.answer import bits


def holds_all(rows: pa.Table, wanted: pa.Table) -> bool:
    """Return whether `rows` has every row of `wanted`, bit by bit; both have one schema."""
    numbers = _numbers(pa.concat_tables([wanted, rows]))
    count = int(numbers.max()) + 1 if len(numbers) else 0
    split = wanted.num_rows
    return bool((np.bincount(numbers[split:], minlength=count) >= np.bincount(numbers[:split], minlength=count)).all())


def _numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Number the rows so that equal ones, and no others, have one number."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        codes = _codes(bits(column.combine_chunks()))
        _, numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    return numbers


def _codes(values: pa.Array) -> npt.NDArray[np.int64]:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_list(values.type):
        # Arrow has no dictionaries of lists.
        values = pa.array(map(repr, values.to_pylist()), pa.large_string())
    indices = values.dictionary_encode().indices
    return np.asarray(indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64) + 1
