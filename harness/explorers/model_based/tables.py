"""Tables that programs start from beside the given one: keys, types and partitionings that it may not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tornproof.harness.common.new_tables import TIME
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.txn import PartitionEntry
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import (
    META_FILE,
    PartitionBy,
    TableColumn,
    TableMetadata,
    encode_metadata_file,
)
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.impl.types.names import type_code

TABLE_NAME = "table"
WITH_FILTERS = 4
"""The options with which all columns get bloom filters."""
PATH = f"/{TABLE_NAME}"
NO_NAME = b"\xff" * 8
"""The suffix of a directory without one, in `_txn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table to make: types by column, of which `TIME` is the designated timestamp, and deduplication keys.

    After its first rows, which are written with the `nth_options` of a program, columns are `added` and `removed`, and
    its partitions become those that a server has split off from ones `split_from` longer intervals, the first of which
    it has never written anew.
    """

    name: str
    columns: Mapping[str, str]
    keys: frozenset[str] = frozenset()
    partition_by: PartitionBy
    added: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    nth_options: int = 1
    split_from: PartitionBy | None = None

    @property
    def is_changed(self) -> bool:
        """Whether it is another table after its first rows."""
        return bool(self.added or self.removed) or self.split_from is not None


PLAIN = NewTable(name="days", columns={"ts": "TIMESTAMP", "v": "LONG"}, partition_by=PartitionBy.DAY)
TEXTS = NewTable(
    name="months, texts are keys",
    columns={"ts": "TIMESTAMP", "Größe 😀": "VARCHAR", "n": "INT", "t": "STRING", "a b": "BINARY", "C": "CHAR"},
    keys=frozenset({"ts", "Größe 😀", "n"}),
    partition_by=PartitionBy.MONTH,
)
SYMBOLS = NewTable(
    name="hours, a symbol is a key",
    columns={
        "ts": "TIMESTAMP",
        "k": "SYMBOL",
        "b": "BYTE",
        "s": "SHORT",
        "f": "FLOAT",
        "flag": "BOOLEAN",
        "tag": "SYMBOL",
    },
    keys=frozenset({"ts", "k"}),
    partition_by=PartitionBy.HOUR,
    nth_options=WITH_FILTERS,
)
CHANGED = NewTable(
    name="weeks in nanoseconds, decimals and arrays",
    columns={
        "ts": "TIMESTAMP_NS",
        "price": "DECIMAL(4,2)",
        "gone": "INT",
        "sum": "DECIMAL(38,10)",
        "list": "DOUBLE[]",
        "matrix": "DOUBLE[][]",
        "date": "DATE",
    },
    partition_by=PartitionBy.WEEK,
    added={"flag": "BOOLEAN", "note": "VARCHAR", "n": "SHORT"},
    removed=frozenset({"gone"}),
)
TABLES = (
    SYMBOLS,
    CHANGED,
    TEXTS,
    NewTable(
        name="years, the time is the key",
        # The designated timestamp is neither the first column nor the first timestamp.
        columns={
            "u": "UUID",
            "born": "TIMESTAMP",
            "ts": "TIMESTAMP",
            "l": "LONG256",
            "ip": "IPV4",
            "g": "GEOHASH(4c)",
            "h": "GEOHASH(7b)",
            "d": "DOUBLE",
            "v": "LONG",
        },
        keys=frozenset({"ts"}),
        partition_by=PartitionBy.YEAR,
        added={"seen": "TIMESTAMP", "sent": "TIMESTAMP_NS"},
        nth_options=WITH_FILTERS,
    ),
)
OTHERS = NewTable(
    name="days in nanoseconds, types of other writers",
    columns={
        "ts": "TIMESTAMP_NS",
        "v": "LONG",
        "n": "INT",
        "s": "SHORT",
        "flag": "BOOLEAN",
        "f": "FLOAT",
        "d": "DOUBLE",
        "name": "VARCHAR",
        "raw": "BINARY",
        "at": "TIMESTAMP",
        "day": "DATE",
        "price": "DECIMAL(9,2)",
        "sum": "DECIMAL(38,10)",
        # With the root, a footer then has 15 elements, of which a list says its length in another way.
        "w": "INT",
    },
    partition_by=PartitionBy.DAY,
)
"""For fixed programs alone."""
SPLIT = NewTable(
    name="days that were split",
    columns={"ts": "TIMESTAMP", "v": "LONG", "name": "VARCHAR"},
    partition_by=PartitionBy.HOUR,
    split_from=PartitionBy.DAY,
)
"""For fixed programs alone."""
EXTREMES = NewTable(
    name="days, types with their least and greatest sizes",
    columns={
        "ts": "TIMESTAMP",
        "one": "DECIMAL(1,1)",
        "Tag é 😀": "SYMBOL",
        "byte": "DECIMAL(2,2)",
        "few": "DECIMAL(4,4)",
        "whole": "DECIMAL(9,0)",
        "word": "DECIMAL(18,18)",
        "odd": "DECIMAL(25,3)",
        "most": "DECIMAL(76,76)",
        "bit": "GEOHASH(1b)",
        "bits": "GEOHASH(60b)",
        "cube": "DOUBLE[][][]",
        "c": "CHAR",
        "id": "LONG128",
        "least": "DECIMAL(19,4)",
        "cell": "GEOHASH(32b)",
    },
    partition_by=PartitionBy.DAY,
    nth_options=WITH_FILTERS,
)
"""For fixed programs alone."""
BY_NAME = {table.name: table for table in (PLAIN, *TABLES, OTHERS, SPLIT, EXTREMES)}


def changed_image(
    name: str, files: Mapping[str, bytes], metadata: TableMetadata, partitions: Sequence[Partition]
) -> DiskImage:
    """Return the table of a name after it was changed; only `_meta` and names of directories are other ones.

    `files` are by path below the table's directory, `metadata` what they say of its columns, of these `partitions`.
    """
    longer = BY_NAME[name].split_from
    partition_by = metadata.partition_by if longer is None else longer
    txn = files[TXN_FILE]
    moved = dict(_directories(each, each.name_txn, metadata, partition_by) for each in partitions)
    if longer is not None:
        first = partitions[0]
        at = first.entry_offset_bytes + PartitionEntry.layout.offset_of("name_txn")
        txn = txn[:at] + NO_NAME + txn[at + len(NO_NAME) :]
        moved |= [_directories(first, -1, metadata, partition_by)]
    known = tuple(column for column in metadata.columns if column.name not in BY_NAME[name].removed)
    new = tuple(
        TableColumn(id=number, name=column, type=type_code(text) or 0, is_dedup_key=False)
        for number, (column, text) in enumerate(BY_NAME[name].added.items(), len(metadata.columns))
    )
    changed = replace(metadata, columns=(*known, *new), partition_by=partition_by)
    found: dict[str, bytes] = {}
    for file, content in {**files, TXN_FILE: txn, META_FILE: encode_metadata_file(changed, table_id=1)}.items():
        directory, separator, rest = file.partition("/")
        found[f"{PATH}/{moved.get(directory, directory)}{separator}{rest}"] = content
    return DiskImage.of_files(found)


def _directories(
    partition: Partition, name_txn: int, metadata: TableMetadata, partition_by: PartitionBy
) -> tuple[str, str]:
    """Return the name of a partition's directory, and that with another suffix in a table with other partitions."""
    before, after = (
        directory_names(partition.timestamp, txn, each, nanoseconds=metadata.counts_nanoseconds)[0]
        for txn, each in ((partition.name_txn, metadata.partition_by), (name_txn, partition_by))
    )
    return before, after


def empty_image(name: str) -> DiskImage:
    """Return the table of a name without rows, at `PATH`; raises KeyError for an unknown one."""
    made = BY_NAME[name]
    storage = MemoryStorage()
    columns = [
        NewColumn(name=column, type=type_code(text) or 0, is_dedup_key=column in made.keys, symbol_capacity=2)
        for column, text in made.columns.items()
    ]
    create_table(storage, PATH, columns, timestamp=TIME, partition_by=made.partition_by)
    return storage.image()
