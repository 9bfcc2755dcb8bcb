"""Parts of a damaged table are read: ranges of times and single columns, each an error or exactly the right rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from msgspec import structs

from tornproof.harness.explorers.corruption.blocks import block_starts, spread_flips
from tornproof.harness.explorers.corruption.plan import Again, Cut, Kind
from tornproof.harness.systems.answer import read_rows
from tornproof.impl.errors import TornproofError
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange
from tornproof.impl.read.reader import Snapshot, UnknownColumnError
from tornproof.impl.table.table import Table

CUTS_MAX, FLIPS_MAX = 8, 16
"""So many lengths and bits of each file are tried, evenly spread."""
COLUMNS_MAX = 4


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for: one column or all, and a range of times."""

    times: TimeRange
    column: str | None = None

    def __str__(self) -> str:
        columns = "all columns" if self.column is None else f"column {self.column!r}"
        if self.times == ALL_TIMES:
            return columns
        start, end = self.times.start, self.times.end
        return f"{columns} of the times {'' if start is None else f'from {start} '}{'' if end is None else f'to {end}'}"


@dataclass(frozen=True, slots=True)
class _Span:
    """The times of a partition: where it begins, the middle one of its rows, and where the next one begins."""

    begin: int
    middle: int
    end: int | None


class PartReads:
    """Questions about the partitions of a sound table, and the right answers."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Find the middle of each partition."""
        self._snapshot = snapshot
        self._spans = _spans(snapshot)
        self._answers: dict[Question, pa.Table] = {}

    def questions(self, directory: str) -> Iterator[Question]:
        """Yield what is asked for when this partition is damaged."""
        columns = self._snapshot.columns
        for column in islice(columns, 0, None, -(-len(columns) // COLUMNS_MAX)):
            yield Question(ALL_TIMES, column.name)
        names = list(self._spans)
        if directory not in self._spans:
            return
        own, at = self._spans[directory], names.index(directory)
        before = self._spans[names[at - 1]] if at else None
        after = self._spans[names[at + 1]] if at + 1 < len(names) else None
        yield Question(TimeRange(start=own.middle, end=after.middle if after else None))
        yield Question(TimeRange(start=before.middle if before else None, end=own.middle))
        yield Question(TimeRange(start=own.middle, end=own.end))
        if before:
            yield Question(TimeRange(start=before.begin, end=own.begin))
        if after:
            yield Question(TimeRange(start=after.begin, end=after.end))

    def misread(self, table: Table, directory: str) -> str:
        """Return in words which question about the damaged table is answered with other rows."""
        snapshot = structs.replace(self._snapshot, table=table)
        for question in self.questions(directory):
            if question not in self._answers:
                self._answers[question] = rows_of(self._snapshot, question)
            try:
                rows = rows_of(snapshot, question)
            except TornproofError:
                continue
            if rows != self._answers[question]:
                return f"other rows are read if asked for {question}"
        return ""


def rows_of(snapshot: Snapshot, question: Question) -> pa.Table:
    """Return the answer to a question."""
    return read_rows(snapshot, None if question.column is None else [question.column], question.times)


def part_damages(file: str, size_bytes: int) -> Iterator[Again]:
    """Yield some lengths and bits of a file."""
    yield from (Again(Kind.PART, Cut(file, start)) for start in block_starts(size_bytes, 1, CUTS_MAX))
    yield from (Again(Kind.PART, flip) for flip in spread_flips(file, size_bytes, FLIPS_MAX))


def _spans(snapshot: Snapshot) -> dict[str, _Span]:
    """Return the times of the parquet partitions by directory; none without a designated timestamp."""
    name = next((column.name for column in snapshot.columns if column.id == snapshot.timestamp_id), None)
    spans = {}
    for partition in snapshot.transaction.partitions:
        own = TimeRange(start=partition.timestamp, end=partition.next_timestamp)
        try:
            times = read_rows(snapshot, [name], own).column(0) if name and partition.is_parquet else ()
        except UnknownColumnError:
            return {}
        if len(times):
            middle = times[len(times) // 2].value
            spans[snapshot.table.directory_of(partition)] = _Span(partition.timestamp, middle, own.end)
    return spans
