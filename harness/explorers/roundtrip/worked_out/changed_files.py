"""The files of a small table by their paths in it, with one thing changed, as by a server or by a flipped bit."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeAlias

from tornproof.harness.explorers.roundtrip.metadata.meta_files import MINOR_FORMAT_AT, VERSION_AT, checksum_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE

PATH, DAY = "table", 86_400_000_000
ENTRY = struct.Struct("<4q")
"""Of a partition in `_txn`: its time, flags and rows, name and token."""

Files: TypeAlias = Mapping[str, bytes]


def files_of(image: DiskImage) -> Files:
    """Return the files of the table at `PATH`."""
    return {path.removeprefix(f"{PATH}/"): content for path, content in image.files.items()}


def two_days() -> Files:
    """Return the files of a new table with a row in each of two partitions."""
    return files_of(table_of_rows(PATH, [(FIRST_TIME, 1), (FIRST_TIME + DAY, 2)]))


def storage_of(files: Files) -> MemoryStorage:
    """Return a disk with the files of a table at `PATH`."""
    return MemoryStorage.of(DiskImage.of_files({f"{PATH}/{path}": content for path, content in files.items()}))


def without(files: Files, *starts: str) -> Files:
    """Return the files whose paths begin with none of these."""
    return {path: content for path, content in files.items() if not path.startswith(starts)}


def with_number(files: Files, file: str, offset_bytes: int, number: int) -> Files:
    """Return the files with another number of four bytes in one of them."""
    content = bytearray(files[file])
    struct.pack_into("<i", content, offset_bytes, number)
    return {**files, file: bytes(content)}


def with_metadata_version(files: Files, version: int) -> Files:
    """Return the files with another METADATA_VERSION in `_meta`, and its checksum."""
    content = bytearray(files[META_FILE])
    struct.pack_into("<q", content, VERSION_AT, version)
    struct.pack_into("<H", content, MINOR_FORMAT_AT, checksum_of(bytes(content)))
    return {**files, META_FILE: bytes(content)}


def with_entry(files: Files, flags: int, *, name_txn: int = 0, token: int | None = None, day: int = 0) -> Files:
    """Return the files with another entry of the first partition in `_txn`, so many days later."""
    first, *_ = open_table(storage_of(files), PATH).transaction().partitions
    content, token = bytearray(files[TXN_FILE]), first.token if token is None else token
    time = first.timestamp + day * DAY
    ENTRY.pack_into(content, first.entry_offset_bytes, time, flags | first.row_count, name_txn, token)
    return {**files, TXN_FILE: bytes(content)}
