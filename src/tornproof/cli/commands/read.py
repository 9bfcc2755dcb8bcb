"""`tornproof read TABLE`: the rows of the committed version's parquet partitions, all or a selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import typer

from tornproof.api.steady import until_stable
from tornproof.cli.csv_text import csv_bytes, text_batch, text_schema
from tornproof.cli.output import JsonOption, check_outputs, complain, print_bytes, replacing, write_json
from tornproof.cli.progress import progress_bar
from tornproof.impl.errors import BusyError, TornproofError, UsageError, counted
from tornproof.impl.query.pruning import Reason
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table

NATIVE_SHOWN = 20
REASONS_IN_WORDS = {
    Reason.TIME: "by their times",
    Reason.NULLS: "by null counts",
    Reason.STATISTICS: "by statistics",
    Reason.BLOOM_FILTER: "by bloom filters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was read, and the cost."""

    snapshot: Snapshot
    schema: pa.Schema
    row_count: int
    counters: ReadCounters


class _StoppedError(Exception):
    """What ended a read after rows had left, so that it cannot be tried again; `version` is that of these rows."""

    def __init__(self, cause: Exception, version: int, row_count: int) -> None:
        super().__init__(cause)
        self.cause, self.version, self.row_count = cause, version, row_count


def read(
    table: Annotated[str, typer.Argument(help="Directory of a table, also one that a server is writing to.")],
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Columns to return, in this order.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TS", help="First time, inclusive.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TS", help="Last time, exclusive.")] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Rows to return, such as \"price > 10 AND sym IN ('A', 'B')\"."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print which row groups were not read and why, on standard error.")
    ] = False,
    out: Annotated[
        str, typer.Option(metavar="FILE.parquet|FILE.csv|-", help="Where the rows go; - is CSV on standard output.")
    ] = "-",
    json_target: JsonOption = None,
) -> None:
    """Return the rows of the committed version's parquet partitions; native partitions are named and left out."""
    suffix = Path(out).suffix if out != "-" else ".csv"
    if suffix not in (".parquet", ".csv"):
        raise UsageError(f"--out {out}: give a name that ends in .parquet or .csv, or - for CSV on standard output")
    check_outputs(out, json_target)
    storage = OperatingSystemStorage()
    names = columns.split(",") if columns is not None else None

    def attempt() -> Result:
        snapshot = open_snapshot(open_table(storage, table))
        times = snapshot.time_range(start, end)
        schema = snapshot.schema_of(snapshot.selected(names))
        counters = ReadCounters()
        with by_threads() as decoding:
            batches = snapshot.batches(names, times, snapshot.condition(where), counters, decoding)
            if out == "-":
                row_count = _print(batches, schema, snapshot.transaction.version)
            else:
                row_count = _write(batches, schema, Path(out))
        return Result(snapshot=snapshot, schema=schema, row_count=row_count, counters=counters)

    try:
        result = until_stable(storage, table, attempt, lambda _: None, say=complain)
    except _StoppedError as stopped:
        complain(f"only the first {counted(stopped.row_count, 'row')} were written")
        if open_table(storage, table).transaction().version != stopped.version:
            raise BusyError(f"{table}: it was changed while it was read; try again: {stopped.cause}") from stopped
        raise stopped.cause from stopped
    native = result.snapshot.native_partitions
    native_rows = [each.row_count for each in result.snapshot.transaction.partitions if not each.is_parquet]
    for name, row_count in list(zip(native, native_rows, strict=True))[:NATIVE_SHOWN]:
        complain(f"left out: {name} is a native partition ({counted(row_count, 'row')})")
    if len(native) > NATIVE_SHOWN:
        complain(f"left out: {len(native) - NATIVE_SHOWN} more native partitions (--json lists them all)")
    if explain:
        for line in _explanation(result.counters):
            complain(line)
    cost = {"cost": _cost(result.counters)} if explain or where is not None else {}
    write_json({**_summary(result), **cost}, json_target)


def _print(batches: Iterator[pa.RecordBatch], schema: pa.Schema, version: int) -> int:
    """Print each batch once it is read, and return the row count; raises _StoppedError if a later one is not."""
    row_count = 0
    with progress_bar() as progress:
        task = progress.add_task("rows", total=None)
        try:
            for batch in batches:
                if batch.num_rows:
                    print_bytes(csv_bytes(batch, has_header=not row_count))
                    row_count += batch.num_rows
                    progress.update(task, advance=batch.num_rows)
        except TornproofError as error:
            if row_count:
                raise _StoppedError(error, version, row_count) from error
            raise
        if not row_count:
            print_bytes(csv_bytes(pa.RecordBatch.from_pylist([], schema), has_header=True))
    return row_count


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, out: Path) -> int:
    """Write the batches and return their row count; a read that fails half way leaves the file as it was."""
    # pyarrow takes no name that is not UTF-8.
    with replacing(out) as partial, partial.open("wb") as file:
        if out.suffix == ".csv":
            return _write_batches(pa_csv.CSVWriter(file, text_schema(schema)), batches, as_text=True)
        # This imports the file systems of clouds and TLS, which takes as long as reading a small table.
        import pyarrow.parquet as pq

        return _write_batches(pq.ParquetWriter(file, schema), batches, as_text=False)


def _write_batches(writer: Any, batches: Iterator[pa.RecordBatch], *, as_text: bool) -> int:
    row_count = 0
    with progress_bar() as progress, writer:
        task = progress.add_task("rows", total=None)
        for batch in batches:
            writer.write_batch(text_batch(batch) if as_text else batch)
            row_count += batch.num_rows
            progress.update(task, advance=batch.num_rows)
    return row_count


def _explanation(counters: ReadCounters) -> Iterator[str]:
    """Yield three lines that say what was read and what was skipped."""
    pruned = ", ".join(f"{counters.pruned[reason]} {REASONS_IN_WORDS[reason]}" for reason in Reason)
    yield f"row groups: {counters.kept_row_group_count} of {counters.row_group_count} read; left out: {pruned}"
    yield f"rows: {counters.returned_row_count:,} returned of {counters.scanned_row_count:,} in these row groups"
    yield (
        f"data.parquet: {counters.read_bytes:,} of {counters.data_bytes:,} bytes read ({_percentage(counters):.2f} %), "
        f"{counters.chunk_count:,} column chunks decoded"
    )


def _percentage(counters: ReadCounters) -> float:
    return 100 * counters.read_bytes / counters.data_bytes if counters.data_bytes else 0.0


def _cost(counters: ReadCounters) -> dict[str, Any]:
    return {
        "row_groups": counters.row_group_count,
        "row_groups_read": counters.kept_row_group_count,
        "row_groups_left_out": {reason.value.replace(" ", "_"): counters.pruned[reason] for reason in Reason},
        "rows_in_row_groups_read": counters.scanned_row_count,
        "column_chunks_decoded": counters.chunk_count,
        "data_bytes": counters.data_bytes,
        "data_bytes_read": counters.read_bytes,
        "data_percent_read": round(_percentage(counters), 4),
    }


def _summary(result: Result) -> dict[str, Any]:
    snapshot = result.snapshot
    return {
        "format": 1,
        "table": snapshot.table.path,
        "version": snapshot.transaction.version,
        "rows": result.row_count,
        "columns": [{"name": field.name, "type": str(field.type)} for field in result.schema],
        "native_partitions": list(snapshot.native_partitions),
        "native_rows": snapshot.native_row_count,
    }
