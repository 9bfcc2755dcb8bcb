"""One huge history in slices: what each slice must know of the others, and whether they make one history.

A slice is any part of the events. Its scan has the few events that other slices need. Linking all scans gives each
slice what was known before it; then each is judged by itself, beside the timeline of the writer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.attempts import OF_WRITERS
from tornproof.harness.checkers.ordering import EARLIER, MISSING, by_client, by_process, firsts
from tornproof.harness.checkers.recorded import (
    EVENT_SCHEMA,
    NAMES,
    PIN,
    READ_END,
    READ_FAILED,
    READ_START,
    TEXT,
    UNPIN,
    Integers,
    MalformedHistoryError,
    named,
    order_key_of,
    read_columns,
)

Event: TypeAlias = Mapping[str, Any]

SHARED = "shared"
PROCESS_FIRST, PROCESS_LAST = "first of process", "last of process"
CLIENT_FIRST, CLIENT_LAST = "first of client", "last of client"
STATES = {
    "read under way": (READ_START, READ_END, READ_FAILED),
    "pin": (PIN, UNPIN),
    "version read": (READ_END,),
}
"""The state of a client that the next slice needs: the last event of each of these groups of kinds."""

SCAN_SCHEMA = pa.schema([("slice", pa.int64()), ("role", TEXT), ("count", pa.int64()), *EVENT_SCHEMA])
"""Events of a slice with their roles; with the last of a process, `count` is the number of its events there."""


class ScatteredHistoryError(Exception):
    """The events of a process or client are mixed among slices, so that no slice can be judged by itself."""


def scan(own: pa.Table, number: int) -> pa.Table:
    """Return the events of a slice that others need, as `SCAN_SCHEMA`.

    Raises MalformedHistoryError if an event lacks what all events, or those of its kind, have.
    """
    columns = read_columns(own)
    steps = by_process(columns)
    reading = by_client(columns, steps)
    begins, ends = _ends(steps.process)
    client_begins, client_ends = _ends(reading.client)
    parts = [
        _with_role(columns.recorded(np.flatnonzero(columns.of_kind(*OF_WRITERS))), number, SHARED),
        _with_role(columns.recorded(steps.rows[begins]), number, PROCESS_FIRST),
        _with_role(columns.recorded(steps.rows[ends]), number, PROCESS_LAST, ends - begins + 1),
        _with_role(reading.recorded(client_begins), number, CLIENT_FIRST),
        _with_role(reading.recorded(client_ends), number, CLIENT_LAST),
    ]
    for state, kinds in STATES.items():
        some = np.flatnonzero(reading.of_kind(*kinds))
        parts.append(_with_role(reading.recorded(some[_ends(reading.client[some])[1]]), number, state))
    return pa.concat_tables(parts)


def events_of(scans: pa.Table, role: str) -> pa.Table:
    """Return the events that have a role."""
    return scans.filter(pc.equal(scans.column("role"), role)).select(NAMES)


def link(scans: pa.Table) -> dict[int, pa.Table]:
    """Return the events that are known before each slice, which give the states of its clients.

    Raises MalformedHistoryError unless the events of each process are numbered from 0 without gaps and in order of
    time, and ScatteredHistoryError if a process or client does not go through the slices one after the other.
    """
    for spans in _spans(scans, "process", PROCESS_FIRST, PROCESS_LAST).values():
        _check_process(spans)
    known: defaultdict[int, list[Event]] = defaultdict(list)
    clients = _spans(scans, "client", CLIENT_FIRST, CLIENT_LAST, least=2)
    states = {state: _by_slice(scans, state, clients) for state in STATES}
    for client, spans in clients.items():
        _check_client(client, spans)
        for state in states.values():
            last: Event | None = None
            for number, _, _ in spans:
                if last is not None:
                    known[number].append(last)
                last = state.get((number, client), last)
    return {number: pa.Table.from_pylist(events, EVENT_SCHEMA) for number, events in known.items()}


Span: TypeAlias = tuple[int, Event, Event]
"""The number of a slice with the first and the last event of a process or client there."""


def _spans(scans: pa.Table, name: str, first: str, last: str, *, least: int = 1) -> dict[str, list[Span]]:
    """Return the spans of each process or client that has at least so many, in the order of their first events."""
    begins, ends = (scans.filter(pc.equal(scans.column("role"), role)) for role in (first, last))
    counted = begins.column(name).value_counts()
    many = counted.field("values").filter(pc.greater_equal(counted.field("counts"), least))
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    last_events = {(event["slice"], event[name]): event for event in _some(ends, name, many)}
    for event in _some(begins, name, many):
        spans[event[name]].append((event["slice"], event, last_events[event["slice"], event[name]]))
    key: Callable[[Event], Any] = (lambda event: event["sequence"]) if name == "process" else order_key_of
    return {owner: sorted(own, key=lambda span: key(span[1])) for owner, own in spans.items()}


def _some(events: pa.Table, name: str, wanted: pa.Array) -> Iterator[Event]:
    for batch in events.filter(pc.is_in(events.column(name), value_set=wanted)).to_batches():
        yield from batch.to_pylist()


def _by_slice(scans: pa.Table, state: str, clients: Mapping[str, object]) -> dict[tuple[int, str], Event]:
    events = scans.filter(pc.equal(scans.column("role"), state))
    return {(event["slice"], event["client"]): event for event in _some(events, "client", pa.array(clients, TEXT))}


def _check_process(spans: list[Span]) -> None:
    count = sum(last["count"] for _, _, last in spans)
    lowest, highest = spans[0][1]["sequence"], max(last["sequence"] for _, _, last in spans)
    if lowest != 0 or count != highest + 1:
        raise MalformedHistoryError(
            f"process {spans[0][1]['process']} has {count} events, numbered from {lowest} to {highest}: "
            "an event is missing or twice there"
        )
    end: Event | None = None
    for _, first, last in spans:
        if last["sequence"] - first["sequence"] + 1 != last["count"] or (end and first["sequence"] <= end["sequence"]):
            raise ScatteredHistoryError(f"the events of process {first['process']} are not together")
        if end and first["sequence"] != end["sequence"] + 1:
            raise MalformedHistoryError(f"{named(first)} {MISSING}")
        if end and first["time_ns"] < end["time_ns"]:
            raise MalformedHistoryError(f"{named(first)} {EARLIER}")
        end = last


def _check_client(client: str, spans: list[Span]) -> None:
    for (_, _, last), (_, first, _) in itertools.pairwise(spans):
        if order_key_of(first) < order_key_of(last):
            raise ScatteredHistoryError(f"the events of client {client} are not together")


def _ends(owner: Integers) -> tuple[Integers, Integers]:
    """Return the positions of the first and of the last event of each process, or client, in ordered events."""
    begins = np.flatnonzero(firsts(owner))
    return begins, np.append(begins[1:], len(owner))[: len(begins)] - 1


def _with_role(events: pa.Table, number: int, role: str, counts: Integers | None = None) -> pa.Table:
    size = len(events)
    own = [events.column(name).cast(EVENT_SCHEMA.field(name).type) for name in NAMES]
    count = pa.nulls(size, pa.int64()) if counts is None else pa.array(counts, pa.int64())
    return pa.Table.from_arrays([pa.repeat(number, size), pa.repeat(role, size), count, *own], schema=SCAN_SCHEMA)
