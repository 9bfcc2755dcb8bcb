"""`_cv`: the name suffixes of the files of added or renamed columns."""

from __future__ import annotations

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import cv as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import ReadableStorage

CV_FILE = "_cv"
CV_LIMIT_BYTES = 16 << 20
NEW_FILE_BYTES = 4096
NO_NAME_TXN = -1
DEFAULT_PARTITION = -(1 << 63)
ENTRY_BYTES = layout.ColumnVersion.layout.size_bytes


def read_name_txns(storage: ReadableStorage, path: str, *, version: int) -> dict[int, int]:
    """Read `_cv`; raises as `decode_name_txns` does, UnsupportedError for more than 16 MiB, StorageError."""
    with storage.open_for_reading(path) as file:
        size_bytes = file.size_bytes()
        if size_bytes > CV_LIMIT_BYTES:
            raise UnsupportedError(CV_FILE, "size", None, f"at most {CV_LIMIT_BYTES}", size_bytes)
        return decode_name_txns(file.pread(size_bytes, 0), version=version, file=CV_FILE)


def decode_name_txns(data: Buffer, *, version: int, file: str) -> dict[int, int]:
    """Return the suffixes of column files by writer index; columns without one have none.

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
    return {entry.column_index: entry.name_txn for entry in entries if entry.partition_timestamp == DEFAULT_PARTITION}
