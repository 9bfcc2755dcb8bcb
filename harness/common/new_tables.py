"""New tables with no columns but those that are named, each of its default, and the metadata of changed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.whose_error import needed
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, encode_metadata_file
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.types.names import type_code
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.writer_options import WriterOptions

DEFAULT = WriterOptions()
TIME = "ts"


def new_table(
    storage: Storage, path: str, types: Mapping[str, str], *, partition_by: PartitionBy = PartitionBy.DAY
) -> Table:
    """Create a table whose columns have the types of these names; `ts`, or else the first, is when rows happened."""
    columns = [NewColumn(name=name, type=type_code(of) or 0) for name, of in types.items()]
    timestamp = TIME if TIME in types else columns[0].name
    return create_table(storage, path, columns, timestamp=timestamp, partition_by=partition_by)


def new_table_of_rows(
    storage: Storage,
    path: str,
    types: Mapping[str, str],
    times: Sequence[int],
    *,
    seed: int = 0,
    partition_by: PartitionBy = PartitionBy.DAY,
    options: WriterOptions = DEFAULT,
) -> None:
    """Create such a table and commit generated rows of these times, which depend on their number and the seed."""
    table = new_table(storage, path, types, partition_by=partition_by)
    with open_writer_of_copy(storage, path, options=options) as writer:
        writer.write(rows_for(table, times, seed=seed))
        writer.commit()


def commit_rows(storage: Storage, path: str, rows: pa.Table, *, options: WriterOptions = DEFAULT) -> None:
    """Commit rows in the types of the table's columns."""
    with open_writer_of_copy(storage, path, options=options) as writer:
        writer.write(rows.cast(writer.schema))
        writer.commit()


def commit_prepared(storage: Storage, path: str, prepared: PreparedPartition) -> None:
    """Commit a partition that was prepared elsewhere."""
    with open_writer_of_copy(storage, path) as writer:
        writer.adopt(prepared)
        writer.commit()


def metadata_with(
    storage: ReadableStorage, path: str, change: Callable[[Sequence[TableColumn]], Iterable[TableColumn]]
) -> bytes:
    """Return the `_meta` of a table with other columns, as after a server has changed them."""
    metadata = needed(open_table(storage, path).metadata, "the table has no columns")
    return encode_metadata_file(replace(metadata, columns=tuple(change(metadata.columns))), table_id=1)


def metadata_with_type(storage: ReadableStorage, path: str, name: str, of: str) -> bytes:
    """Return the `_meta` of a table as after a server has changed the type of a column: another one replaces it."""

    def change(columns: Sequence[TableColumn]) -> Iterable[TableColumn]:
        following = 1 + max(each.id for each in columns)
        for each in columns:
            is_changed = each.name == name
            yield replace(each, id=following, type=type_code(of), former_ids=each.ids) if is_changed else each

    return metadata_with(storage, path, change)
