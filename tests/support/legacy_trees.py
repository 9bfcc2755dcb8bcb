"""Trees of tables whose partitions have no `_pm`: copies of real ones, and one of our own with many partitions."""

import shutil
from pathlib import Path

import golden_data
import pyarrow as pa

from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer

DAY_MICROSECONDS = 86_400_000_000
FIRST_DAY = 19_723
"""2024-01-01, in days since 1970."""
ROWS_A_DAY = 4
LONG_TABLE = "zz long"


def write_legacy_tree(questdb_data: Path, tree: Path, *, copies: int, days: int) -> None:
    """Write `copies` of every bundled legacy table, and one with a partition for each of so many days."""
    for name in golden_data.LEGACY_TABLES:
        for copy in range(copies):
            shutil.copytree(questdb_data / name / "table", tree / f"{copy:02}" / Path(name).name)
    if days:
        _write_long_table(tree / LONG_TABLE, days)


def _write_long_table(path: Path, days: int) -> None:
    storage = OperatingSystemStorage()
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="price", type=TypeTag.DOUBLE)]
    create_table(storage, str(path), columns, timestamp="ts", partition_by=PartitionBy.DAY)
    steps = range(days * ROWS_A_DAY)
    times = [(FIRST_DAY * ROWS_A_DAY + step) * DAY_MICROSECONDS // ROWS_A_DAY for step in steps]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us")), "price": pa.array(steps, pa.float64())})
    with open_writer(storage, str(path), allow_parquet_last=True) as writer:
        writer.write(rows)
        writer.commit()
    (path / "_pins").unlink()
    table = open_table(storage, str(path))
    for partition in table.transaction().partitions:
        (path / table.directory_of(partition) / "_pm").unlink()
