"""Creating a table without rows: a directory with its metadata files.

`_txn` gets its name last, so an interrupted creation leaves no table, and can be repeated. The writer's lock is held
from the first file on, which tells a creation that runs from one that was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import msgspec

from tornproof.impl import limits
from tornproof.impl.errors import StorageError, TornproofError
from tornproof.impl.storage.interface import EntryKind, OpenMode, ReadableStorage, Storage, StorageReason
from tornproof.impl.table.column_versions import CV_FILE, NEW_FILE_BYTES
from tornproof.impl.table.metadata_file import (
    META_FILE,
    META_LIMIT_BYTES,
    NAME_FILE,
    SYMBOL_CAPACITY,
    PartitionBy,
    TableColumn,
    TableMetadata,
    encode_metadata_file,
    encode_name,
    in_lower_case,
)
from tornproof.impl.table.new_dictionary import new_dictionary
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.table.symbols import DICTIONARY_FILES
from tornproof.impl.table.table import Table, name_of_directory, open_table
from tornproof.impl.txn.pins import PINS_FILE, take_writer_lock
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.txn.write import encode_new_file, first_version
from tornproof.impl.types.questdb import (
    ARRAY_TYPE,
    DECIMAL_TYPE,
    GEOHASH_BITS,
    GEOHASH_FLAG,
    GEOHASH_PRECISION,
    GEOHASH_TYPE,
    NANOSECOND,
    TAG,
    TypeTag,
    tag_of,
)

UNNAMED_TXN_FILE = "_txn.new"
OWN_FILES = frozenset({META_FILE, CV_FILE, NAME_FILE, UNNAMED_TXN_FILE, PINS_FILE})
NAME_LENGTH_MAX = 127
FILE_NAME_MAX_BYTES = 255
LONGEST_ENDING = ".k.new"
"""Of the files of a dictionary, beside their name."""
COLUMN_COUNT_MAX = 100_000
SYMBOL_CAPACITY_MIN = 2
# Not allowed in names of column files, or with another meaning in SQL.
NAME_CHARACTERS_REJECTED = frozenset("?.,'\"\\/:()+-*%~\x7f\ufeff") | frozenset(map(chr, range(0x10)))
_MEANINGFUL_BITS = {
    TypeTag.TIMESTAMP: TAG.mask | NANOSECOND.mask,
    TypeTag.ARRAY: ARRAY_TYPE.known_mask,
    **dict.fromkeys(GEOHASH_BITS, GEOHASH_TYPE.known_mask),
    **{tag: DECIMAL_TYPE.known_mask for tag in TypeTag if tag.name.startswith("DECIMAL")},
}


class TableRejectedError(TornproofError):
    """The columns or names of a new table are invalid."""


class NewColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a new table; `type` is QuestDB's type code, without the bit for the designated timestamp.

    `symbol_capacity` is about how many symbols a SYMBOL column will have; more are possible, and found more slowly.
    """

    name: str
    type: int
    is_dedup_key: bool = False
    symbol_capacity: int = SYMBOL_CAPACITY


def create_table(
    storage: Storage,
    path: str,
    columns: Sequence[NewColumn],
    *,
    timestamp: str,
    partition_by: PartitionBy,
    table_id: int = 1,
) -> Table:
    """Create a table without rows in a new directory `path`, durable when this returns, and open it.

    `timestamp` names the designated timestamp. The table's name is that of the directory, up to a `~`. An existing
    directory may only contain the files of an interrupted creation. Raises TableRejectedError for invalid columns or
    names, BusyError while another process creates the table, StorageError.

    The table has no write-ahead log, and its writers make only parquet partitions, so the last one will be in Parquet:
    before a server inserts into it, `ALTER TABLE … SET TYPE WAL` and a restart of the server are needed.
    """
    path = path.rstrip("/")
    parent = path.rpartition("/")[0]
    name = name_of_directory(path)
    _check_columns(columns, timestamp, partition_by)
    _check_name("the table", name)
    metadata = TableMetadata(
        columns=tuple(
            TableColumn(
                id=index,
                name=column.name,
                type=column.type,
                is_dedup_key=column.is_dedup_key,
                symbol_capacity=_whole_power(column.symbol_capacity),
            )
            for index, column in enumerate(columns)
        ),
        partition_by=partition_by,
        timestamp_id=[column.name for column in columns].index(timestamp),
    )
    content = encode_metadata_file(metadata, table_id=table_id)
    if len(content) > META_LIMIT_BYTES:
        raise TableRejectedError(f"{META_FILE} would have {len(content):,} bytes, more than {META_LIMIT_BYTES:,}")
    _make_directory(storage, path, metadata)
    with _lock(storage, path):
        # Looked at again, because another process may have finished the table before it released the lock.
        _make_directory(storage, path, metadata)
        # Before there is a `_txn`: whoever finds a table may commit to it, also after this process was killed.
        storage.sync_directory(parent or ("/" if path.startswith("/") else "."))
        _write_files(storage, path, name, metadata, content)
    return open_table(storage, path)


def _check_columns(columns: Sequence[NewColumn], timestamp: str, partition_by: PartitionBy) -> None:
    if partition_by is PartitionBy.NONE:
        raise TableRejectedError("a table without partitions has nothing to keep in Parquet")
    if len(columns) > COLUMN_COUNT_MAX:
        raise TableRejectedError(f"a table has at most {COLUMN_COUNT_MAX} columns, not {len(columns)}")
    seen: set[str] = set()
    for column in columns:
        _check_name("a column", column.name)
        lowered = in_lower_case(column.name)
        if lowered in seen:
            raise TableRejectedError(f"two columns are called {column.name!r}; upper and lower case are the same")
        seen.add(lowered)
        _check_type(column)
        if column.is_dedup_key and tag_of(column.type) is TypeTag.ARRAY:
            # No commit could tell its rows apart.
            raise TableRejectedError(f"column {column.name!r}: an array cannot be a deduplication key")
        if (
            tag_of(column.type) is TypeTag.SYMBOL
            and len(f"{column.name}{LONGEST_ENDING}".encode()) > FILE_NAME_MAX_BYTES
        ):
            raise TableRejectedError(
                f"a symbol column cannot be called {column.name!r}: its files would have names of more than"
                f" {FILE_NAME_MAX_BYTES} bytes"
            )
    designated = next((column for column in columns if column.name == timestamp), None)
    if designated is None:
        raise TableRejectedError(f"the designated timestamp {timestamp!r} is not among the columns")
    if tag_of(designated.type) is not TypeTag.TIMESTAMP:
        raise TableRejectedError(f"the designated timestamp {timestamp!r} is not of type TIMESTAMP")
    if any(column.is_dedup_key for column in columns) and not designated.is_dedup_key:
        raise TableRejectedError(f"the deduplication keys lack the designated timestamp {timestamp!r}")


def _check_type(column: NewColumn) -> None:
    tag = tag_of(column.type)
    if not SYMBOL_CAPACITY_MIN <= column.symbol_capacity <= limits.SYMBOL_COUNT_LIMIT:
        raise TableRejectedError(
            f"column {column.name!r}: expected a symbol capacity of {SYMBOL_CAPACITY_MIN} to "
            f"{limits.SYMBOL_COUNT_LIMIT}, found {column.symbol_capacity}"
        )
    if not _is_possible(tag, column.type):
        raise TableRejectedError(f"column {column.name!r}: {column.type} is not a type that a column can have")


def _whole_power(capacity: int) -> int:
    """Return a power of two that is not less, as servers do."""
    return int(1 << (capacity - 1).bit_length())


def _is_possible(tag: TypeTag | None, column_type: int) -> bool:
    if tag is None or physical_form(column_type) is None or column_type & ~_MEANINGFUL_BITS.get(tag, TAG.mask):
        return False
    if tag in GEOHASH_BITS:
        return bool(GEOHASH_FLAG.get(column_type)) and GEOHASH_PRECISION.get(column_type) in GEOHASH_BITS[tag]
    return True


def _check_name(whose: str, name: str) -> None:
    rejected = sorted(NAME_CHARACTERS_REJECTED & set(name))
    if rejected:
        raise TableRejectedError(f"{whose} cannot be called {name!r}: {rejected[0]!r} cannot be part of a name")
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise TableRejectedError(f"{whose} cannot be called {name!r}: a name has 1 to {NAME_LENGTH_MAX} characters")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise TableRejectedError(f"{whose} cannot be called {name!r}: {error.reason}") from error


def is_left_over(storage: ReadableStorage, path: str, symbols: Sequence[TableColumn] = ()) -> bool:
    """Return whether a path is a directory with nothing but files of an interrupted creation, or empty.

    `symbols` are the SYMBOL columns of the table.
    """
    own = OWN_FILES | {f"{column.name}.{kind}" for column in symbols for kind in DICTIONARY_FILES}
    return storage.kind(path) is EntryKind.DIRECTORY and own.issuperset(storage.listdir(path))


def _make_directory(storage: Storage, path: str, metadata: TableMetadata) -> None:
    if not is_left_over(storage, path, _symbols(metadata)):
        storage.mkdir(path)


def _symbols(metadata: TableMetadata) -> list[TableColumn]:
    return [column for column in metadata.columns if tag_of(column.type) is TypeTag.SYMBOL]


def _lock(storage: Storage, path: str) -> AbstractContextManager[object]:
    """Keep other creators out, and writers until the name of the table is durable; raises BusyError, StorageError."""
    try:
        return take_writer_lock(storage, path)
    except StorageError as error:
        if error.reason != StorageReason.NO_LOCKS:
            raise
        return nullcontext()


def _write_files(storage: Storage, path: str, name: str, metadata: TableMetadata, content: bytes) -> None:
    """Make the files of an empty table durable, `_txn` last; `content` is that of `_meta`."""
    _write(storage, f"{path}/{META_FILE}", content)
    _write(storage, f"{path}/{CV_FILE}", bytes(NEW_FILE_BYTES))
    _write(storage, f"{path}/{NAME_FILE}", encode_name(name) + b"\0")
    symbols = _symbols(metadata)
    for column in symbols:
        for kind, empty in new_dictionary(column.symbol_capacity).items():
            _write(storage, f"{path}/{column.name}.{kind}", empty)
    _write(storage, f"{path}/{UNNAMED_TXN_FILE}", encode_new_file(first_version(symbol_column_count=len(symbols))))
    storage.sync_directory(path)
    storage.rename(f"{path}/{UNNAMED_TXN_FILE}", f"{path}/{TXN_FILE}")
    storage.sync_directory(path)


def _write(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(content, 0)
        file.fsync()
