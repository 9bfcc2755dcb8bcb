"""Migration of a tree on Spark, compared with the same in this process.

`python benchmarks/pipeline_migration.py` prints the time of each side, without that of starting the session.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import Row, compare
from pyspark.sql import SparkSession

from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Conversion
from tornproof.impl.migrate.table_migration import TablePlan, convert_table, plan_table, publish_table
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.migration import convert_tables
from tornproof.pipeline.spark.session import spark_session

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
import golden_archive
from legacy_trees import write_legacy_tree

ROUNDS = 3
COPIES, DAYS = 25, 200
WIDE_PARTITIONS, WIDE_COLUMNS, WIDE_GROUPS, GROUP_ROWS = 24, 100, 5, 100
DAY_MICROSECONDS = 86_400_000_000
STORAGE = OperatingSystemStorage()


def migration_rows(spark: SparkSession, golden: Path, folder: Path) -> Iterator[Row]:
    """Yield the comparisons: many small partitions, and wide ones of several row groups."""
    small, wide = folder / "small", folder / "wide"
    write_legacy_tree(golden, small, copies=COPIES, days=DAYS)
    _write_wide(wide / "table")
    yield _compared(spark, small, "500 small partitions in 76 tables")
    yield _compared(spark, wide, f"{WIDE_PARTITIONS} partitions of {WIDE_COLUMNS} columns and {WIDE_GROUPS} row groups")


def _compared(spark: SparkSession, tree: Path, what: str) -> Row:
    """Compare two migrations into a directory beside the tables, which convert every partition each time."""
    found = [plan_table(STORAGE, str(path.parent)) for path in sorted(tree.rglob("_txn"))]
    plans = [plan for plan in found if isinstance(plan, TablePlan)]
    outs = {name: tree.parent / f"{name} of {tree.name}" for name in ("spread", "alone")}

    def spread() -> None:
        converted = convert_tables(spark, plans, ConversionMode.SERVER, keeps_sound=False)
        for index, plan in enumerate(plans):
            _publish(outs["spread"] / str(index), plan, islice(converted, len(plan.partitions)))

    def alone() -> None:
        for index, plan in enumerate(plans):
            converted = convert_table(plan, ConversionMode.SERVER, keeps_sound=False)
            _publish(outs["alone"] / str(index), plan, converted)

    def _publish(out: Path, plan: TablePlan, converted: Iterator[Conversion]) -> None:
        shutil.rmtree(out, ignore_errors=True)
        done = publish_table(STORAGE, plan, converted, dry_run=False, out=str(out))
        assert done.is_complete

    row = compare(f"migrate {what}, local[2]", spread, "the same in one process", alone, rounds=ROUNDS)
    contents = [{str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.pm")} for out in outs.values()]
    assert contents[0] == contents[1] != {}
    return row


def _write_wide(path: Path) -> None:
    path.parent.mkdir(parents=True)
    names = [f"d{index}" for index in range(WIDE_COLUMNS)]
    types = {"ts": TypeTag.TIMESTAMP} | dict.fromkeys(names, TypeTag.DOUBLE)
    columns = [NewColumn(name=name, type=tag) for name, tag in types.items()]
    create_table(STORAGE, str(path), columns, timestamp="ts", partition_by=PartitionBy.DAY)
    count = WIDE_GROUPS * GROUP_ROWS
    values = {name: np.arange(count, dtype=float) for name in names}
    options = WriterOptions(row_group_row_count_max=GROUP_ROWS)
    with open_writer(STORAGE, str(path), options=options, allow_parquet_last=True) as writer:
        for day in range(WIDE_PARTITIONS):
            times = day * DAY_MICROSECONDS + np.arange(count) * (DAY_MICROSECONDS // count)
            writer.write(pa.table({"ts": pa.array(times, pa.timestamp("us")), **values}))
        writer.commit()


def main() -> None:
    """Print one line for each comparison."""
    with tempfile.TemporaryDirectory(prefix="tornproof-bench-") as name, spark_session("local[2]") as spark:
        folder = Path(name)
        golden_archive.unpack(folder / "questdb")
        for row in migration_rows(spark, folder / "questdb", folder):
            print(
                f"{row.what}: {row.ours_ms:,.0f} ms, {row.peer} {row.peer_ms:,.0f} ms: "
                f"{row.times_as_fast:.2f} times as fast"
            )


if __name__ == "__main__":
    main()
