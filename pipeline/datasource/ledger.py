"""Which batches of a query are in a table, so that each is added once however often its job is tried again.

A table has for each query a file with the last batch. A commit is announced in a file before, with the row counts of
all intervals after it, and the next job decides by the committed version what became of one whose driver was killed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tornproof.impl.errors import CorruptError, TornproofError
from tornproof.impl.table.partition_names import interval_end, interval_start
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Transaction
from tornproof.pipeline.whole_file import whole_file

LEDGER_DIRECTORY = "_batches"
DONE, PENDING = ".json", ".pending"
UNKNOWN = -1
"""The row count of an interval in which rows replaced others."""


class UnsettledBatchError(TornproofError):
    """A driver was killed while it committed, and other writers have committed since: nobody knows whether it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of a query; batches of one query have ascending numbers."""

    query: str
    number: int

    @property
    def file(self) -> str:
        """The name of the query's file, without its ending."""
        return hashlib.blake2b(self.query.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What is written before the commit of a batch: the version that it makes, and the digest of its row counts.

    The counts of the intervals in `replaced` are unknown.
    """

    query: str
    number: int
    version: int
    replaced: tuple[int, ...]
    counts: str


class Ledger:
    """The batches of one table; to be changed under the writer's lock alone."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._directory = Path(table.path, LEDGER_DIRECTORY)

    def has(self, batch: Batch) -> bool:
        """Return whether the batch, or a later one of its query, is in the table for certain."""
        content = self._read(batch.file + DONE)
        return content is not None and content["number"] >= batch.number

    def settle(self, transaction: Transaction) -> None:
        """Decide for each announced commit whether it came about; raises UnsettledBatchError, CorruptError."""
        for path in sorted(self._directory.glob(f"*{PENDING}")) if self._directory.is_dir() else ():
            content = self._read(path.name)
            if content is None:
                continue
            said = Announcement(**{**content, "replaced": tuple(content["replaced"])})
            if transaction.version > said.version:
                raise UnsettledBatchError(
                    f"{path}: batch {said.number} of the query {said.query!r} was interrupted when it made version "
                    f"{said.version}, and the table has version {transaction.version} now; rename the file to end in "
                    f"{DONE} if the rows of the batch are there, else remove it"
                )
            counts = row_counts(self._table, transaction)
            if transaction.version == said.version and _digest(counts, said.replaced) == said.counts:
                self._write(path.name, DONE, {"query": said.query, "number": said.number})
            path.unlink()

    def announce(self, batch: Batch, version: int, counts: Mapping[int, int]) -> None:
        """Write down that the commit of a batch will make this version with these row counts of intervals."""
        self._directory.mkdir(exist_ok=True)
        replaced = tuple(sorted(key for key, count in counts.items() if count == UNKNOWN))
        said = Announcement(
            query=batch.query,
            number=batch.number,
            version=version,
            replaced=replaced,
            counts=_digest(counts, replaced),
        )
        self._write(batch.file + PENDING, PENDING, asdict(said))

    def confirm(self, batch: Batch) -> None:
        """Write down that the batch is in the table."""
        self._write(batch.file + PENDING, DONE, {"query": batch.query, "number": batch.number})
        (self._directory / (batch.file + PENDING)).unlink()

    def _write(self, name: str, ending: str, content: Mapping[str, Any]) -> None:
        with whole_file(self._directory / (name.removesuffix(PENDING) + ending)) as file:
            file.write(json.dumps(content).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self._directory / name
        try:
            content = json.loads(path.read_text())
            if isinstance(content["query"], str) and isinstance(content["number"], int):
                return dict(content)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            pass
        raise CorruptError(f"{LEDGER_DIRECTORY}/{name}", "content", None, "a batch as JSON", "something else")


def row_counts(table: Table, transaction: Transaction) -> Counter[int]:
    """Return how many rows each interval has."""
    counts: Counter[int] = Counter()
    for partition in transaction.partitions:
        counts[interval_of(table, partition.timestamp)[0]] += partition.row_count
    return counts


def interval_of(table: Table, timestamp: int) -> tuple[int, int]:
    """Return the start and the end of the interval that a time lies in, of the time itself if there is none."""
    assert table.metadata is not None, "a writer has opened the table"
    by, nanoseconds = table.metadata.partition_by, table.metadata.counts_nanoseconds
    start = interval_start(timestamp, by, nanoseconds=nanoseconds)
    end = interval_end(timestamp, by, nanoseconds=nanoseconds)
    return (timestamp, timestamp + 1) if start is None or end is None else (start, end)


def _digest(counts: Mapping[int, int], replaced: tuple[int, ...]) -> str:
    known = sorted((key, count) for key, count in counts.items() if key not in replaced and count)
    return hashlib.blake2b(json.dumps([known, sorted(replaced)]).encode(), digest_size=16).hexdigest()
