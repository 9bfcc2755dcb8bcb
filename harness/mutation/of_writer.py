"""Faults of the writer: what it writes into `_txn`, `_pm` and data.parquet, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from tornproof.harness.mutation.fault import Explorer, PlantedFault
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.encode import AppendPoint
from tornproof.impl.pm.footer import FooterPosition
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.txn.write import NextVersion, PartitionState, StorePlan


def live_area(area_of: Callable[..., Any]) -> Callable[..., Any]:
    """Select the other area."""
    return lambda base, version: area_of(base, version + 1)


def two_versions_on(plan_store: Callable[..., StorePlan]) -> Callable[..., StorePlan]:
    """Store the version after the next, whose area is that of the committed one."""

    def plan(current_file: Buffer, following: NextVersion, **settings: Any) -> StorePlan:
        version = following.record.txn
        skipped = version.to_bytes(8, "little") + bytes(current_file)[8:]
        record = following.record.changed(txn=version + 1)
        return plan_store(skipped, structs.replace(following, record=record), **settings)

    return plan


def entries_stay(next_version: Callable[..., NextVersion]) -> Callable[..., NextVersion]:
    """Keep the size of the partition table when it gets shorter, and so the entries at its end."""

    def following(current: Transaction, *, partitions: Sequence[PartitionState], **rest: Any) -> NextVersion:
        ghosts = [PartitionState.of(each) for each in current.partitions[len(partitions) :]]
        later = [ghost for ghost in ghosts if not partitions or ghost.timestamp > partitions[-1].timestamp]
        return next_version(current, partitions=[*partitions, *later], **rest)

    return following


def tokens_stay(next_version: Callable[..., NextVersion]) -> Callable[..., NextVersion]:
    """Update row counts, but not the token of a partition that grows."""

    def following(current: Transaction, *, partitions: Sequence[PartitionState], **rest: Any) -> NextVersion:
        tokens = {(each.timestamp, each.name_txn): each.token for each in current.partitions}
        kept = [
            structs.replace(each, token=tokens.get((each.timestamp, each.name_txn), each.token)) for each in partitions
        ]
        return next_version(current, partitions=kept, **rest)

    return following


def symbols_uncounted(next_version: Callable[..., NextVersion]) -> Callable[..., NextVersion]:
    """Do not count the symbols that a commit adds."""
    return lambda current, **rest: next_version(current, **{**rest, "symbol_counts": None})


def keep_names(next_version: Callable[..., NextVersion]) -> Any:
    """Do not update the name of a partition that was rewritten."""

    def following(current: Transaction, *, partitions: Sequence[PartitionState], **rest: Any) -> NextVersion:
        names = {partition.timestamp: partition.name_txn for partition in current.partitions}
        kept = [structs.replace(each, name_txn=names.get(each.timestamp, each.name_txn)) for each in partitions]
        return next_version(current, partitions=kept, **rest)

    return following


def changed_point(**change: Callable[[AppendPoint], Any]) -> Callable[[Any], Any]:
    """Lay out a generation as if it continued another one."""

    def wrap(lay_out: Callable[..., Any]) -> Callable[..., Any]:
        def other(header: Any, point: AppendPoint, *rest: Any) -> Any:
            values = {name: make(point) for name, make in change.items()}
            return lay_out(header, structs.replace(point, **values), *rest)

        return other

    return wrap


def prev_of_footer(append_point: Callable[..., AppendPoint]) -> Callable[..., AppendPoint]:
    """Name the start of the footer before, instead of its end."""

    def point(data: Buffer, anchor: FooterPosition, *, base_bytes: int) -> AppendPoint:
        return structs.replace(append_point(data, anchor, base_bytes=base_bytes), prev=anchor.offset_bytes)

    return point


def short_publication(publish: Callable[..., Any]) -> Callable[..., Any]:
    """Publish the size without the last word of the trailer."""
    return lambda pm, published_bytes, opened: publish(pm, published_bytes - 4, opened)


def checksum_from(start: int) -> Callable[[Any], Any]:
    """Begin the CRC of a new file at another offset."""

    def wrap(start_file: Callable[..., Any]) -> Callable[..., Any]:
        def begun(header: Any) -> tuple[bytes, AppendPoint]:
            head, point = start_file(header)
            return head, structs.replace(point, since_checksum=head[start:])

        return begun

    return wrap


APPENDS, RETRY = "append-and-power-cut", "equal-retry-and-a-reader-that-looks-twice"
_fault = partial(PlantedFault, explorer=Explorer.SEQUENTIAL)
WRITER = (
    _fault(
        7,
        "record over the live one",
        "the record is written into the area of the committed version",
        "live snapshot overwritten",
        location="tornproof.impl.txn.write:area_of",
        substitute=live_area,
        explorer=Explorer.TRACE_RULE,
        scenario="one-commit-one-reader",
        also=(Explorer.SCHEDULES, Explorer.CRASH),
    ),
    _fault(
        8,
        "version goes up by two",
        "the version after the next is stored, which is always in the same area",
        "live snapshot overwritten",
        location="tornproof.impl.write.table_writer:plan_store",
        substitute=two_versions_on,
        scenario=APPENDS,
        also=(Explorer.CRASH,),
    ),
    _fault(
        10,
        "size of the table stays",
        "the record's partition table does not get shorter when a partition is removed",
        "ghost partition appears",
        location="tornproof.impl.write.table_writer:next_version",
        substitute=entries_stay,
        scenario="record-shrinks",
    ),
    _fault(
        15,
        "token forgotten",
        "a commit in place updates the row count but not the token",
        "new rows, old footer",
        location="tornproof.impl.write.table_writer:next_version",
        substitute=tokens_stay,
        scenario=APPENDS,
    ),
    _fault(
        None,
        "symbols not counted",
        "a commit adds symbols, and the version has as many as before",
        "rows have symbols that no dictionary has",
        location="tornproof.impl.write.table_writer:next_version",
        substitute=symbols_uncounted,
        scenario="new-symbols-and-power-cut",
    ),
    _fault(
        17,
        "name forgotten",
        "a rewrite does not change the name in the entry",
        "old directory is read",
        location="tornproof.impl.write.table_writer:next_version",
        substitute=keep_names,
        scenario="rewrite-and-power-cut",
    ),
    _fault(
        33,
        "prev names where a footer starts",
        "`prev` is the offset of the footer before and not its end",
        "chain walk fails for a pinned reader",
        location="tornproof.impl.write.partition_writer:append_point",
        substitute=prev_of_footer,
        scenario=APPENDS,
    ),
    _fault(
        34,
        "prev is always 0",
        "each generation says that it is the first",
        "pinned reader loses its snapshot",
        location="tornproof.impl.write.partition_writer:lay_out_generation",
        substitute=changed_point(prev=lambda _: 0),
        scenario=APPENDS,
    ),
    _fault(
        36,
        "published size without the last word",
        "the header says a size that leaves out the last four bytes",
        "trailer misread",
        location="tornproof.impl.write.commit:publish",
        substitute=short_publication,
        scenario=APPENDS,
    ),
    _fault(
        37,
        "CRC from byte 0",
        "the CRC of a new file covers the size in its header too",
        "pinned snapshots are rejected",
        location="tornproof.impl.write.partition_writer:start_file",
        substitute=checksum_from(0),
        scenario="new-partition-and-power-cut",
    ),
    _fault(
        38,
        "CRC from byte 16",
        "the CRC of a new file does not cover the feature flags",
        "feature flags are not protected",
        location="tornproof.impl.write.partition_writer:start_file",
        substitute=checksum_from(16),
        scenario="new-partition-and-power-cut",
    ),
    _fault(
        39,
        "CRC starts over",
        "the CRC of a generation forgets what was covered before it",
        "old blocks are not protected",
        location="tornproof.impl.write.partition_writer:lay_out_generation",
        substitute=changed_point(checksum=lambda _: 0),
        scenario=APPENDS,
    ),
)
