"""New tables with no columns but those that are named, each of its default."""

from __future__ import annotations

from collections.abc import Mapping

from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table
from tornproof.impl.types.names import type_code


def new_table(
    storage: Storage, path: str, types: Mapping[str, str], *, partition_by: PartitionBy = PartitionBy.DAY
) -> Table:
    """Create a table whose columns have the types of these names; the first one is the designated timestamp."""
    columns = [NewColumn(name=name, type=type_code(of) or 0) for name, of in types.items()]
    return create_table(storage, path, columns, timestamp=columns[0].name, partition_by=partition_by)
