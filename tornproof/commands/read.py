"""`tornproof read TABLE`: the rows of the committed snapshot's parquet partitions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer

from impl.operating_system import OperatingSystemStorage
from impl.reader import Snapshot, TimeRange, UnknownColumnError, open_snapshot
from impl.table import open_table
from tornproof.csv_text import text_batch, text_schema
from tornproof.output import JsonOption, UsageError, complain, copy_to_stdout, progress_bar, replacing, write_json
from tornproof.steady import steadily

NATIVE_SHOWN = 20
SPOOL_BYTES = 64 * 1024 * 1024


def read(
    table: Annotated[str, typer.Argument(help="Directory of a table, also one that a server is writing to.")],
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Columns to return, in this order.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TS", help="First time, inclusive.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TS", help="Last time, exclusive.")] = None,
    out: Annotated[
        str, typer.Option(metavar="FILE.parquet|FILE.csv|-", help="Where the rows go; - is CSV on standard output.")
    ] = "-",
    json_target: JsonOption = None,
) -> None:
    """Return the rows of the committed version's parquet partitions; native partitions are named and left out."""
    suffix = Path(out).suffix if out != "-" else ".csv"
    if suffix not in (".parquet", ".csv"):
        raise UsageError(f"--out {out}: give a name that ends in .parquet or .csv, or - for CSV on standard output")
    if out == json_target == "-":
        raise UsageError("--out - and --json - cannot both have standard output")
    storage = OperatingSystemStorage()
    names = columns.split(",") if columns is not None else None

    def attempt() -> tuple[Snapshot, pa.Schema, int]:
        snapshot = open_snapshot(open_table(storage, table))
        times = TimeRange(start=_timestamp(snapshot, start), end=_timestamp(snapshot, end))
        schema = snapshot.schema_of(snapshot.selected(names))
        return snapshot, schema, _write(snapshot.batches(names, times), schema, out, suffix)

    snapshot, schema, row_count = steadily(storage, table, attempt, lambda _: None)
    native = snapshot.native_partitions
    for name in native[:NATIVE_SHOWN]:
        complain(f"left out: {name} is a native partition")
    if len(native) > NATIVE_SHOWN:
        complain(f"left out: {len(native) - NATIVE_SHOWN} more native partitions (--json lists them all)")
    write_json(_summary(snapshot, row_count, schema), json_target)


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, out: str, suffix: str) -> int:
    """Write the batches and return their rows; the rows of a read that fails half way go nowhere."""
    if out == "-":
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            row_count = _write_batches(pa_csv.CSVWriter(spool, text_schema(schema)), batches, as_text=True)
            spool.seek(0)
            copy_to_stdout(spool)
        return row_count
    with replacing(Path(out)) as partial:
        if suffix == ".csv":
            return _write_batches(pa_csv.CSVWriter(partial, text_schema(schema)), batches, as_text=True)
        return _write_batches(pq.ParquetWriter(partial, schema), batches, as_text=False)


def _write_batches(writer: Any, batches: Iterator[pa.RecordBatch], *, as_text: bool) -> int:
    row_count = 0
    with progress_bar() as progress, writer:
        task = progress.add_task("rows", total=None)
        for batch in batches:
            writer.write_batch(text_batch(batch) if as_text else batch)
            row_count += batch.num_rows
            progress.update(task, advance=batch.num_rows)
    return row_count


def _timestamp(snapshot: Snapshot, text: str | None) -> int | None:
    """Return a time as the designated timestamp counts it; times without zone are UTC, as in the table."""
    if text is None:
        return None
    for column in snapshot.columns:
        if column.id == snapshot.timestamp_id:
            try:
                naive = pa.scalar(text.strip().removesuffix("Z")).cast(pa.timestamp(column.arrow_type.unit))
            except pa.ArrowInvalid as error:
                raise UsageError(f"{text!r} is no time; write 2024-01-31 or 2024-01-31T12:30:00.5") from error
            return int(naive.value)
    raise UnknownColumnError("the table has no designated timestamp to select a time range by")


def _summary(snapshot: Snapshot, row_count: int, schema: pa.Schema) -> dict[str, Any]:
    return {
        "format": 1,
        "table": snapshot.table.path,
        "version": snapshot.transaction.version,
        "rows": row_count,
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "native_partitions": list(snapshot.native_partitions),
    }
