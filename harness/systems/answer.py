"""The rows of a snapshot as a user reads them, in a form in which equal answers have equal bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.impl.query.time_search import ALL_TIMES, TimeRange
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.table import open_table

_INTEGERS_OF_SAME_WIDTH = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of a snapshot's parquet partitions: the version, their names, their rows as `bits`."""

    version: int
    names: tuple[str, ...]
    rows: pa.Table


def read_answer(snapshot: Snapshot) -> Answer:
    """Read all parquet partitions of a snapshot."""
    names = tuple(
        snapshot.table.directory_of(partition) for partition in snapshot.transaction.partitions if partition.is_parquet
    )
    return Answer(snapshot.transaction.version, names, read_rows(snapshot))


def answer_of(storage: ReadableStorage, path: str) -> Answer:
    """Read all parquet partitions of the committed version of the table at `path`."""
    return read_answer(open_snapshot(open_table(storage, path)))


def read_rows(snapshot: Snapshot, names: list[str] | None = None, times: TimeRange = ALL_TIMES) -> pa.Table:
    """Read some columns of the rows of a range of times as `bits`."""
    fields = snapshot.schema_of(snapshot.selected(names))
    schema = pa.schema([field.with_type(_bits_type(field.type)) for field in fields])
    batches = [
        pa.record_batch([bits(array) for array in batch.columns], schema=schema)
        for batch in snapshot.batches(names, times)
    ]
    return pa.Table.from_batches(batches, schema=schema)


def bits(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as integers of the same bits: NaN equals itself, and 0.0 is not -0.0."""
    of_bits = _bits_type(values.type)
    return values if of_bits == values.type else values.view(of_bits)


def _bits_type(of: pa.DataType) -> pa.DataType:
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_bits_type(of.value_type)))
    return _INTEGERS_OF_SAME_WIDTH.get(of, of)


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
