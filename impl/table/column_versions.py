"""`_cv`: the name suffixes of the files of added or renamed columns, and the rows that are older than a column."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set

import msgspec

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import cv as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.storage.interface import EntryKind, ReadableStorage, Storage
from tornproof.impl.txn.transaction import I64_MAX
from tornproof.impl.txn.write import StorePlan, WordStore, offset_beside, whole_steps, words_of

CV_FILE = "_cv"
CV_LIMIT_BYTES = 16 << 20
NEW_FILE_BYTES = 4096
NO_NAME_TXN = -1
DEFAULT_PARTITION = -(1 << 63)
DICTIONARY = DEFAULT_PARTITION + 1
HEADER_BYTES = layout.ColumnVersionsHeader.layout.size_bytes
ENTRY_BYTES = layout.ColumnVersion.layout.size_bytes
WORD_BYTES = 8


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

    def after(
        self, row_counts: Mapping[int, int], *, dropped: Set[int], written: Set[int], column_ids: Iterable[int]
    ) -> ColumnVersions:
        """Return what a commit leaves of these, whose partitions then have so many rows by their starts.

        The partitions that it has dropped have no entries any more. Of those that it has written no row is older than
        a column, because data.parquet has a value or null for each.
        """
        kept = ColumnVersions({key: entry for key, entry in self.entries.items() if key[0] not in dropped})
        kept = kept._until(max(row_counts, default=DEFAULT_PARTITION), row_counts)
        mentioned = {column_id for _, column_id in kept.entries}.intersection(column_ids)
        return kept._with(
            kept._entry(timestamp, column_id, column_top=0)
            for timestamp, column_id in itertools.product(written, mentioned)
            if kept.top(timestamp, column_id, row_counts[timestamp])
        )

    def _until(self, last: int, row_counts: Mapping[int, int]) -> ColumnVersions:
        """Return what holds after the last partition was dropped: columns that came in it begin behind the new last.

        As after a server's DROP PARTITION: it would put rows into that partition, and take its columns for absent.
        """
        late = [
            column_id
            for (timestamp, column_id), entry in self.entries.items()
            if timestamp == DEFAULT_PARTITION and entry.column_top > last
        ]
        moved = self._with(self._entry(DEFAULT_PARTITION, column_id, column_top=last) for column_id in late)
        return moved._with(
            self._entry(last, column_id, column_top=row_counts[last])
            for column_id in late
            if last in row_counts and (last, column_id) not in self.entries
        )

    def _entry(self, timestamp: int, column_id: int, *, column_top: int) -> layout.ColumnVersion:
        return layout.ColumnVersion(
            partition_timestamp=timestamp,
            column_index=column_id,
            name_txn=self.name_txn(timestamp, column_id),
            column_top=column_top,
        )

    def _with(self, entries: Iterable[layout.ColumnVersion]) -> ColumnVersions:
        return ColumnVersions(
            {**self.entries, **{(entry.partition_timestamp, entry.column_index): entry for entry in entries}}
        )

    def encode(self) -> bytes:
        """Return the bytes of an area, in the order in which servers search it."""
        return b"".join(self.entries[key].pack() for key in sorted(self.entries))


def suffixed(name: str, name_txn: int) -> str:
    """Return a file's name with the suffix, if there is one."""
    return name if name_txn == NO_NAME_TXN else f"{name}.{name_txn}"


def read_column_versions(storage: ReadableStorage, path: str, *, version: int) -> ColumnVersions:
    """Read `_cv`; raises as `decode_column_versions` does, UnsupportedError for more than 16 MiB, StorageError."""
    return decode_column_versions(read_file(storage, path), version=version, file=CV_FILE)


def read_file(storage: ReadableStorage, path: str) -> bytes:
    """Return the bytes of `_cv`; raises UnsupportedError for more than 16 MiB, StorageError."""
    with storage.open_for_reading(path) as file:
        size_bytes = file.size_bytes()
        if size_bytes > CV_LIMIT_BYTES:
            raise UnsupportedError(CV_FILE, "size", None, f"at most {CV_LIMIT_BYTES}", size_bytes)
        return file.pread(size_bytes, 0)


def decode_column_versions(data: Buffer, *, version: int, file: str) -> ColumnVersions:
    """Decode the committed area.

    `version` is the COLUMN_VERSION of the committed record in `_txn`; the file may be one commit ahead of it, because
    `_cv` is committed first (docs/format.md). Raises CorruptError.
    """
    header = layout.ColumnVersionsHeader.unpack(data, 0, file=file)
    if header.version - version not in (0, 1):
        raise CorruptError(file, "VERSION", 0, f"{version}, as in `_txn`, or 1 more", header.version)
    area = Area.of(header, version)
    if area.size < 0 or area.size % ENTRY_BYTES or area.offset < 0 or area.end > len(data):
        expected = f"a multiple of {ENTRY_BYTES} that fits behind {area.offset} into {len(data)} bytes"
        offset_bytes = layout.ColumnVersionsHeader.layout.offset_of(f"{area.name}_size")
        raise CorruptError(file, f"{area.name.upper()}_SIZE", offset_bytes, expected, area.size)
    entries = [
        layout.ColumnVersion.unpack(data, position, file=file) for position in range(area.offset, area.end, ENTRY_BYTES)
    ]
    keys = [(entry.partition_timestamp, entry.column_index) for entry in entries]
    for number, (before, key) in enumerate(itertools.pairwise(keys), 1):
        if key <= before:
            expected = f"a partition and column after {before}, as servers search them"
            raise CorruptError(file, "order of the entries", area.offset + number * ENTRY_BYTES, expected, key)
    return ColumnVersions({})._with(entries)


def plan_column_versions(current_file: Buffer, following: ColumnVersions, *, version: int) -> StorePlan:
    """Plan how to store `following` into a `_cv` as the version after `version`, the committed one (docs/format.md).

    A killed commit may have left that version there. Raises CorruptError as `decode_column_versions` does,
    UnsupportedError if the file would be larger than readers accept.
    """
    decode_column_versions(current_file, version=version, file=CV_FILE)
    if version == I64_MAX:
        raise UnsupportedError(CV_FILE, "VERSION", _VERSION_OFFSET, f"less than {I64_MAX}", version)
    header = layout.ColumnVersionsHeader.unpack(current_file, 0, file=CV_FILE)
    live, free = Area.of(header, version), Area.of(header, version + 1)
    content = following.encode()
    offset = offset_beside(max(live.offset, HEADER_BYTES), live.size, len(content), HEADER_BYTES)
    file_size_bytes = max(len(current_file), whole_steps(offset + len(content)))
    if file_size_bytes > CV_LIMIT_BYTES:
        raise UnsupportedError(CV_FILE, "size", None, f"at most {CV_LIMIT_BYTES}", file_size_bytes)
    slot = b"".join(number.to_bytes(WORD_BYTES, "little") for number in (offset, len(content)))
    slot_offset = layout.ColumnVersionsHeader.layout.offset_of(f"{free.name}_offset")
    return StorePlan(
        file_size_bytes=file_size_bytes,
        record_stores=(*words_of(content, offset, WORD_BYTES), *words_of(slot, slot_offset, WORD_BYTES)),
        version_store=_version_store(version + 1),
    )


def is_ahead(storage: ReadableStorage, path: str, version: int) -> bool:
    """Return whether a `_cv` has the version after the committed one, which a killed commit left; raises StorageError.

    Servers that look for the committed one there wait for it in vain.
    """
    if storage.kind(path) is EntryKind.MISSING:
        return False
    with storage.open_for_reading(path) as file:
        stored = file.pread(WORD_BYTES, _VERSION_OFFSET)
    return len(stored) == WORD_BYTES and int.from_bytes(stored, "little", signed=True) == version + 1


def take_back(storage: Storage, path: str, version: int) -> None:
    """Store the committed version in a `_cv` that is ahead of it, whose area is as it was; raises StorageError."""
    store = _version_store(version)
    with storage.open_for_writing(path) as file, file.map(HEADER_BYTES) as mapping:
        mapping.store_u64(store.offset_bytes, store.value)
        mapping.msync()


class Area(msgspec.Struct, frozen=True):
    """Where one of the two areas is."""

    name: str
    offset: int
    size: int

    @classmethod
    def of(cls, header: layout.ColumnVersionsHeader, version: int) -> Area:
        """Return the area that `version` selects."""
        name = "ab"[version % 2]
        return cls(name, getattr(header, f"{name}_offset"), getattr(header, f"{name}_size"))

    @property
    def end(self) -> int:
        """The offset behind its entries."""
        return self.offset + self.size


_VERSION_OFFSET = layout.ColumnVersionsHeader.layout.offset_of("version")


def _version_store(version: int) -> WordStore:
    return WordStore(offset_bytes=_VERSION_OFFSET, size_bytes=WORD_BYTES, value=version % (1 << 64))
