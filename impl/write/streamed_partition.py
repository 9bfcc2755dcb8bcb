"""A new directory of a large partition, written a row group at a time before the other actions of its commit.

Until a version names it, the directory is one of a commit that never came about, which the next recovery removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.parquet.footer import FooterParts
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.table.partition import PM_FILE, PartitionFiles
from tornproof.impl.write.commit import PartitionWrite
from tornproof.impl.write.partition_writer import OpenPartition, next_in_new_directory
from tornproof.impl.write.recovery import remove_directory


def stream_new_directory(
    storage: Storage,
    files: PartitionFiles,
    header: FileHeader,
    footer: FooterParts,
    row_groups: Iterable[EncodedRowGroup],
    form: FooterForm,
) -> tuple[PartitionWrite, OpenPartition]:
    """Write a directory and make it durable; raises StorageError. After an error, also of encoding, none is left."""
    remove_streamed(storage, files.path)
    try:
        storage.mkdir(files.path)
        with storage.open_for_writing(f"{files.path}/{DATA_FILE}", OpenMode.NEW) as data:
            write, after = next_in_new_directory(files, header, footer, row_groups, data.pwrite, form=form)
            data.fdatasync()
        with storage.open_for_writing(f"{files.path}/{PM_FILE}", OpenMode.NEW) as pm:
            pm.pwrite(write.pm, 0)
            pm.fdatasync()
        storage.sync_directory(files.path)
    except BaseException:
        with suppress(StorageError):
            remove_streamed(storage, files.path)
        raise
    return replace(write, pm=b"", pm_offset_bytes=len(write.pm), is_written=True), after


def remove_streamed(storage: Storage, path: str) -> None:
    """Remove a directory that no version names, if it is there."""
    if storage.own_kind(path) is not EntryKind.MISSING:
        remove_directory(storage, path)
