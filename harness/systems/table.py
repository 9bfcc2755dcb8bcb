"""This implementation as a target: a table, its one writer, and readers of the committed version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from msgspec import structs

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.table_readers import Seen, TableReaders, see
from tornproof.harness.systems.table_specification import TableSpecification, specification_of
from tornproof.impl.chunk.row_group_encoder import encode_row_group
from tornproof.impl.errors import TornproofError
from tornproof.impl.read.reader_protocol import HARDENED_READER, ReaderProtocol
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.commit import HARDENED, Protocol
from tornproof.impl.write.partition_change import RowGroupEncoder, WriterOptions
from tornproof.impl.write.table_writer import TableWriter

COLUMNS = (
    NewColumn(name="ts", type=TypeTag.TIMESTAMP),
    NewColumn(name="v", type=TypeTag.LONG),
    NewColumn(name="s", type=TypeTag.VARCHAR),
)
SYMBOL = NewColumn(name="k", type=TypeTag.SYMBOL, symbol_capacity=2)
"""With so few hashes that their chains grow by every second symbol."""
READER_WORDS = "the reader decodes the footer of its token in _txn, and not the newest one"
PROTOCOL_WORDS = {
    "base": "a commit continues from the footer of the committed token, and not from the newest one",
    "token_of": "the token in _txn is the end that was encoded, and not the size of data.parquet",
    "recovery": "the next writer first publishes each committed generation again",
    "undo": "a failed write is left as it is for the next writer",
    "replaced": "replaced directories stay until a purge finds no reader in them",
    "update": "a partition that grows is written and synced in the order of this implementation",
    "rewrite": "a new directory is written and synced in the order of this implementation",
    "publish": "_txn is stored and synced in the order of this implementation",
}
"""What a target does differently if a part of its protocol is that of this implementation."""
# Files this small would be rewritten at every commit, but growing in place is to be explored.
GROWING = WriterOptions(rewrite_unused_ratio=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget(TableReaders):
    """Tables of this implementation, with the writer and the reader of a protocol."""

    name: str = "hardened"
    protocol: Protocol = HARDENED
    reader: ReaderProtocol = HARDENED_READER
    columns: Sequence[NewColumn] = COLUMNS
    partition_by: PartitionBy = PartitionBy.HOUR
    options: WriterOptions = field(default=GROWING)
    encode: RowGroupEncoder = encode_row_group

    @classmethod
    def of(cls, preset: Preset, **overrides: Any) -> Self:
        """Return the target of a preset; `overrides` are other values of its fields."""
        settings = {"name": preset.name, "protocol": preset.protocol, "reader": preset.reader, "encode": preset.encode}
        return cls(**{**settings, **overrides})

    def create(self, storage: Storage, path: str) -> None:
        """Make a table without rows."""
        create_table(storage, path, self.columns, timestamp=self.columns[0].name, partition_by=self.partition_by)

    def open_writer(self, storage: Storage, path: str) -> TableCommits:
        """Recover, and become the one writer."""
        return TableCommits(self, storage, path)

    def writer(self, storage: Storage, path: str, protocol: Protocol) -> TableWriter:
        """Open a writer with these options and a protocol."""
        return open_writer_of_copy(storage, path, options=self.options, protocol=protocol, encode=self.encode)

    def read(self, storage: Storage, path: str) -> Seen:
        """Read all parquet partitions of the committed version."""
        return see(storage, path, self.reader)

    def repaired(self) -> Iterator[tuple[str, TableTarget]]:
        """Yield the target with one part of its protocol replaced by that of this implementation."""
        if self.reader is not HARDENED_READER:
            yield READER_WORDS, replace(self, reader=HARDENED_READER)
        for name, words in PROTOCOL_WORDS.items():
            sound = getattr(HARDENED, name)
            if getattr(self.protocol, name) != sound:
                yield words, replace(self, protocol=structs.replace(self.protocol, **{name: sound}))

    def specification(self, files: ReadableStorage, path: str) -> TableSpecification | None:
        """Return the model of the table's rows."""
        return specification_of(files, path, self.reader)


class TableCommits:
    """A table's writer, operation by operation."""

    def __init__(self, target: TableTarget, storage: Storage, path: str) -> None:
        """Recover, and become the one writer."""
        self._target = target
        self._at = storage, path
        self._writer = target.writer(storage, path, target.protocol)

    def commit(self, operation: TableOperation) -> None:
        """Stage an operation and commit it."""
        if operation.abandons:
            self._abandon(operation)
            return
        _commit(self._writer, operation)
        if operation.purges:
            self._writer.purge()

    def _abandon(self, operation: TableOperation) -> None:
        """Commit in a session that ends before its version is stored, then recover in a new one."""
        protocol = self._target.protocol
        self._writer.close()
        with self._target.writer(*self._at, structs.replace(protocol, publish=())) as writer:
            _commit(writer, operation)
        self._writer = self._target.writer(*self._at, protocol)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self._writer.close()


def _commit(writer: TableWriter, operation: TableOperation) -> None:
    try:
        for timestamp in operation.dropped:
            writer.drop_partition(timestamp)
        for timestamp in operation.rewritten:
            writer.rewrite_partition(timestamp)
        for rows in operation.rows:
            writer.write(rows)
        writer.commit()
    except TornproofError:
        # What is staged would be part of the next commit.
        writer.rollback()
        raise
