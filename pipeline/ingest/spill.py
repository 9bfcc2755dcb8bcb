"""Rows between reading and encoding: sorted runs in files of Arrow batches, each batch of one partition.

A run is mapped into memory, so that encoding a row group reads only its own rows.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import CorruptError
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.write.incoming_rows import in_time_order, portions, timestamps_of
from tornproof.pipeline.files import Location
from tornproof.pipeline.ingest.lines import LineReader, Taken
from tornproof.pipeline.ingest.schema import ArchiveSchema
from tornproof.pipeline.ingest.source import DamagedMemberError, Lines, Reject, SourceUnreadableError

SORTED_BYTES = 64 << 20
"""This many bytes of rows are sorted at once; everything else in a reading task is smaller."""


class Run(NamedTuple):
    """Sorted rows of one partition: a batch of a spool file. Sizes in rows and in bytes in memory."""

    partition: int
    spool: str
    batch: int
    row_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLines:
    """The result of one file; `rejects_path` has its rejected lines, "" if there are none."""

    path: str
    digest: str
    line_count: int
    row_count: int
    blank_count: int
    reject_counts: Mapping[str, int]
    rejects_path: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files are read; without a `directory` for spool files, lines are only counted."""

    schema: ArchiveSchema
    partition_by: PartitionBy
    directory: str | None

    def read(self, source: Location, digest: str, attempt: str) -> SourceLines:
        """Read a file whose digest is known; raises SourceUnreadableError, also where it has changed since.

        `attempt` is in the names of its files, so that several attempts do not conflict.
        """
        try:
            return self._read(source, Lines(source), digest, attempt)
        except DamagedMemberError as damage:
            # What was taken of the member before its check was known is left behind.
            return self._read(source, Lines(source, damage=damage), digest, f"{attempt}-again")

    def _read(self, source: Location, lines: Lines, digest: str, attempt: str) -> SourceLines:
        path, reader = str(source), LineReader(self.schema)
        counts: Counter[str] = Counter()
        row_count = blank_count = 0
        with _Spool(self, attempt) as spool:
            for piece in lines:
                taken = Taken(tables=[], rejects=[piece]) if isinstance(piece, Reject) else reader.take(piece)
                row_count += taken.row_count
                blank_count += taken.blank_count
                counts.update(reject.reason for reject in taken.rejects)
                spool.add(path, taken)
        if lines.digest != digest:
            raise SourceUnreadableError(f"{path}: changed while it was read")
        return SourceLines(
            path=path,
            digest=digest,
            line_count=lines.line_count,
            row_count=row_count,
            blank_count=blank_count,
            reject_counts=dict(sorted(counts.items())),
            rejects_path=spool.rejects_path,
            runs=tuple(spool.runs),
        )


class SortedRuns:
    """The rows of several runs of one partition, in the order of time; equal times in the order of the runs."""

    def __init__(self, runs: Sequence[Run], timestamp: str) -> None:
        """Map the files; raises CorruptError if a batch has not as many rows as its run."""
        self._opened = ExitStack()
        files: dict[str, pa.ipc.RecordBatchFileReader] = {}
        for run in runs:
            if run.spool not in files:
                mapped = self._opened.enter_context(pa.memory_map(run.spool))
                files[run.spool] = pa.ipc.open_file(mapped)
        self._batches = [_batch_of(run, files[run.spool]) for run in runs]
        self._times = [timestamps_of(pa.Table.from_batches([batch]), timestamp) for batch in self._batches]

    def slices(self, row_count: int) -> Iterator[pa.Table]:
        """Yield all rows, so many at a time; takes 16 bytes of memory for each row of the partition."""
        bases = np.cumsum([0, *map(len, self._times)])
        order = np.argsort(np.concatenate(self._times), kind="stable")
        done = [0] * len(self._batches)
        for start in range(0, len(order), row_count):
            chosen = order[start : start + row_count]
            # Runs are sorted, so the rows of each run in a slice are contiguous.
            counts = np.bincount(np.searchsorted(bases, chosen, "right") - 1, minlength=len(done)).tolist()
            parts, shifts, position = [], np.zeros(len(done), np.int64), 0
            for index, count in enumerate(counts):
                parts.append(self._batches[index].slice(done[index], count))
                shifts[index] = position - bases[index] - done[index]
                done[index] += count
                position += count
            positions = chosen + shifts[np.searchsorted(bases, chosen, "right") - 1]
            rows = pa.Table.from_batches([part for part in parts if part.num_rows])
            is_in_order = (positions[1:] > positions[:-1]).all()
            yield rows.combine_chunks() if is_in_order else rows.combine_chunks().take(pa.array(positions))

    def __enter__(self) -> Self:
        """Return the runs themselves."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the files; yielded tables must not be used afterwards."""
        self._batches.clear()
        self._times.clear()
        self._opened.close()


def _batch_of(run: Run, file: pa.ipc.RecordBatchFileReader) -> pa.RecordBatch:
    batch = file.get_batch(run.batch)
    if batch.num_rows != run.row_count:
        raise CorruptError(
            file=run.spool,
            field=f"rows of batch {run.batch}",
            offset_bytes=None,
            expected=run.row_count,
            actual=batch.num_rows,
        )
    return batch


@dataclass(slots=True)
class _Spool:
    """The spool file and the rejects of one source, created when needed."""

    reading: Reading
    attempt: str
    runs: list[Run] = field(default_factory=list)
    rejects_path: str = ""
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_bytes: int = 0
    _writer: pa.ipc.RecordBatchFileWriter | None = None
    _opened: ExitStack = field(default_factory=ExitStack)

    def add(self, path: str, taken: Taken) -> None:
        if self.reading.directory is None:
            return
        if taken.rejects:
            self._add_rejects(path, taken.rejects)
        self._waiting += taken.tables
        self._waiting_bytes += sum(table.nbytes for table in taken.tables)
        if self._waiting_bytes >= SORTED_BYTES:
            self._flush()

    def _add_rejects(self, path: str, rejects: Sequence[Reject]) -> None:
        self.rejects_path = self._path("rejects.jsonl")
        with Path(self.rejects_path).open("ab") as file:
            for reject in rejects:
                file.write(reject_line(path, reject))

    def _flush(self) -> None:
        if not self._waiting:
            return
        schema = self.reading.schema
        rows = in_time_order(pa.concat_tables(self._waiting).combine_chunks(), schema.timestamp)
        # Only what determines the division into partitions.
        metadata = TableMetadata(columns=(), partition_by=self.reading.partition_by, timestamp_id=-1)
        path = self._path("arrow")
        if self._writer is None:
            self._writer = self._opened.enter_context(pa.ipc.new_file(path, schema.arrow))
        for portion in portions(rows, schema.timestamp, metadata, ()):
            batches = portion.rows.combine_chunks().to_batches()
            for batch in batches:
                self._writer.write_batch(batch)
                self.runs.append(Run(portion.timestamp, path, len(self.runs), batch.num_rows, batch.nbytes))
        self._waiting, self._waiting_bytes = [], 0

    def _path(self, suffix: str) -> str:
        return f"{self.reading.directory}/{self.attempt}.{suffix}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with self._opened:
            if kind is None:
                self._flush()


def reject_line(path: str, reject: Reject) -> bytes:
    """Return a reject as a line of JSON; bytes of the raw line that are not UTF-8 are written as \\xNN."""
    document = {
        "file": path,
        "line": reject.line,
        "reason": str(reject.reason),
        "detail": reject.detail,
        "raw": reject.raw.decode("utf-8", "backslashreplace"),
    }
    return json.dumps(document).encode("ascii") + b"\n"


def by_partition(sources: Sequence[SourceLines]) -> dict[int, list[Run]]:
    """Return the runs of each partition in the order of the sources, partitions in the order of time."""
    runs = sorted(itertools.chain.from_iterable(each.runs for each in sources), key=lambda run: run.partition)
    return {partition: list(group) for partition, group in itertools.groupby(runs, key=lambda run: run.partition)}
