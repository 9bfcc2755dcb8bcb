"""New tables by day on disk, as tests of the pipeline need them: Spark reads no simulated disk."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import (
    META_FILE,
    PartitionBy,
    TableColumn,
    encode_metadata_file,
    read_metadata_file,
)
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.datasource.staging import STAGING_PREFIX
from tornproof.pipeline.datasource.writer import Target


def new_table(path: Path, types: Mapping[str, int], *, keys: Collection[str] = ()) -> Path:
    """Create a table of the designated timestamp `ts` and columns of these types, and return its path."""
    columns = [
        NewColumn(name=name, type=of, is_dedup_key=name in keys)
        for name, of in {"ts": TypeTag.TIMESTAMP, **types}.items()
    ]
    create_table(OperatingSystemStorage(), str(path), columns, timestamp="ts", partition_by=PartitionBy.DAY)
    return path


def change_columns(path: Path, *, drop: str = "", add: tuple[str, int]) -> None:
    """Leave the `_meta` that a server's ALTER TABLE leaves: another type is a column with an id of its own, too."""
    columns = columns_of(path)
    kept = [column for column in columns if column.name != drop]
    name, of = add
    set_columns(path, [*kept, TableColumn(id=columns[-1].id + 1, name=name, type=of)])


def rename_column(path: Path, before: str, after: str) -> None:
    """Leave the `_meta` of a table whose column has another name."""
    set_columns(path, [replace(each, name=after) if each.name == before else each for each in columns_of(path)])


def columns_of(path: Path) -> Sequence[TableColumn]:
    """Return the columns in the `_meta` of a table."""
    return read_metadata_file(OperatingSystemStorage(), str(path / META_FILE)).columns


def set_columns(path: Path, columns: Sequence[TableColumn]) -> None:
    """Write `_meta` with these columns."""
    metadata = read_metadata_file(OperatingSystemStorage(), str(path / META_FILE))
    (path / META_FILE).write_bytes(encode_metadata_file(replace(metadata, columns=tuple(columns)), table_id=1))


def version_of(path: Path) -> int:
    """Return the committed version of a table."""
    return open_table(OperatingSystemStorage(), str(path)).transaction().version


def target_of(path: Path, **settings: Any) -> Target:
    """Return what a job writes to."""
    return Target(path=str(path), allow_parquet_last=True, **settings)


def staging_of(path: Path) -> list[str]:
    """Return the names of what jobs have staged in a table."""
    return sorted(entry.name for entry in path.iterdir() if entry.name.startswith(STAGING_PREFIX))
