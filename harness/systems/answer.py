"""What a user learns by reading a table, in a form in which two answers are equal only when every bit is."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tornproof.impl.read.reader import Snapshot

_INTEGERS_OF_SAME_WIDTH = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a user learns of a snapshot's parquet partitions: the version, their names, their rows as `bits`."""

    version: int
    names: tuple[str, ...]
    rows: pa.Table


def read_answer(snapshot: Snapshot) -> Answer:
    """Read all parquet partitions of a snapshot."""
    names = tuple(
        snapshot.table.directory_of(partition) for partition in snapshot.transaction.partitions if partition.is_parquet
    )
    fields = [field.with_type(_bits_type(field.type)) for field in snapshot.schema]
    schema = pa.schema(fields)
    batches = [pa.record_batch([bits(array) for array in batch.columns], schema=schema) for batch in snapshot.batches()]
    return Answer(snapshot.transaction.version, names, pa.Table.from_batches(batches, schema=schema))


def bits(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as integers of the same bits: NaN equals itself, and 0.0 is not -0.0."""
    of_bits = _bits_type(values.type)
    return values if of_bits == values.type else values.view(of_bits)


def _bits_type(of: pa.DataType) -> pa.DataType:
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_bits_type(of.value_type)))
    return _INTEGERS_OF_SAME_WIDTH.get(of, of)
