"""Which batches of a query are in a table, so that each is added once however often its job is tried again.

A table has for each query a file with the last batch. A commit is announced in a file before, with the numbers by which
its version is recognized, and the next job decides by the committed version what became of one whose driver was killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornproof.impl.errors import CorruptError, TornproofError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition_names import interval_end, interval_start
from tornproof.impl.table.table import Table
from tornproof.impl.txn.announced_version import AnnouncedVersion
from tornproof.impl.txn.transaction import Transaction
from tornproof.pipeline.whole_file import PARTIAL, whole_file

LEDGER_DIRECTORY = "_batches"
DONE, PENDING = ".json", ".pending"


class UnsettledBatchError(TornproofError):
    """A driver was killed while it committed, and nobody knows whether it did, as if other writers committed since."""


class OtherCheckpointError(TornproofError):
    """A query has the name of another one, whose checkpoint has numbered other batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of a query; batches of one query have ascending numbers.

    `checkpoint` is the id of the one that numbers them, or None if the user does, or if it cannot be read.
    """

    query: str
    number: int
    checkpoint: str | None = None

    @property
    def file(self) -> str:
        """The name of the query's file, without its ending."""
        return hashlib.blake2b(self.query.encode(), digest_size=16).hexdigest()

    @property
    def document(self) -> dict[str, Any]:
        """The content of that file."""
        checkpoint = {} if self.checkpoint is None else {"checkpoint": self.checkpoint}
        return {"query": self.query, "number": self.number, **checkpoint}


class Ledger:
    """The batches of one table; to be changed under the writer's lock alone."""

    def __init__(self, table: Table) -> None:
        self._directory = Path(table.path, LEDGER_DIRECTORY)

    def has(self, batch: Batch) -> bool:
        """Return whether the batch, or a later one of its query, is in the table; raises OtherCheckpointError."""
        content = self._read(batch.file + DONE)
        if content is None:
            return False
        if len({content["checkpoint"], batch.checkpoint} - {None}) > 1:
            raise OtherCheckpointError(
                f"{self._directory / batch.file}{DONE}: batch {batch.number} of the query {batch.query!r} has another "
                "checkpoint than those before, and their numbers do not tell which of them are in the table; give "
                "another name of `query`"
            )
        return bool(content["number"] >= batch.number)

    def settle(self, transaction: Transaction) -> None:
        """Decide for each announced commit whether it came about; raises UnsettledBatchError, CorruptError.

        Also remove what a killed job has written only in part; the caller holds the writer's lock.
        """
        for path in sorted(self._directory.glob(f".*{PARTIAL}")):
            path.unlink(missing_ok=True)
        for path in sorted(self._directory.glob(f"*{PENDING}")):
            content = self._read(path.name, "version")
            if content is None:
                continue
            batch = Batch(query=content["query"], number=content["number"], checkpoint=content["checkpoint"])
            said = AnnouncedVersion(
                version=content["version"], partition_table_version=content.get("partition_table_version")
            )
            is_committed = said.is_committed(transaction)
            if is_committed is None:
                raise UnsettledBatchError(
                    f"{path}: batch {batch.number} of the query {batch.query!r} was interrupted when it made version "
                    f"{said.version}, and the table has version {transaction.version} now; rename the file to end in "
                    f"{DONE} if the rows of the batch are there, else remove it"
                )
            if is_committed:
                self._write(path.name, DONE, batch.document)
            path.unlink()

    def announce(self, batch: Batch, said: AnnouncedVersion) -> None:
        """Write down that the commit of a batch will make this version."""
        self._directory.mkdir(exist_ok=True)
        OperatingSystemStorage().sync_directory(str(self._directory.parent))
        numbers = {"version": said.version, "partition_table_version": said.partition_table_version}
        self._write(batch.file + PENDING, PENDING, batch.document | numbers)

    def confirm(self, batch: Batch) -> None:
        """Write down that the batch is in the table."""
        self._write(batch.file + PENDING, DONE, batch.document)
        (self._directory / (batch.file + PENDING)).unlink()

    def withdraw(self, batch: Batch) -> None:
        """Remove the announcement of a batch that is known not to be committed."""
        (self._directory / (batch.file + PENDING)).unlink()
        OperatingSystemStorage().sync_directory(str(self._directory))

    def _write(self, name: str, ending: str, content: Mapping[str, Any]) -> None:
        with whole_file(self._directory / (name.removesuffix(PENDING) + ending)) as file:
            file.write(json.dumps(content).encode())

    def _read(self, name: str, *numbers: str) -> dict[str, Any] | None:
        """Return the content of a file that has these numbers beside the batch, or None if there is no such file."""
        path = self._directory / name
        try:
            # Earlier releases wrote no checkpoint down.
            content: dict[str, Any] = {"checkpoint": None} | json.loads(path.read_text())
            texts_fit = isinstance(content["query"], str) and isinstance(content["checkpoint"], str | None)
            if texts_fit and all(isinstance(content[key], int) for key in ("number", *numbers)):
                return content
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            pass
        raise CorruptError(f"{LEDGER_DIRECTORY}/{name}", "content", None, "a batch as JSON", "something else")


def interval_of(table: Table, timestamp: int) -> tuple[int, int]:
    """Return the start and the end of the interval that a time lies in, of the time itself if there is none."""
    assert table.metadata is not None, "a writer has opened the table"
    by, nanoseconds = table.metadata.partition_by, table.metadata.counts_nanoseconds
    start = interval_start(timestamp, by, nanoseconds=nanoseconds)
    end = interval_end(timestamp, by, nanoseconds=nanoseconds)
    return (timestamp, timestamp + 1) if start is None or end is None else (start, end)
