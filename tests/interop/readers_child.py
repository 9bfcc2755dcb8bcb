"""One reader of Parquet on some files: a line of JSON for each, in a process of its own, which it may crash.

It runs in environments without tornproof: `python readers_child.py READER FILTER_COLUMN FILTER_FROM FILE...`.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

Rows = list[list[Any]]
MESSAGE_LENGTH = 140
INCIDENTAL = re.compile(r"An error occurred while calling \S+ : |JoinError::Panic\(Id\(\d+\), | LINE 1: .*")
"""What differs from run to run, or says nothing about the file."""


def plain(rows: Iterable[Iterable[Any]]) -> Rows:
    """Return rows of numbers, texts and None alone."""
    return [[plain_value(value) for value in row] for row in rows]


def plain_value(value: Any) -> Any:
    """Return a number as a float, anything else as a text, and None for what stands for a null."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str | bytes):
        return value.decode() if isinstance(value, bytes) else value
    return float(value)


def read_with_pyarrow(path: str, column: str, low: int) -> tuple[Rows, int]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    filtered = pq.read_table(path, filters=[(column, ">=", low)])
    return plain(zip(*(each.to_pylist() for each in table.columns), strict=True)), filtered.num_rows


def read_with_duckdb(path: str, column: str, low: int) -> tuple[Rows, int]:
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute("SELECT * FROM read_parquet(?)", [path]).fetchall()
        query = f"SELECT count(*) FROM read_parquet(?) WHERE {column} >= ?"
        filtered = connection.execute(query, [path, low]).fetchall()
    return plain(rows), filtered[0][0]


def read_with_polars(path: str, column: str, low: int) -> tuple[Rows, int]:
    import polars

    filtered = polars.scan_parquet(path).filter(polars.col(column) >= low).collect()
    return plain(polars.read_parquet(path).rows()), filtered.height


SESSION: list[Any] = []


def read_with_spark(path: str, column: str, low: int) -> tuple[Rows, int]:
    from pyspark.sql import SparkSession

    if not SESSION:
        builder: Any = SparkSession.builder
        SESSION.append(builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate())
        SESSION[0].sparkContext.setLogLevel("OFF")
    frame = SESSION[0].read.parquet(path)
    return plain(map(tuple, frame.collect())), frame.filter(frame[column] >= low).count()


def read_with_fastparquet(path: str, column: str, low: int) -> tuple[Rows, int]:
    import fastparquet  # type: ignore[import-not-found]

    frame = fastparquet.ParquetFile(path).to_pandas()
    # It only leaves out row groups by filters, so rows are compared here.
    return plain(frame.itertuples(index=False)), int((frame[column] >= low).sum())


def read_with_datafusion(path: str, column: str, low: int) -> tuple[Rows, int]:
    import datafusion  # type: ignore[import-not-found]

    context = datafusion.SessionContext()
    context.register_parquet("file", path)
    batches = context.sql("SELECT * FROM file").collect()
    rows = [row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True)]
    filtered = context.sql(f'SELECT * FROM file WHERE "{column}" >= {low}').collect()
    return plain(rows), sum(batch.num_rows for batch in filtered)


READERS: dict[str, Callable[[str, str, int], tuple[Rows, int]]] = {
    "pyarrow": read_with_pyarrow,
    "DuckDB": read_with_duckdb,
    "Polars": read_with_polars,
    "Spark": read_with_spark,
    "fastparquet": read_with_fastparquet,
    "parquet-rs": read_with_datafusion,
}
MODULES = {
    "pyarrow": "pyarrow",
    "DuckDB": "duckdb",
    "Polars": "polars",
    "Spark": "pyspark",
    "fastparquet": "fastparquet",
    "parquet-rs": "datafusion",
}


def answer_of(reader: str, column: str, low: int, path: str) -> dict[str, Any]:
    """Return what a file gives: its rows, and the count of those behind a filter, or an error."""
    try:
        rows, filtered = READERS[reader](path, column, low)
    except BaseException as error:
        text = INCIDENTAL.sub("", " ".join(str(error).replace(path, "FILE").split()))
        return {"error": f"{type(error).__name__}: {text}"[:MESSAGE_LENGTH]}
    return {"rows": sorted(rows, key=lambda row: row[-1]), "filtered": filtered}


def main(reader: str, column: str, low: str, *paths: str) -> None:
    """Print what each file gives."""
    for path in paths:
        print(json.dumps(answer_of(reader, column, int(low), path)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
