"""A partition written at once, without the writer, into a directory that no version names: its rows with new ones.

Memory is bounded by the new rows and the row groups that they are merged with. A commit adds the directory to the table
(`adoption.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tornproof.impl.read.reader import Snapshot
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import Portion
from tornproof.impl.write.partition_change import changer_of
from tornproof.impl.write.stored_arrays import NO_SYMBOLS
from tornproof.impl.write.table_writer import reject_unless_writable
from tornproof.impl.write.writer_options import WriterOptions


def prepare_partition(
    storage: Storage,
    snapshot: Snapshot,
    portion: Portion,
    directory_path: str,
    options: WriterOptions,
    symbols: Mapping[str, SymbolTable] = NO_SYMBOLS,
) -> PreparedPartition:
    """Write rows, and those that their partition has in this version, into a directory, and make it durable.

    `symbols` are the dictionaries, which have all symbols of the rows. Raises RowsRejectedError, CorruptError,
    UnsupportedError, StorageError; after an error there is no directory.
    """
    changer = changer_of(storage, snapshot, options, symbols_of=symbols.__getitem__)
    files = PartitionFiles(storage=storage, path=directory_path, name=directory_path.rpartition("/")[2])
    there = {partition.timestamp: partition for partition in snapshot.transaction.partitions}
    before = there.get(portion.timestamp)
    if before is None:
        change = changer.create(portion, files, is_streamed=True)
    else:
        reject_unless_writable(snapshot.table, before)
        change = changer.rewrite(changer.load(snapshot.resolve(before)), portion, files, is_streamed=True)
    return PreparedPartition(
        directory_path=directory_path,
        timestamp=portion.timestamp,
        row_count=change.partition.metadata.row_count,
        token=change.partition.token,
        replaces=before,
    )
