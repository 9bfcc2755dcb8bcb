"""Where offline recovery keeps the bytes that it removes from a table, until the user asks to forget them.

They are in `_recovered/PARTITION/` of the table: an old `_pm` as a whole, data.parquet from its committed end on.
Unfinished files have a suffix, in a partition's directory too, so that the next run can remove them.
"""

from __future__ import annotations

import itertools
import re
from contextlib import suppress

from tornproof.impl.errors import CorruptError, StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.file_pieces import pieces_of
from tornproof.impl.storage.interface import EntryKind, OpenMode, ReadableStorage, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_names import looks_like_partition

KEPT_DIRECTORY = "_recovered"
UNFINISHED_SUFFIX = ".recovering"
_KEPT_NAME = re.compile(rf"({PM_FILE}|{re.escape(DATA_FILE)}\.from-\d+)(\.\d+)?({re.escape(UNFINISHED_SUFFIX)})?")


def kept_name(storage: ReadableStorage, table_path: str, file: str, start_bytes: int) -> str:
    """Return the path below the table for keeping the bytes of `file` from `start_bytes` on.

    It is the existing one if an earlier run kept the same bytes, and else an unused one. Raises CorruptError where its
    directories cannot be made, so that a plan does not promise what the run cannot do.
    """
    first = f"{KEPT_DIRECTORY}/{file}" + (f".from-{start_bytes}" if start_bytes else "")

    for directory in _directories(table_path, first)[1:]:
        _check_directory(storage, table_path, directory)

    def is_usable(name: str) -> bool:
        path = f"{table_path}/{name}"
        kind = storage.kind(path)
        is_copy = kind is EntryKind.FILE and _is_copy(storage, path, f"{table_path}/{file}", start_bytes)
        return is_copy or kind is EntryKind.MISSING

    names = itertools.chain([first], (f"{first}.{number}" for number in itertools.count(1)))
    return next(filter(is_usable, names))


def _check_directory(storage: ReadableStorage, table_path: str, directory: str) -> None:
    """Raise CorruptError where something else is than a directory, or one may be made."""
    own_kind = storage.own_kind(directory)
    if own_kind is not EntryKind.MISSING and storage.kind(directory) is not EntryKind.DIRECTORY:
        actual = "a symbolic link to none" if own_kind is EntryKind.LINK else "a file"
        expected = "a directory for the bytes to keep, or nothing"
        raise CorruptError(directory.removeprefix(f"{table_path}/"), "file", None, expected, actual)


def keep(storage: Storage, table_path: str, file: str, start_bytes: int, kept_as: str) -> None:
    """Copy the bytes of `file` from `start_bytes` on to `kept_as`, durably, unless that exists; raises StorageError.

    A copy and not a link, because the partition may be on another volume than the table.
    """
    path = f"{table_path}/{kept_as}"
    directories = _directories(table_path, kept_as)
    if storage.kind(path) is EntryKind.MISSING:
        for directory in directories[1:]:
            if storage.kind(directory) is EntryKind.MISSING:
                storage.mkdir(directory)
        try:
            _copy(storage, f"{table_path}/{file}", start_bytes, path + UNFINISHED_SUFFIX)
        except StorageError:
            # A partial copy would only fill the disk.
            with suppress(StorageError):
                storage.unlink(path + UNFINISHED_SUFFIX)
            raise
        storage.rename(path + UNFINISHED_SUFFIX, path)
    # Also for bytes that an earlier run kept, because it may have ended before their names were durable.
    for directory in reversed(directories):
        storage.sync_directory(directory)


def unfinished_files(storage: ReadableStorage, table_path: str, partition: str) -> list[str]:
    """Return the unfinished files, relative to the table, of an interrupted recovery of the partition."""
    own = [f"{partition}/{PM_FILE}{UNFINISHED_SUFFIX}"]
    directory = f"{KEPT_DIRECTORY}/{partition}"
    kept = [f"{directory}/{name}" for name in _names(storage, f"{table_path}/{directory}") if _is_unfinished(name)]
    return [name for name in own + kept if storage.own_kind(f"{table_path}/{name}") in (EntryKind.FILE, EntryKind.LINK)]


def kept_files(storage: ReadableStorage, table_path: str) -> tuple[list[str], list[str]]:
    """Return all kept files, relative to the table, and everything else in their directories.

    Symbolic links are never followed: what they lead to belongs to somebody else.
    """
    if storage.own_kind(f"{table_path}/{KEPT_DIRECTORY}") is EntryKind.LINK:
        return [], [KEPT_DIRECTORY]
    ours: list[str] = []
    foreign: list[str] = []
    for partition in _names(storage, f"{table_path}/{KEPT_DIRECTORY}"):
        directory = f"{KEPT_DIRECTORY}/{partition}"
        if (
            not looks_like_partition(partition)
            or storage.own_kind(f"{table_path}/{directory}") is not EntryKind.DIRECTORY
        ):
            foreign.append(directory)
            continue
        for name in _names(storage, f"{table_path}/{directory}"):
            own_kind = storage.own_kind(f"{table_path}/{directory}/{name}")
            is_kept = _KEPT_NAME.fullmatch(name) and own_kind is EntryKind.FILE
            (ours if is_kept else foreign).append(f"{directory}/{name}")
    return ours, foreign


def forget_files(storage: Storage, table_path: str, files: list[str]) -> None:
    """Remove kept files, then empty directories of recovery."""
    for file in files:
        storage.unlink(f"{table_path}/{file}")
    kept = f"{table_path}/{KEPT_DIRECTORY}"
    for directory in (*(f"{kept}/{name}" for name in _names(storage, kept) if looks_like_partition(name)), kept):
        if storage.own_kind(directory) is EntryKind.DIRECTORY and not storage.listdir(directory):
            storage.rmdir(directory)
    storage.sync_directory(table_path)


def _is_unfinished(name: str) -> bool:
    return name.endswith(UNFINISHED_SUFFIX) and _KEPT_NAME.fullmatch(name) is not None


def _names(storage: ReadableStorage, path: str) -> tuple[str, ...]:
    return storage.listdir(path) if storage.kind(path) is EntryKind.DIRECTORY else ()


def _directories(table_path: str, kept_as: str) -> list[str]:
    """Return the table's directory and those below it on the path of a kept file."""
    names = kept_as.split("/")[:-1]
    return ["/".join((table_path, *names[:count])) for count in range(len(names) + 1)]


def _copy(storage: Storage, source_path: str, start_bytes: int, target_path: str) -> None:
    with (
        storage.open_for_reading(source_path) as source,
        storage.open_for_writing(target_path, OpenMode.NEW) as target,
    ):
        # Before there are bytes in it that others may not read.
        storage.take_permissions(source_path, target_path)
        end_bytes = source.size_bytes()
        for offset_bytes, piece in pieces_of(source, start_bytes):
            # What has no bytes on the disk gets none here, but for the last piece, which makes the file as long.
            if piece.count(0) < len(piece) or offset_bytes + len(piece) >= end_bytes:
                target.pwrite(piece, offset_bytes - start_bytes)
        target.fsync()


def _is_copy(storage: ReadableStorage, copy_path: str, path: str, start_bytes: int) -> bool:
    with storage.open_for_reading(copy_path) as copy, storage.open_for_reading(path) as source:
        if copy.size_bytes() != source.size_bytes() - start_bytes:
            return False
        pairs = zip(pieces_of(copy), pieces_of(source, start_bytes), strict=False)
        return all(ours == theirs for (_, ours), (_, theirs) in pairs)
