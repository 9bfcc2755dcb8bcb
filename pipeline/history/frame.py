"""Events as frames of Spark, read and written by tasks: Spark's own readers would need jars for each object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.checkers.recorded import EVENT_SCHEMA, NAMES
from tornproof.pipeline.files import Location
from tornproof.pipeline.history.events import SUFFIX, Slice, event_files, read_with_keys, schema_with_keys
from tornproof.pipeline.spark.tasks import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_BATCH = 100_000
_WRITTEN = "file string"


def events_frame(
    spark: SparkSession,
    slices: Sequence[Slice],
    keys: Mapping[str, pa.DataType] | None = None,
    below: Mapping[Location, Mapping[str, str | None]] | None = None,
) -> DataFrame:
    """Return the events of slices, with key columns; each slice is a task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(schema_with_keys(keys or {}))
    read = partial(_read, slices, keys or {}, below or {})
    return spark.range(0, len(slices), 1, max(1, len(slices))).mapInArrow(read, schema)


def _read(
    slices: Sequence[Slice],
    keys: Mapping[str, pa.DataType],
    below: Mapping[Location, Mapping[str, str | None]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    begin_task()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read_with_keys(slices[number], keys, below).to_batches(max_chunksize=ROWS_A_BATCH)


def write_sorted(events: DataFrame, directory: Location) -> list[Location]:
    """Write events sorted by process and sequence as Parquet files, and return these."""
    rows = events.select(*NAMES).sort("process", "sequence")
    rows.mapInArrow(partial(_write, directory, EVENT_SCHEMA), _WRITTEN).collect()
    return event_files([directory])


def _write(directory: Location, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task as a file whose name is the number of the task, as another attempt does."""
    from pyspark import TaskContext

    begin_task()
    context = TaskContext.get()
    assert context is not None
    file = directory / f"part-{context.partitionId():07}{SUFFIX}"
    with file.whole_file() as target, pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
    yield pa.record_batch({"file": pa.array([str(file)])})
