"""The source on a cluster of two executors, one of which, or the driver, is killed in the middle of a task.

`python source_jobs.py CHECKOUT FOLDER executor|driver|none`: writes a batch into FOLDER/table, reads it in each way,
and prints what came of it as JSON. A driver that is to be killed is killed once, while tasks write.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

import pyarrow as pa

from tornproof.pipeline.datasource.committed_files import add_addresses, address_of
from tornproof.pipeline.datasource.scan import scan
from tornproof.pipeline.datasource.source import by_partition, register
from tornproof.pipeline.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLUSTER = "local-cluster[2,1,1024]"
ROW_COUNT = 240
OPTIONS = {"query": "hours", "batch": "0", "allow_parquet_last": "true"}


def killing(
    mark: Path, process_of: Callable[[], int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what passes rows on and kills a process once, in the first task, behind its first rows."""

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for batch in batches:
            yield batch
            if context is not None and context.partitionId() == 0 and not mark.exists():
                mark.write_text("killed")
                os.kill(process_of(), signal.SIGKILL)

    return kill_once


def executor_process() -> int:
    """Return the Java of the executor: a worker is forked by a daemon, which that has started."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def main(folder: Path, victim: str) -> None:
    table = str(folder / "table")
    with spark_session(CLUSTER, settings={"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "1g"}) as spark:
        register(spark)
        add_addresses(spark)
        java: Any = spark._jvm
        driver = int(java.ProcessHandle.current().pid())

        def deadly(frame: DataFrame, what: str) -> DataFrame:
            if victim == "none":
                return frame
            process_of = executor_process if victim == "executor" else lambda: driver
            return frame.mapInArrow(killing(folder / f"killed {victim} while {what}", process_of), frame.schema)

        hours = spark.range(ROW_COUNT).selectExpr("timestamp_micros(id * 3600000000) ts", "id v")
        clustered = deadly(by_partition(hours, table), "writing")
        clustered.write.format("tornproof").mode("append").options(**OPTIONS).save(table)
        found: dict[str, Any] = {"process": driver}
        frame = spark.read.format("tornproof").option("splits", "4").load(table)
        found["format"] = sums_of(deadly(frame, "reading") if victim == "executor" else frame)
        with scan(spark, table) as frame:
            found["scan"] = sums_of(deadly(frame, "scanning") if victim == "executor" else frame)
        found["address"] = sums_of(spark.read.parquet(address_of(table)))
    print(json.dumps(found))


def sums_of(frame: DataFrame) -> list[int]:
    (row,) = frame.selectExpr("count(*)", "count(distinct v)", "sum(v)").collect()
    return list(row)


if __name__ == "__main__":
    main(Path(sys.argv[2]), sys.argv[3])
