"""Recorded events as NumPy columns, and what each must have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.signedinteger[Any]]
Truths = npt.NDArray[np.bool_]

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

TEXTS = ("process", "client", "kind", "digest", "details")
NAMES = ("process", "sequence", "client", "kind", "time_ns", "version", "digest", "details")
RECORDED = pa.schema(
    [(name, pa.dictionary(pa.int32(), pa.string()) if name in TEXTS else pa.int64()) for name in NAMES]
)
TEXT = pa.string()
EVENT_SCHEMA = pa.schema([(name, TEXT if name in TEXTS else pa.int64()) for name in NAMES])
"""Few events, with texts as they are."""
REQUIRED = tuple(name for name in NAMES if name not in ("version", "digest"))
NO_VERSION = np.iinfo(np.int64).min
NO_DIGEST = -1
OTHER_DIGEST = -2
SMALL_CODES = 1 << 15


class MalformedHistoryError(Exception):
    """The history cannot be what happened: an event is missing, or out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Events in some order, each with its `row` in `table`; texts are numbers that are equal if the texts are.

    `process` numbers follow the order of the names, `client` is an index into `clients`, and `digest` one into
    `contents`, where a text may occur twice. The events in the first `own_count` rows are judged; the others are known
    from elsewhere. `process` and `sequence`, which are seldom needed, are in the order of the rows.
    """

    table: pa.Table
    own_count: int
    process: Integers
    sequence: Integers
    row: Integers
    client: Integers
    clients: pa.Array
    kind: Integers
    time_ns: Integers
    version: Integers
    digest: Integers
    contents: pa.Array

    def __len__(self) -> int:
        return len(self.kind)

    def of_kind(self, *kinds: int) -> Truths:
        """Return which events are of one of these kinds."""
        return is_one_of(self.kind, *kinds)

    def taken(self, positions: Integers) -> Columns:
        """Return the events at these positions, in that order."""
        return replace(self, **{name: getattr(self, name)[positions] for name in _IN_ORDER})

    def recorded(self, positions: Integers) -> pa.Table:
        """Return the events at these positions as they were recorded."""
        return self.table.take(pa.array(self.row[positions]))

    def event(self, position: int) -> dict[str, Any]:
        """Return the event at a position as it was recorded."""
        (event,) = self.table.slice(int(self.row[position]), 1).to_pylist()
        return dict(event)

    def order_key(self, position: int) -> tuple[int, int, int]:
        """Return what events are ordered by: time, process, sequence."""
        row = self.row[position]
        return int(self.time_ns[position]), int(self.process[row]), int(self.sequence[row])


_IN_ORDER = ("row", "client", "kind", "time_ns", "version", "digest")


def is_one_of(kind: Integers, *kinds: int) -> Truths:
    """Return which kinds are among these."""
    # A comparison handles many small numbers at a time, a look-up table one.
    return functools.reduce(np.logical_or, (kind == each for each in kinds))


def with_dictionaries(table: pa.Table) -> pa.Table:
    """Return the columns of events with dictionaries of their texts, so that tables can be concatenated."""
    columns = []
    for name, type_ in zip(NAMES, RECORDED.types, strict=True):
        column = table.column(name)
        if column.type != type_:
            column = column.cast(pa.string()).dictionary_encode() if name in TEXTS else column.cast(type_)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=RECORDED)


def read_columns(own: pa.Table, *, known: pa.Table | None = None) -> Columns:
    """Return the columns of events, followed by events that are `known` from elsewhere.

    Raises MalformedHistoryError if an event lacks what all events, or those of its kind, have.
    """
    table = with_dictionaries(own)
    if known is not None:
        table = pa.concat_tables([table, with_dictionaries(known)])
    for name in REQUIRED:
        if table.column(name).null_count:
            raise MalformedHistoryError(f"an event has no {name}")
    client, clients = _codes(table.column("client"))
    digest, contents = _texts(table.column("digest"))
    columns = Columns(
        table=table,
        own_count=len(own),
        row=np.arange(len(table)),
        process=numbers_by_name(table.column("process")),
        sequence=_integers(table.column("sequence")),
        client=client,
        clients=clients,
        kind=_kinds(table.column("kind")),
        time_ns=_integers(table.column("time_ns")),
        version=_integers(table.column("version")),
        digest=digest,
        contents=contents,
    )
    _check_values(columns)
    return columns


def with_equal_digests(columns: Columns) -> Columns:
    """Return columns with each content once, so that equal digests have equal numbers."""
    contents = columns.contents.unique()
    index = np.asarray(pc.index_in(columns.contents, value_set=contents))
    return replace(columns, contents=contents, digest=np.append(index, np.int32(NO_DIGEST))[columns.digest])


def kinds_of(events: pa.Table) -> Integers:
    """Return the kind of each event as an index into `KINDS`; raises MalformedHistoryError."""
    column = events.column("kind")
    if column.null_count:
        raise MalformedHistoryError("an event has no kind")
    return _kinds(column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode())


def numbers_by_name(column: pa.ChunkedArray) -> Integers:
    """Return a number for each text of a column of dictionaries, in the order of the texts."""
    numbers, names = _codes(column)
    ranks = np.argsort(np.argsort(np.array(names.to_pylist(), dtype=object), kind="stable"), kind="stable")
    return _small(ranks)[numbers]


def _integers(column: pa.ChunkedArray) -> Integers:
    return np.asarray(_filled(column, NO_VERSION).to_numpy(), dtype=np.int64)


def _codes(column: pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """Return the numbers of texts, -1 for none, and the texts."""
    chunks = column.unify_dictionaries().chunks
    if not chunks:
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    parts = [np.asarray(_filled(chunk.indices, -1)) for chunk in chunks]
    return _small(np.concatenate(parts), len(chunks[0].dictionary)), chunks[0].dictionary


def _filled(values: pa.Array | pa.ChunkedArray, number: int) -> pa.Array | pa.ChunkedArray:
    return pc.fill_null(values, number) if values.null_count else values


def _small(numbers: Integers, count: int | None = None) -> Integers:
    """Return numbers in two bytes where they fit: sorting these is linear."""
    fits = (len(numbers) if count is None else count) < SMALL_CODES
    return numbers.astype(np.int16) if fits else numbers


def _texts(column: pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """Return the index of each event's text in a list of texts, where one may occur twice, and that list."""
    parts, start = [np.zeros(0, dtype=np.int32)], 0
    for chunk in column.chunks:
        index = np.asarray(_filled(chunk.indices, NO_DIGEST))
        parts.append(np.where(index == NO_DIGEST, index, index + np.int32(start)) if start else index)
        start += len(chunk.dictionary)
    texts = [chunk.dictionary.cast(pa.string()) for chunk in column.chunks]
    return np.concatenate(parts), pa.concat_arrays(texts) if texts else pa.array([], pa.string())


def _kinds(column: pa.ChunkedArray) -> Integers:
    codes, names = _codes(column)
    kinds = np.asarray(pc.fill_null(pc.index_in(names.cast(pa.string()), value_set=pa.array(KINDS)), -1))
    kind: Integers = kinds.astype(np.int8)[codes] if len(codes) else np.zeros(0, dtype=np.int8)
    if (kind < 0).any():
        raise MalformedHistoryError("an event is of an unknown kind")
    return kind


def _check_values(columns: Columns) -> None:
    """Raise MalformedHistoryError unless events have the versions and digests of their kinds."""
    with_version = columns.of_kind(COMMIT_START, COMMIT_ACKNOWLEDGED, READ_END, PIN, RECOVERED)
    with_digest = columns.of_kind(COMMIT_START, READ_END)
    reject(columns, np.flatnonzero(with_version & (columns.version == NO_VERSION)), "has no version")
    reject(columns, np.flatnonzero(with_digest & (columns.digest == NO_DIGEST)), "has no digest")


def reject(columns: Columns, positions: Integers, reason: str) -> None:
    """Raise MalformedHistoryError about the first of these events, if there are any."""
    if len(positions):
        raise malformed(columns, min(positions.tolist(), key=columns.order_key), reason)


def malformed(columns: Columns, position: int, reason: str) -> MalformedHistoryError:
    """Return an error that names an event and what is wrong with it."""
    return MalformedHistoryError(f"{named(columns.event(position))} {reason}")


def order_key_of(event: Mapping[str, Any]) -> tuple[int, str, int]:
    """Return what events of several tables are ordered by: time, process, sequence."""
    return event["time_ns"], event["process"], event["sequence"]


def named(event: Mapping[str, Any]) -> str:
    """Return the name of an event in a sentence."""
    return f"event {event['sequence']} of process {event['process']} ({event['kind']} of {event['client']})"
