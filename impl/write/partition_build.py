"""A new partition written by row groups, without the writer, into a directory that no version names.

Memory is bounded by a row group, not by the partition. A commit adds the directory to the table (`adoption.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack

import pyarrow as pa

from tornproof.impl import limits
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup, encode_row_group
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.extension.footer import extended_footer
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, FooterForm
from tornproof.impl.parquet.footer import SortingColumn, file_tail
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.storage.interface import File, OpenMode, Storage
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import reject_long_geohashes
from tornproof.impl.write.partition_writer import new_footer
from tornproof.impl.write.stored_arrays import NO_SYMBOLS, stored_table
from tornproof.impl.write.writer_options import DEFAULT_OPTIONS, WriterOptions, check_options, encode_options


class PartitionBuild(AbstractContextManager["PartitionBuild"]):
    """Writes the files of one new partition, without bloom filters; leaving its `with` block closes them.

    `encoded` may run in several threads; `append` must be called in time order, by one thread at a time.
    """

    def __init__(
        self,
        storage: Storage,
        directory_path: str,
        metadata: TableMetadata,
        options: WriterOptions,
        *,
        table_name: str,
        symbols: Mapping[str, SymbolTable] = NO_SYMBOLS,
    ) -> None:
        """Create the directory, with an empty data.parquet; raises StorageError, OptionsRejectedError.

        `symbols` are the dictionaries of the symbol columns.
        """
        check_options(options, metadata)
        self._storage = storage
        self._path = directory_path
        self._header = new_header(metadata)
        self._table_name = table_name
        self._symbols = symbols
        (timestamp,) = (column.name for column in metadata.columns if column.id == metadata.timestamp_id)
        names = {column.name: column.name for column in metadata.columns}
        self._form = options.encoding.footer_extension or FooterForm.THRIFT
        self._options = encode_options(options, names, timestamp) or DEFAULT_OPTIONS
        self._sorting = (
            SortingColumn(column_index=self._header.designated_timestamp, descending=False, nulls_first=False),
        )
        self._row_groups: list[NewRowGroup] = []
        self._thrift: list[bytes] = []
        self._opened = ExitStack()
        storage.mkdir(directory_path)
        self._data = self._create(DATA_FILE)
        self._data.pwrite(MAGIC, 0)
        self._end_bytes = len(MAGIC)

    def encoded(self, rows: pa.Table) -> EncodedRowGroup:
        """Encode rows, in the table's columns and types and in time order, as one row group.

        Raises RowsRejectedError for what cannot be stored.
        """
        stored, bounds = stored_table(rows, self._header.columns, self._symbols)
        reject_long_geohashes(rows, self._header.columns)
        return encode_row_group(stored, bounds=bounds, options=self._options)

    def append(self, group: EncodedRowGroup) -> None:
        """Append a row group; raises RowsRejectedError for more than readers accept."""
        self._check(row_group_count=len(self._row_groups) + 1)
        placed = group.place(self._end_bytes, sorting=self._sorting)
        self._data.pwrite(placed.content, self._end_bytes)
        self._end_bytes += len(placed.content)
        self._thrift.append(placed.thrift)
        self._row_groups.append(NewRowGroup(num_rows=group.row_count, chunks=placed.chunks))

    def finish(self, timestamp: int) -> PreparedPartition:
        """Write both footers and make the whole directory durable; `timestamp` is the start of the partition."""
        row_count = sum(group.num_rows for group in self._row_groups)
        footer = new_footer(self._header, self._table_name).with_row_groups(self._thrift, row_count)
        encoded = extended_footer(footer.encode(), self._form, file=DATA_FILE)
        tail = file_tail(encoded)
        self._data.pwrite(tail, self._end_bytes)
        self._data.fsync()
        facts = FooterFacts(parquet_footer_offset=self._end_bytes, parquet_footer_length=len(encoded))
        metadata = encode_file(self._header, self._row_groups, facts)
        self._check(pm_bytes=len(metadata))
        pm = self._create(PM_FILE)
        pm.pwrite(metadata, 0)
        pm.fsync()
        self._storage.sync_directory(self._path)
        return PreparedPartition(
            directory_path=self._path,
            timestamp=timestamp,
            row_count=row_count,
            token=self._end_bytes + len(tail),
        )

    def _check(self, *, pm_bytes: int = 0, row_group_count: int = 0) -> None:
        found = limits.excess(
            pm_bytes=pm_bytes,
            row_group_count=row_group_count,
            column_count=len(self._header.columns),
            generation_count=1,
        )
        if found is not None:
            raise RowsRejectedError(f"{self._path}: it would have {found}; write larger row groups")

    def _create(self, name: str) -> File:
        return self._opened.enter_context(self._storage.open_for_writing(f"{self._path}/{name}", OpenMode.NEW))

    def __exit__(self, *exception: object) -> None:
        """Close the files."""
        self._opened.close()
