"""New tables by day on disk, as tests of the pipeline need them: Spark reads no simulated disk."""

from collections.abc import Collection, Mapping
from pathlib import Path

from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag


def new_table(path: Path, types: Mapping[str, int], *, keys: Collection[str] = ()) -> Path:
    """Create a table of the designated timestamp `ts` and columns of these types, and return its path."""
    columns = [
        NewColumn(name=name, type=of, is_dedup_key=name in keys)
        for name, of in {"ts": TypeTag.TIMESTAMP, **types}.items()
    ]
    create_table(OperatingSystemStorage(), str(path), columns, timestamp="ts", partition_by=PartitionBy.DAY)
    return path
