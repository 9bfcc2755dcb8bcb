"""`_cv`: the name suffixes of the files of added or renamed columns, and the rows that are older than a column."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import cv as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableStorage

CV_FILE = "_cv"
CV_LIMIT_BYTES = 16 << 20
NEW_FILE_BYTES = 4096
NO_NAME_TXN = -1
DEFAULT_PARTITION = -(1 << 63)
DICTIONARY = DEFAULT_PARTITION + 1
ENTRY_BYTES = layout.ColumnVersion.layout.size_bytes


class ColumnVersions(msgspec.Struct, frozen=True):
    """The committed entries of `_cv` by partition and column.

    DEFAULT_PARTITION stands for all other partitions, DICTIONARY for the table's own files of a SYMBOL column.
    """

    entries: Mapping[tuple[int, int], layout.ColumnVersion]

    def name_txn(self, partition_timestamp: int, column_id: int) -> int:
        """Return the suffix of the names of a column's files in a partition, or NO_NAME_TXN."""
        keys = ((partition_timestamp, column_id), (DEFAULT_PARTITION, column_id))
        return next((self.entries[key].name_txn for key in keys if key in self.entries), NO_NAME_TXN)

    def dictionary_name_txn(self, column_id: int) -> int:
        """Return the suffix of the names of a dictionary's files, or NO_NAME_TXN; a server may make them anew."""
        return self.name_txn(DICTIONARY, column_id)

    def top(self, partition_timestamp: int, column_id: int, row_count: int) -> int:
        """Return how many of a partition's rows are older than a column."""
        own = self.entries.get((partition_timestamp, column_id))
        if own is not None:
            return min(max(0, own.column_top), row_count)
        default = self.entries.get((DEFAULT_PARTITION, column_id))
        return 0 if default is None or default.column_top <= partition_timestamp else row_count


def suffixed(name: str, name_txn: int) -> str:
    """Return a file's name with the suffix, if there is one."""
    return name if name_txn == NO_NAME_TXN else f"{name}.{name_txn}"


def read_column_versions(storage: ReadableStorage, path: str, *, version: int) -> ColumnVersions:
    """Read `_cv`; raises as `decode_column_versions` does, UnsupportedError for more than 16 MiB, StorageError."""
    with storage.open_for_reading(path) as file:
        size_bytes = file.size_bytes()
        if size_bytes > CV_LIMIT_BYTES:
            raise UnsupportedError(CV_FILE, "size", None, f"at most {CV_LIMIT_BYTES}", size_bytes)
        return decode_column_versions(file.pread(size_bytes, 0), version=version, file=CV_FILE)


def decode_column_versions(data: Buffer, *, version: int, file: str) -> ColumnVersions:
    """Decode the committed area.

    `version` is the COLUMN_VERSION of the committed record in `_txn`; the file may be one commit ahead of it, because
    `_cv` is committed first (docs/format.md). Raises CorruptError.
    """
    header = layout.ColumnVersionsHeader.unpack(data, 0, file=file)
    if header.version - version not in (0, 1):
        raise CorruptError(file, "VERSION", 0, f"{version}, as in `_txn`, or 1 more", header.version)
    name = "ab"[version % 2]
    offset, size = getattr(header, f"{name}_offset"), getattr(header, f"{name}_size")
    if size < 0 or size % ENTRY_BYTES or offset < 0 or offset + size > len(data):
        expected = f"a multiple of {ENTRY_BYTES} that fits behind {offset} into {len(data)} bytes"
        field = f"{name.upper()}_SIZE"
        raise CorruptError(file, field, layout.ColumnVersionsHeader.layout.offset_of(f"{name}_size"), expected, size)
    entries = (
        layout.ColumnVersion.unpack(data, position, file=file) for position in range(offset, offset + size, ENTRY_BYTES)
    )
    return ColumnVersions({(entry.partition_timestamp, entry.column_index): entry for entry in entries})
