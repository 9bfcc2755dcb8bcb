"""The files of a table, read without a writer: slots, directories, chains, locks, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from tornproof.harness.explorers.model_based.rows import Rows
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind
from tornproof.impl.errors import ProblemError
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.chain import walk
from tornproof.impl.pm.footer import FooterPosition, decode_block_offsets
from tornproof.impl.pm.header import decode_header
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange
from tornproof.impl.read.decoding import SYNCHRONOUS, by_threads
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.interface import EntryKind, LockMode, Storage
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, read_published
from tornproof.impl.table.partition_names import directory_names, looks_like_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import TXN_FILE, Partition, Transaction, area_of, decode_transaction, safe_read
from tornproof.model.table import DirectoryName, Entry, State, Version

PUBLISHED_SIZE_BYTES = 8
IMAGE_BYTES_MAX = 1 << 28
TEXT_LENGTH_MAX = 4_000
"""Of a violation; values may be long."""
_OPENINGS = (CallKind.OPEN_FOR_READING, CallKind.OPEN_FOR_WRITING)

NAME_FORMATS = {
    PartitionBy.NONE: "default",
    PartitionBy.HOUR: "%Y-%m-%dT%H",
    PartitionBy.DAY: "%Y-%m-%d",
    PartitionBy.WEEK: "%G-W%V",
    PartitionBy.MONTH: "%Y-%m",
    PartitionBy.YEAR: "%Y",
}
"""How directories of partitions are named, for `strftime`."""


class ViolationError(Exception):
    """The files or a result of the implementation are not what the model allows."""

    def __init__(self, broken: str, text: str) -> None:
        """Name the violated property, and how it is violated."""
        text = (
            text
            if len(text) <= TEXT_LENGTH_MAX
            else f"{text[: TEXT_LENGTH_MAX // 2]} … {text[-TEXT_LENGTH_MAX // 2 :]}"
        )
        super().__init__(f"{broken}: {text}")
        self.broken = broken
        self.text = text

    def alone(self) -> ViolationError:
        """Return the same without the frames in which it happened, whose views of files would live as long as it."""
        return ViolationError(self.broken, self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it is made of."""
        return ViolationError, (self.broken, self.text)


class Process(FaultyStorage):
    """A process on a storage: when it ends, all files that it has open are closed, whatever it was doing."""

    def __init__(self, inner: Storage) -> None:
        """Start without faults."""
        super().__init__(inner)
        self._opened: list[object] = []
        self._open: dict[int, str] = {}

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Remember what is opened, and what is still open."""
        if call.kind is CallKind.CLOSE:
            self._open.pop(call.file, None)
        return super().intercept(call, run if call.kind not in _OPENINGS else lambda: self._remembered(call, run()))

    def _remembered(self, call: Call, answer: Answer) -> Answer:
        self._opened.append(answer)
        self._open[call.file] = call.path
        return answer

    def left_open(self) -> list[str]:
        """Return the paths of all files that it has opened and not closed."""
        return list(self._open.values())

    def end(self) -> None:
        """Close all files, as the operating system does when a process dies."""
        for file in self._opened:
            file.close()  # type: ignore[attr-defined]
        self._opened.clear()
        self._open.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The published generations of a directory, newest first, in the bytes that hold them."""

    positions: tuple[FooterPosition, ...]
    content: bytes
    file: str

    @property
    def end_bytes(self) -> int:
        """The published size."""
        return self.positions[0].end_bytes

    def blocks_of(self, position: FooterPosition) -> tuple[int, ...]:
        """Return where the row group blocks of a generation begin, in the order of the rows."""
        header = decode_header(self.content, file=self.file)
        return tuple(decode_block_offsets(self.content, position, header, file=self.file))


@dataclass(slots=True, kw_only=True)
class Files:
    """A table on a storage; remembers the committed bytes that it has read, which must never change.

    `holes` are ranges of a data.parquet that have no bytes, and are not read. With `has_threads` values are decoded
    beside the thread that reads files, as commands do it.
    """

    storage: Storage
    path: str
    metadata: TableMetadata
    rows: Rows
    names: dict[DirectoryName, str] = field(default_factory=dict)
    holes: dict[DirectoryName, range] = field(default_factory=dict)
    has_threads: bool = False
    _published: dict[DirectoryName, bytes] = field(default_factory=dict)
    _committed: dict[DirectoryName, bytes] = field(default_factory=dict)
    _chains: dict[DirectoryName, Chain] = field(default_factory=dict)
    _ends: dict[DirectoryName, set[int]] = field(default_factory=dict)
    _snapshot: Snapshot | None = None

    def table(self) -> Table:
        """Open the table."""
        return open_table(self.storage, self.path)

    def image(self) -> DiskImage:
        """Return a copy of all files of the table."""
        return DiskImage.capture(self.storage, self.path, size_bytes_max=IMAGE_BYTES_MAX)

    def transaction(self) -> Transaction:
        """Return the committed version."""
        return safe_read(self.storage, f"{self.path}/{TXN_FILE}")

    def name_of(self, directory: DirectoryName) -> str:
        """Return the name of a directory on disk."""
        if directory not in self.names:
            timestamp, name_txn = directory
            (self.names[directory],) = directory_names(
                timestamp, name_txn, self.metadata.partition_by, nanoseconds=self.metadata.counts_nanoseconds
            )
            self._check_name(directory)
        return self.names[directory]

    def _check_name(self, directory: DirectoryName) -> None:
        """Compare a name with what the standard library makes of the time, unless the partition was split."""
        timestamp, name_txn = directory
        microseconds = timestamp // (1_000 if self.metadata.counts_nanoseconds else 1)
        start = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
        interval, name = start.strftime(NAME_FORMATS[self.metadata.partition_by]), self.names[directory]
        expected = interval if name_txn < 0 else f"{interval}.{name_txn}"
        is_split = len(name) > len(expected) and name.startswith(interval)
        if name != expected and not is_split:
            raise ViolationError("the files are what the model allows", f"{expected} is named {name}")

    def files_of(self, directory: DirectoryName) -> PartitionFiles:
        """Return the files of a directory."""
        name = self.name_of(directory)
        return PartitionFiles(storage=self.storage, path=f"{self.path}/{name}", name=name)

    def directories(self) -> set[str]:
        """Return the names of the partition directories that exist."""
        names = (name for name in self.storage.listdir(self.path) if looks_like_partition(name))
        return {name for name in names if self.storage.kind(f"{self.path}/{name}") is EntryKind.DIRECTORY}

    def chain(self, directory: DirectoryName) -> Chain:
        """Return a directory's chain; ViolationError where published bytes have changed."""
        files = self.files_of(directory)
        published = read_published(files).content
        self._check_unchanged(directory, self._published, published, PUBLISHED_SIZE_BYTES, PM_FILE)
        known = self._chains.get(directory)
        if known is None or known.content != published:
            positions = tuple(walk(published, file=files.pm_label))
            known = self._chains[directory] = Chain(positions=positions, content=published, file=files.pm_label)
            # A recovery may take a generation off the chain, and a later one lead to it.
            self._ends.setdefault(directory, set()).update(position.end_bytes for position in positions)
        return known

    def known_ends(self, directory: DirectoryName) -> frozenset[int]:
        """Return where the generations of a directory end that were in its chain at any time."""
        return frozenset(self._ends.get(directory, ()))

    def check_data(self, directory: DirectoryName, committed_token: int = 0) -> None:
        """Remember data.parquet up to a token; ViolationError where bytes remembered before have changed."""
        hole = self.holes.get(directory, range(0))
        size_bytes = max(committed_token, len(self._committed.get(directory, b"")) + len(hole))
        with self.storage.open_for_reading(f"{self.files_of(directory).path}/{DATA_FILE}") as handle:
            data = handle.pread(hole.start, 0) + handle.pread(size_bytes - hole.stop, hole.stop)
        self._check_unchanged(directory, self._committed, data, 0, DATA_FILE)

    def data_size_bytes(self, directory: DirectoryName) -> int:
        """Return the size of a data.parquet, 0 where there is none."""
        path = f"{self.files_of(directory).path}/{DATA_FILE}"
        if self.storage.kind(path) is not EntryKind.FILE:
            return 0
        with self.storage.open_for_reading(path) as handle:
            return handle.size_bytes()

    def _check_unchanged(
        self, directory: DirectoryName, known: dict[DirectoryName, bytes], now: bytes, start: int, file: str
    ) -> None:
        before = known.get(directory, b"")
        if now[start : len(before)] != before[start:]:
            raise ViolationError("committed bytes never change", f"{self.name_of(directory)}/{file} is not what it was")
        known[directory] = now

    def forget(self, directory: DirectoryName) -> None:
        """Forget the bytes of a removed directory; another one may get its name."""
        for known in (self._published, self._committed, self._ends):
            known.pop(directory, None)

    def forget_generations(self) -> None:
        """Forget what was published, which a recovery of the table may reduce to the committed generations."""
        self._published.clear()
        self._chains.clear()
        self._ends.clear()
        self._snapshot = None

    def version_in_area(self, number: int) -> Version | None:
        """Return the version in the area of a version number, with counts for rows; None if it cannot be read."""
        try:
            return version_of(decode_transaction(self._txn(), file=TXN_FILE, version=number))
        except ProblemError:
            return None

    def is_area_before(self, number: int) -> bool:
        """Whether the area of a version is before that of its predecessor in the file."""
        base = txn_layout.BaseHeader.unpack(self._txn(), 0, file=TXN_FILE)
        return area_of(base, number).record_offset < area_of(base, number - 1).record_offset

    def _txn(self) -> bytes:
        return self.content(TXN_FILE) or b""

    def content(self, file: str) -> bytes | None:
        """Return what is in a file, by its path below the table; None where there is none."""
        path = f"{self.path}/{file}"
        if self.storage.kind(path) is not EntryKind.FILE:
            return None
        with self.storage.open_for_reading(path) as handle:
            return handle.pread(handle.size_bytes(), 0)

    def snapshot(self, transaction: Transaction) -> Snapshot:
        """Return a reader of a version."""
        if self._snapshot is None:
            self._snapshot = open_snapshot(self.table())
        return structs.replace(self._snapshot, transaction=transaction)

    def read(self, transaction: Transaction, partitions: tuple[Partition, ...]) -> dict[int, tuple[int, ...]]:
        """Return the rows of some of a version's parquet partitions, as readers read them, by partition timestamp."""
        found = {}
        for partition in partitions:
            if partition.is_parquet:
                alone = self.snapshot(structs.replace(transaction, partitions=(partition,)))
                found[partition.timestamp] = tuple(self._identities(alone))
        return found

    def read_where(
        self, transaction: Transaction, condition: str | None, times: TimeRange = ALL_TIMES
    ) -> tuple[int, ...]:
        """Return the rows of a version's parquet partitions for which a condition in SQL's syntax is true."""
        snapshot = self.snapshot(transaction)
        return tuple(self._identities(snapshot, times=times, where=snapshot.condition(condition)))

    def _identities(self, snapshot: Snapshot, **selection: Any) -> Iterator[int]:
        with by_threads() if self.has_threads else nullcontext(SYNCHRONOUS) as decoding:
            for batch in snapshot.batches(decoding=decoding, **selection):
                yield from self.rows.identify(batch)

    def is_pinned(self, version: int) -> bool:
        """Whether a version is locked."""
        with self.storage.open_for_writing(f"{self.path}/{PINS_FILE}") as handle:
            is_free = handle.try_lock(LockMode.EXCLUSIVE, offset_bytes=version, size_bytes=1)
            if is_free:
                handle.unlock(offset_bytes=version, size_bytes=1)
            return not is_free


def version_of(transaction: Transaction) -> Version:
    """Return a version with counts for rows, which is all that `_txn` says about them."""
    return Version(number=transaction.version, entries=tuple(map(entry_of, transaction.partitions)))


def entry_of(partition: Partition) -> Entry:
    """Return a partition as an entry of the model, with a count for its rows."""
    counted = (partition.row_count,) if partition.is_parquet else ()
    token = partition.token if partition.is_parquet else -1
    return Entry(directory=(partition.timestamp, partition.name_txn), rows=counted, token=token)


def counted(version: Version) -> Version:
    """Return a version of the model with counts for rows, as `_txn` has them."""
    entries = (each._replace(rows=(len(each.rows),) if each.token >= 0 else ()) for each in version.entries)
    return version._replace(entries=tuple(entries))


def expected_chain(state: State, name: DirectoryName) -> tuple[int, ...]:
    """Return the tokens of the generations that the newest one of a directory leads to, newest first."""
    generations = state.generations(name)
    number, chain = len(generations), []
    while number:
        chain.append(generations[number - 1].token)
        number = generations[number - 1].prev
    return tuple(chain)
