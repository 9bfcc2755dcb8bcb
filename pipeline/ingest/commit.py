"""Commits rows together with a record of their sources, atomically.

Each run has an entry in the table's `_archive`: the digests of its files, and the version of its commit. The entry is
PENDING before that commit, with the numbers by which its version is recognized, and DONE afterwards; a commit that is
rejected removes it. A run that finds a pending entry decides by the committed version whether it was committed, so no
file is added twice, and none is skipped. All names that end in INPROGRESS are unfinished, and removed by the next run.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from tornproof.impl.errors import CorruptError, TornproofError
from tornproof.impl.storage.interface import EntryKind, File, OpenMode, ReadableStorage, Storage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.announced_version import AnnouncedVersion
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.recovery import remove_directory
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions

ARCHIVE_DIRECTORY = "_archive"
SPOOL_DIRECTORY = "spool"
INPROGRESS = ".inprogress"
PENDING = ".pending"
DONE = ".json"
REJECTS_PLACE = ".rejects"
"""What a file is called that names the file of a run's rejects, where that is in a folder of several tables."""
ENTRY_BYTES_MAX = 1 << 30
FORMAT = 2
FORMATS = (1, FORMAT)
"""Entries of format 1 have no `partition_table_version`."""


class UnsettledRunError(TornproofError):
    """A run was interrupted, and it is not known whether it was committed, as if other writers committed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """The entry of a run: the version with its rows, its sources as documents with a `digest`, the known keys.

    `partition_table_version` is that of its version, unless an earlier release wrote the entry.
    """

    number: int
    version: int
    partition_table_version: int | None
    keys: Mapping[str, Sequence[str]]
    sources: tuple[Mapping[str, Any], ...]

    @property
    def digests(self) -> frozenset[str]:
        """The digests of its files."""
        return frozenset(source["digest"] for source in self.sources)


def ingested(storage: ReadableStorage, table_path: str) -> tuple[RunEntry, ...]:
    """Return the entries of all runs whose rows are in the committed version; changes nothing.

    Raises UnsettledRunError, CorruptError for a damaged entry, StorageError.
    """
    directory = f"{table_path}/{ARCHIVE_DIRECTORY}"
    if storage.kind(directory) is EntryKind.MISSING:
        return ()
    entries = []
    for name in storage.listdir(directory):
        if name.endswith(DONE):
            entries.append(_read_entry(storage, directory, name))
        elif name.endswith(PENDING):
            entry = _read_entry(storage, directory, name)
            if _is_committed(entry, open_table(storage, table_path).transaction(), f"{directory}/{name}"):
                entries.append(entry)
    return tuple(sorted(entries, key=lambda entry: entry.number))


def has_leftovers(storage: ReadableStorage, table_path: str) -> bool:
    """Return whether a run that was killed, or is at work, has a pending entry, a spool or unfinished files."""
    directory = f"{table_path}/{ARCHIVE_DIRECTORY}"
    if storage.kind(directory) is not EntryKind.DIRECTORY:
        return False
    names = storage.listdir(directory)
    unfinished = (name for name in (*names, *storage.listdir(table_path)) if name.endswith(INPROGRESS))
    return SPOOL_DIRECTORY in names or any(name.endswith(PENDING) for name in names) or any(unfinished)


@contextmanager
def open_archive(
    storage: Storage,
    table_path: str,
    options: WriterOptions | None = None,
    *,
    force: bool = False,
    allow_parquet_last: bool = False,
) -> Iterator[ArchiveTable]:
    """Become the only writer of a table, and finish or remove what an interrupted run left.

    A table that archives are made of may end with a parquet partition: one with runs, or a new one without any version,
    which an interrupted run may have created. Raises as `open_writer` and `ingested` do.
    """
    has_runs = storage.kind(f"{table_path}/{ARCHIVE_DIRECTORY}") is EntryKind.DIRECTORY
    allow_parquet_last |= has_runs or open_table(storage, table_path).transaction().version == 0
    with open_writer(
        storage, table_path, options=options, force=force, allow_parquet_last=allow_parquet_last
    ) as writer:
        archive = ArchiveTable(storage, writer)
        archive.finish_interrupted()
        yield archive


class ArchiveTable:
    """A table that runs are added to, under its writer's lock. Use `open_archive`."""

    def __init__(self, storage: Storage, writer: TableWriter) -> None:
        self.table = writer.table
        self.entries: tuple[RunEntry, ...] = ()
        self._storage = storage
        self._writer = writer
        self._directory = f"{writer.table.path}/{ARCHIVE_DIRECTORY}"

    @property
    def transaction(self) -> Transaction:
        """The committed version."""
        return self._writer.transaction

    @property
    def spool_path(self) -> str:
        """The directory of sorted runs until they are encoded; the next run removes what is left there."""
        return f"{self._directory}/{SPOOL_DIRECTORY}"

    def finish_interrupted(self) -> None:
        """Rename entries of committed runs to DONE; remove the others with their rejects, and all unfinished files."""
        self._make_directory()
        self.entries = ingested(self._storage, self.table.path)
        self._remove_rejects()
        committed = {entry.number for entry in self.entries}
        for name in self._storage.listdir(self._directory):
            path = f"{self._directory}/{name}"
            if name.endswith(PENDING) and int(name.removesuffix(PENDING)) in committed:
                self._storage.rename(path, path.removesuffix(PENDING) + DONE)
            elif name.endswith((PENDING, INPROGRESS)):
                self._storage.unlink(path)
            elif name == SPOOL_DIRECTORY:
                remove_directory(self._storage, path)
        # Even if nothing was renamed: a killed run may have renamed files without this sync.
        self._storage.sync_directory(self._directory)
        for name in self._storage.listdir(self.table.path):
            if name.endswith(INPROGRESS):
                remove_directory(self._storage, f"{self.table.path}/{name}")

    @property
    def next_number(self) -> int:
        """The number of the next run."""
        return max((entry.number for entry in self.entries), default=0) + 1

    def rejects_path(self, asked: str | None) -> str:
        """Return the file for the rejects of the next run, which in a folder that was asked for no other run has."""
        if asked is None:
            return self._own_rejects_path
        if self._storage.kind(asked) is EntryKind.MISSING:
            self._storage.mkdir(asked)
        paths = (f"{asked}/{self._rejects_prefix}{number:09d}.jsonl" for number in itertools.count(self.next_number))
        path = next(path for path in paths if self._storage.kind(path) is EntryKind.MISSING)
        self._storage.open_for_writing(path, OpenMode.NEW).close()
        publish_file(self._storage, self._directory, f"{self.next_number:09d}", REJECTS_PLACE, os.fsencode(path))
        return path

    def publish(
        self,
        *,
        sources: Sequence[Mapping[str, Any]],
        keys: Mapping[str, Sequence[str]],
        prepared: Sequence[PreparedPartition],
        rows: Iterable[pa.Table],
    ) -> RunEntry:
        """Commit prepared partitions, and rows for existing ones, with the entry of their sources.

        Raises as `TableWriter.commit` does; after an error that left something behind the next `open_archive` decides
        whether it was committed.
        """
        for each in prepared:
            self._writer.adopt(each)
        has_rows = bool(prepared)
        for table in rows:
            self._writer.write(table)
            has_rows |= bool(table.num_rows)
        entry = self._entry(sources, keys, has_rows=has_rows)
        name = f"{entry.number:09d}"
        publish_file(self._storage, self._directory, name, PENDING, _encode(entry))
        with self._writer.withdrawing(partial(self._withdraw, f"{self._directory}/{name}{PENDING}")):
            version = self._writer.commit()
        assert version == entry.version, (version, entry.version)
        self._storage.rename(f"{self._directory}/{name}{PENDING}", f"{self._directory}/{name}{DONE}")
        self._storage.sync_directory(self._directory)
        self.entries = (*self.entries, entry)
        return entry

    def _entry(
        self, sources: Sequence[Mapping[str, Any]], keys: Mapping[str, Sequence[str]], *, has_rows: bool
    ) -> RunEntry:
        """Return the next entry, which without rows is one of the committed version."""
        number = self.next_number
        version, record = self.transaction.version, self.transaction.record
        said = AnnouncedVersion(version=version, partition_table_version=record.partition_table_version)
        if has_rows:
            said = self._writer.announce(json.dumps([number, *sources]).encode())
        return RunEntry(
            number=number,
            version=said.version,
            partition_table_version=said.partition_table_version,
            sources=tuple(sources),
            keys=keys,
        )

    def _withdraw(self, path: str) -> None:
        """Remove the pending entry of a run that is known not to be committed."""
        self._storage.unlink(path)
        self._storage.sync_directory(self._directory)

    @property
    def _own_rejects_path(self) -> str:
        return f"{self._directory}/rejects-{self.next_number:09d}.jsonl"

    @property
    def _rejects_prefix(self) -> str:
        """What files of rejects in a folder of several tables begin with."""
        return f"{self.table.path.rpartition('/')[2]}-rejects-"

    def _remove_rejects(self) -> None:
        """Remove the rejects of a run that was not committed, because the next run gets its number."""
        place = f"{self._directory}/{self.next_number:09d}{REJECTS_PLACE}"
        paths = [self._own_rejects_path]
        has_place = self._storage.kind(place) is EntryKind.FILE
        if has_place:
            path = os.fsdecode(_content(self._storage, place))
            # A table that was renamed or copied does not know whose file that is now.
            paths += [path, f"{path}{INPROGRESS}"] if path.rpartition("/")[2].startswith(self._rejects_prefix) else []
        paths = [path for path in paths if self._storage.kind(path) is EntryKind.FILE]
        for path in paths:
            # Before they are removed: a kill must leave no lines in a file that is not known here any more.
            with self._storage.open_for_writing(path) as file:
                file.truncate(0)
                file.fsync()
        if has_place:
            # Before the file that it names: another table may have a file there as soon as this one is gone.
            self._storage.unlink(place)
            self._storage.sync_directory(self._directory)
        for path in paths:
            self._storage.unlink(path)
            self._storage.sync_directory(path.rpartition("/")[0])

    def _make_directory(self) -> None:
        if self._storage.kind(self._directory) is EntryKind.MISSING:
            self._storage.mkdir(self._directory)
        self._storage.sync_directory(self.table.path)


def unseen(found: Mapping[str, str], entries: Sequence[RunEntry]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files whose content is new, by path, and for the others the file that had it first."""
    first = {source["digest"]: str(source["file"]) for entry in entries for source in entry.sources}
    new: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for path, digest in found.items():
        if digest in first:
            skipped[path] = first[digest]
        else:
            new[path] = digest
            first[digest] = path
    return new, skipped


def prepared_path(directory: str, attempt: str) -> str:
    """Return the temporary path, with the suffix INPROGRESS, of a partition's directory built by an attempt."""
    return f"{directory}.{attempt}{INPROGRESS}"


def publish_file(storage: Storage, directory: str, name: str, suffix: str, content: bytes) -> None:
    """Write a file with that content, as `published_file` does."""
    with published_file(storage, directory, name, suffix) as file:
        file.pwrite(content, 0)


@contextmanager
def published_file(storage: Storage, directory: str, name: str, suffix: str) -> Iterator[File]:
    """Yield an empty temporary file, and rename it once it is durable; the name is durable, too.

    After an error it stays under its temporary name.
    """
    unfinished = f"{directory}/{name}{INPROGRESS}"
    with storage.open_for_writing(unfinished, OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        yield file
        file.fsync()
    storage.rename(unfinished, f"{directory}/{name}{suffix}")
    storage.sync_directory(directory)


def _is_committed(entry: RunEntry, transaction: Transaction, path: str) -> bool:
    said = AnnouncedVersion(version=entry.version, partition_table_version=entry.partition_table_version)
    is_committed = said.is_committed(transaction)
    if is_committed is None:
        raise UnsettledRunError(
            f"{path}: this run was interrupted when it made version {entry.version}, and the table has version "
            f"{transaction.version} now; rename the file to end in {DONE} if the rows of its sources are there, else "
            "remove it"
        )
    return is_committed


def _encode(entry: RunEntry) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(entry)}, indent=1).encode() + b"\n"


def _content(storage: ReadableStorage, path: str) -> bytes:
    with storage.open_for_reading(path) as file:
        return file.pread(min(file.size_bytes(), ENTRY_BYTES_MAX), 0)


def _read_entry(storage: ReadableStorage, directory: str, name: str) -> RunEntry:
    content = _content(storage, f"{directory}/{name}")
    try:
        document = json.loads(content)
        entry = RunEntry(
            number=int(document["number"]),
            version=int(document["version"]),
            sources=tuple(document["sources"]),
            keys={str(column): tuple(map(str, keys)) for column, keys in document["keys"].items()},
            partition_table_version=int(document["partition_table_version"]) if document["format"] == FORMAT else None,
        )
        if entry.digests and document["format"] in FORMATS and name.startswith(f"{entry.number:09d}."):
            return entry
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise CorruptError(
        file=f"{ARCHIVE_DIRECTORY}/{name}",
        field="content",
        offset_bytes=None,
        expected=f"the entry of a run of a format up to {FORMAT}",
        actual=content[:40],
    )
