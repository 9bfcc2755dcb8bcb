"""A history of events as NumPy columns, and what must hold of it before it can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]

KINDS = (
    "commit_start",
    "commit_acknowledged",
    "commit_failed",
    "read_start",
    "read_end",
    "read_failed",
    "pin",
    "unpin",
    "killed",
    "recovered",
)
(
    COMMIT_START,
    COMMIT_ACKNOWLEDGED,
    COMMIT_FAILED,
    READ_START,
    READ_END,
    READ_FAILED,
    PIN,
    UNPIN,
    KILLED,
    RECOVERED,
) = range(len(KINDS))

NO_VERSION = np.iinfo(np.int64).min
NO_DIGEST = -1


class MalformedHistoryError(Exception):
    """The history cannot be what happened: something was not recorded, or not in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Events by time, process and sequence; texts are numbers whose equality is that of the texts.

    `row` is each event's row in `table`.
    """

    table: pa.Table
    row: Integers
    process: Integers
    sequence: Integers
    client: Integers
    kind: Integers
    time_ns: Integers
    version: Integers
    digest: Integers

    def __len__(self) -> int:
        return len(self.row)

    def of_kind(self, *kinds: int) -> npt.NDArray[np.bool_]:
        """Return which events are of one of some kinds."""
        return np.asarray(np.isin(self.kind, kinds))

    def event(self, position: int) -> dict[str, Any]:
        """Return the event at a position as it was recorded."""
        (event,) = self.table.slice(int(self.row[position]), 1).to_pylist()
        return dict(event)


def read_columns(table: pa.Table) -> Columns:
    """Return the columns of a table of events, in order; raises MalformedHistoryError as the checks below."""
    for name in ("process", "sequence", "client", "kind", "time_ns", "details"):
        if table.column(name).null_count:
            raise MalformedHistoryError(f"an event has no {name}")
    process, names = _codes(table, "process")
    # Numbers follow the order of the names, so that equal times have one order.
    process = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"), kind="stable")[process]
    sequence, time_ns = _integers(table, "sequence"), _integers(table, "time_ns")
    row = np.lexsort((sequence, process, time_ns))
    columns = Columns(
        table=table,
        row=row,
        process=process[row],
        sequence=sequence[row],
        client=_codes(table, "client")[0][row],
        kind=_kinds(table)[row],
        time_ns=time_ns[row],
        version=_integers(table, "version")[row],
        digest=_codes(table, "digest")[0][row],
    )
    _check_processes(columns)
    _check_values(columns)
    return columns


def _integers(table: pa.Table, name: str) -> Integers:
    return np.asarray(pc.fill_null(table.column(name), NO_VERSION).to_numpy(), dtype=np.int64)


def _codes(table: pa.Table, name: str) -> tuple[Integers, list[str]]:
    encoded = pa.concat_arrays(table.column(name).chunks or [pa.array([], pa.string())]).dictionary_encode()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), NO_DIGEST)
    return np.asarray(codes), encoded.dictionary.to_pylist()


def _kinds(table: pa.Table) -> Integers:
    kinds = pc.index_in(table.column("kind"), value_set=pa.array(KINDS))
    if kinds.null_count:
        raise MalformedHistoryError("an event is of an unknown kind")
    return np.asarray(kinds.cast(pa.int64()).to_numpy())


def _check_processes(columns: Columns) -> None:
    """Raise unless every process numbered its events from 0 on without a gap, while time did not go back."""
    order = np.lexsort((columns.sequence, columns.process))
    process, sequence, time_ns = columns.process[order], columns.sequence[order], columns.time_ns[order]
    is_first = np.append(True, process[1:] != process[:-1])[: len(order)]
    expected = np.where(is_first, 0, np.append(0, sequence[:-1] + 1)[: len(order)])
    _refuse(
        columns, order[sequence != expected], "is not the next one of its process: an event is missing or twice there"
    )
    went_back = ~is_first & (time_ns < np.append(0, time_ns[:-1])[: len(order)])
    _refuse(columns, order[went_back], "is earlier than the one before it in its process")


def _check_values(columns: Columns) -> None:
    """Raise unless events have the versions and digests of their kinds."""
    with_version = columns.of_kind(COMMIT_START, COMMIT_ACKNOWLEDGED, READ_END, PIN, RECOVERED)
    with_digest = columns.of_kind(COMMIT_START, READ_END)
    _refuse(columns, np.flatnonzero(with_version & (columns.version == NO_VERSION)), "has no version")
    _refuse(columns, np.flatnonzero(with_digest & (columns.digest == NO_DIGEST)), "has no digest")


def _refuse(columns: Columns, positions: Integers, reason: str) -> None:
    if len(positions):
        raise malformed(columns, int(positions.min()), reason)


def malformed(columns: Columns, position: int, reason: str) -> MalformedHistoryError:
    """Return the error that names an event and says what is wrong with it."""
    event = columns.event(position)
    return MalformedHistoryError(
        f"event {event['sequence']} of process {event['process']} ({event['kind']} of {event['client']}) {reason}"
    )
