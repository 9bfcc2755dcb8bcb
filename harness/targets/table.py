"""Our own implementation as a target: a table, its one writer, and readers of the committed version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from harness.explore.answer import read_answer
from harness.presets import Preset
from harness.targets.protocol import Target
from impl.commit import HARDENED, Protocol
from impl.create import NewColumn, create_table
from impl.metadata_file import PartitionBy
from impl.parquet.encoded import encode_row_group
from impl.partition_change import RowGroupEncoder, WriterOptions
from impl.questdb_types import TypeTag
from impl.reader import open_snapshot
from impl.reader_protocol import HARDENED_READER, ReaderProtocol
from impl.storage import Storage
from impl.table import open_table
from impl.table_writer import TableWriter, open_writer

COLUMNS = (
    NewColumn(name="ts", type=TypeTag.TIMESTAMP),
    NewColumn(name="v", type=TypeTag.LONG),
    NewColumn(name="s", type=TypeTag.VARCHAR),
)
# Files this small would be written anew at every commit; what grows in place is what there is to explore.
GROWING = WriterOptions(rewrite_unused_ratio=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOperation:
    """One commit: what is dropped, written anew (by the partitions' timestamps), written, and purged after it."""

    rows: tuple[pa.Table, ...] = ()
    dropped: tuple[int, ...] = ()
    rewritten: tuple[int, ...] = ()
    purges: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a reader saw: the version, the names of its parquet partitions, and a digest of every bit of their rows."""

    version: int
    names: tuple[str, ...]
    row_count: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget(Target):
    """Tables of this implementation under a protocol."""

    name: str = "hardened"
    protocol: Protocol = HARDENED
    reader: ReaderProtocol = HARDENED_READER
    columns: Sequence[NewColumn] = COLUMNS
    partition_by: PartitionBy = PartitionBy.HOUR
    options: WriterOptions = field(default=GROWING)
    encode: RowGroupEncoder = encode_row_group

    @classmethod
    def of(cls, preset: Preset, **overrides: Any) -> Self:
        """Return tables that are written and read as a preset says; `overrides` are fields of the target."""
        settings = {"name": preset.name, "protocol": preset.protocol, "reader": preset.reader, "encode": preset.encode}
        return cls(**{**settings, **overrides})

    def create(self, storage: Storage, path: str) -> None:
        """Make a table without rows."""
        create_table(storage, path, self.columns, timestamp=self.columns[0].name, partition_by=self.partition_by)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[TableCommits]:
        """Recover, and become the one writer."""
        with open_writer(storage, path, options=self.options, protocol=self.protocol, encode=self.encode) as writer:
            yield TableCommits(writer)

    def read(self, storage: Storage, path: str) -> Seen:
        """Read all parquet partitions of the committed version."""
        return see(storage, path, self.reader)


@dataclass(frozen=True, slots=True)
class TableCommits:
    """A table's writer, operation by operation."""

    writer: TableWriter

    def commit(self, operation: TableOperation) -> None:
        """Stage all of an operation and commit it."""
        for timestamp in operation.dropped:
            self.writer.drop_partition(timestamp)
        for timestamp in operation.rewritten:
            self.writer.rewrite_partition(timestamp)
        for rows in operation.rows:
            self.writer.write(rows)
        self.writer.commit()
        if operation.purges:
            self.writer.purge()


def see(storage: Storage, path: str, reader: ReaderProtocol = HARDENED_READER) -> Seen:
    """Return what a reader of the committed version sees."""
    answer = read_answer(open_snapshot(open_table(storage, path), reader))
    sink = pa.BufferOutputStream()
    rows = answer.rows.combine_chunks()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Seen(
        version=answer.version,
        names=answer.names,
        row_count=rows.num_rows,
        digest=hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest(),
    )
