"""Tables that nobody but a server may write to, because it would lose by it, and what makes a table one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout import meta
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.metadata_file import META_FILE, TableMetadata
from tornproof.impl.table.partition_names import split_name
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag, tag_of


class Protection(NamedTuple):
    """What makes a table one that is not written to, if it has a column of a type; and what is broken otherwise."""

    protect: Callable[[MemoryStorage, str], None]
    property: str
    of: TypeTag | None = None

    def is_possible(self, metadata: TableMetadata) -> bool:
        """Whether it makes this table one."""
        return self.of is None or any(tag_of(column.type) is self.of for column in metadata.columns)


def _serve(storage: MemoryStorage, path: str) -> None:
    """Have a server map `_txn`, which is about to commit a directory; the table has a log, so nothing else rejects."""
    table = open_table(storage, path)
    transaction = table.transaction()
    interval, _ = split_name(table.directory_of(transaction.partitions[0]))
    storage.mkdir(f"{path}/{interval}.{transaction.version}")
    storage.open_for_writing(f"{path}/{interval}.{transaction.version}/{DATA_FILE}", OpenMode.NEW).close()
    storage.serve(f"{path}/{TXN_FILE}", "java (process 1)")
    _set_log(storage, path, is_there=True)


def _index(storage: MemoryStorage, path: str) -> None:
    """Have all SYMBOL columns say that they have an index."""
    metadata = open_table(storage, path).metadata
    assert metadata is not None
    for column in metadata.columns:
        if tag_of(column.type) is TypeTag.SYMBOL:
            record_offset = meta.MetaHeader.layout.size_bytes + column.id * meta.MetaColumn.layout.size_bytes
            _patch(storage, path, record_offset + meta.MetaColumn.layout.offset_of("flags"), INDEXED)
    _set_log(storage, path, is_there=True)


def _set_log(storage: MemoryStorage, path: str, *, is_there: bool = False) -> None:
    """Have the table say whether it has a write-ahead log."""
    _patch(storage, path, meta.MetaHeader.layout.offset_of("wal_enabled"), int(is_there))


def _patch(storage: MemoryStorage, path: str, offset_bytes: int, value: int) -> None:
    with storage.open_for_writing(f"{path}/{META_FILE}") as file:
        file.pwrite(bytes([value]), offset_bytes)


def files_but_pins(storage: MemoryStorage) -> dict[str, bytes]:
    """Return the content of all files that a writer that is rejected leaves as they were."""
    return {path: content for path, content in storage.image().files.items() if not path.endswith(PINS_FILE)}


INDEXED: Final = 1
"""As servers write it, so not taken from the layout under test."""
FOREIGN: Final = "what another process is about to commit stays"
PROTECTIONS: Final = (
    Protection(_serve, FOREIGN),
    Protection(_index, "lookups by an index find the rows of the table", TypeTag.SYMBOL),
    Protection(_set_log, "a server can insert behind the last partition"),
)
