"""What a commit changes of `_cv`: in the partitions that it writes no row is older than a column.

A server reads such a partition by data.parquet alone, but makes it native again by `_cv`, and would then leave out the
values of rows that are older than their column.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.column_versions import (
    CV_FILE,
    ColumnVersions,
    plan_column_versions,
    read_column_versions,
    read_file,
)
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.txn.write import StorePlan


class ColumnTops:
    """The first rows of columns, as a writer's commits leave them; `_cv` is read again only if it has changed."""

    def __init__(self, table: Table) -> None:
        """Read nothing yet."""
        self._table = table
        self._path = f"{table.path}/{CV_FILE}"
        self._known: tuple[int, ColumnVersions] | None = None

    def plan(
        self, transaction: Transaction, row_counts: Mapping[int, int], *, dropped: Set[int], written: Set[int]
    ) -> StorePlan | None:
        """Return how the next version of `_cv` is stored, None if nothing changes.

        `row_counts` are those of the next version's partitions, by their starts. Raises CorruptError, UnsupportedError,
        StorageError.
        """
        version = transaction.record.column_version
        known = self._committed(version)
        columns = () if self._table.metadata is None else self._table.metadata.columns
        following = known.after(
            row_counts, dropped=dropped, written=written, column_ids=[column.id for column in columns]
        )
        if following == known:
            return None
        return plan_column_versions(read_file(self._table.storage, self._path), following, version=version)

    def _committed(self, version: int) -> ColumnVersions:
        if self._known is None or self._known[0] != version:
            self._known = version, self._read(version)
        return self._known[1]

    def _read(self, version: int) -> ColumnVersions:
        # Of version 0 it is as it was made, without entries, as in nearly all tables; a mere copy of commits has none.
        if version == 0 or self._table.storage.kind(self._path) is EntryKind.MISSING:
            return ColumnVersions({})
        return read_column_versions(self._table.storage, self._path, version=version)
