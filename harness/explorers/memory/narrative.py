"""A wrong execution of a reader as JSON data: every load, the store that it read, and why it could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tornproof.harness.explorers.memory.exploration import Baseline, Load, ReaderState
from tornproof.harness.simulator.memory_model.memory_views import LOCATION_BYTES
from tornproof.impl.layout import txn as layout
from tornproof.impl.txn.transaction import ENTRY_BYTES, HEADER_BYTES, RECORD_BYTES, SIZE_BYTES, SYMBOL_BYTES

WHOLE = "the reader's loads lie on both sides of the writer's stores, and no later load of VERSION shows it"


def loads_of(state: ReaderState) -> list[Load]:
    """Return the loads of an execution in order."""
    loads: list[Load] = []
    load = state.load
    while load is not None:
        loads.append(load)
        load = load.before
    return loads[::-1]


def narrative(baseline: Baseline, state: ReaderState) -> dict[str, Any]:
    """Return what the writer does, what the reader accepts, why, and all loads; values are little-endian numbers."""
    loads = loads_of(state)
    names = list(_names(loads, len(baseline.trace.versions[0].symbol_counts)))
    commit_count = len(baseline.trace.versions) - 1
    return {
        "let": f"a writer commit {commit_count} times while a reader reads _txn",
        "then": state.sentence,
        "because": _reason(baseline, loads, names),
        "loads": [
            {
                "field": name,
                "offset_bytes": load.offset_bytes,
                "size_bytes": len(load.content),
                "value": int.from_bytes(load.content, "little"),
                "stores": list(load.stores),
                "commits": [_commit_of(baseline, number) for number in load.stores],
            }
            for load, name in zip(loads, names, strict=True)
        ],
    }


def _reason(baseline: Baseline, loads: list[Load], names: list[str]) -> str:
    """Name the last load that returned an older store than an earlier load implies, and that earlier load."""
    for index in range(len(loads) - 1, 0, -1):
        for position, number in zip(loads[index].positions, loads[index].stores, strict=True):
            for earlier, name in zip(loads[:index], names[:index], strict=True):
                newest = max(earlier.stores)
                missed = baseline.history.latest(position, newest)
                if missed > number:
                    return (
                        f"its load of {names[index]} returned {_words(baseline, number)} although the writer had put "
                        f"{_words(baseline, missed)} there before {_words(baseline, newest)}, which the reader had "
                        f"seen at {name}: nothing keeps them in order"
                    )
    return WHOLE


def _words(baseline: Baseline, number: int) -> str:
    if number == 0:
        return "the value from the start"
    return f"store {number} (of commit {_commit_of(baseline, number)})"


def _commit_of(baseline: Baseline, number: int) -> int:
    return baseline.history.stores[number - 1].commit if number else 0


def _names(loads: list[Load], symbol_count: int) -> Iterator[str]:
    record: int | None = None
    for load in loads:
        if load.is_at_version:
            record = None
        elif record is None and load.offset_bytes >= HEADER_BYTES:
            record = load.offset_bytes
        yield " and ".join(dict.fromkeys(_name(position, record, symbol_count) for position in load.positions))


def _name(position: int, record: int | None, symbol_count: int) -> str:
    """Name the field at a position; `record` is where the area starts that the reader is in."""
    if position < 0:
        return "the size of the file"
    if position < HEADER_BYTES or record is None:
        return _field(layout.BaseHeader.layout, position)
    at = position - record
    table = RECORD_BYTES + symbol_count * SYMBOL_BYTES
    if at < RECORD_BYTES:
        return _field(layout.TransactionRecord.layout, at)
    if at < table:
        number, within = divmod(at - RECORD_BYTES, SYMBOL_BYTES)
        return f"{_field(layout.SymbolCount.layout, within)} of symbol column {number}"
    if at < table + SIZE_BYTES:
        return _field(layout.PartitionTableSize.layout, at - table)
    number, within = divmod(at - table - SIZE_BYTES, ENTRY_BYTES)
    return f"{_field(layout.PartitionEntry.layout, within)} of partition {number}"


def _field(record: Any, at: int) -> str:
    """Name the fields that overlap the position `at`."""
    overlapping = [
        spec.format_name for spec in record.fields if spec.offset_bytes < at + LOCATION_BYTES and at < spec.end_bytes
    ]
    return " and ".join(overlapping) or f"byte {at}"
