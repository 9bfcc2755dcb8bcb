"""What a new version of a table announces, and what a sequencer has before it."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import (
    ENTRY,
    FIRST_AREA,
    RECORD,
    SYMBOL,
    Entry,
    TransactionFile,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.txn import SymbolCount, TransactionRecord
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.sequencer import SEQUENCER_FILE, pending_transaction_count
from tornproof.impl.txn.transaction import Partition, Transaction, decode_transaction
from tornproof.impl.txn.write import PartitionState, first_version, next_version, plan_store

VERSION = struct.Struct("<q")
PARTITIONS_SIZE_BYTES = 4
COUNTERS = ("partition_table_version", "column_version", "truncate_version")
"""Of a record: what announces that an older partition is another one."""


def reloads() -> Iterator[Question]:
    """Yield two versions of a table, and what a reader that follows it is told of the second."""
    before = dict.fromkeys(range(3), 10)
    for changes, is_longer, counter in itertools.product(
        itertools.product((0, 1, None), repeat=len(before)), (False, True), (None, *COUNTERS)
    ):
        after = {number: before[number] + more for number, more in enumerate(changes) if more is not None}
        after |= {len(before): 10} if is_longer else {}
        same = [number for number in after if after[number] == before.get(number)]
        # The last partition may grow without announcement, or be gone.
        is_unannounced = counter is None and not {*before} - {max(before)} <= {*same}
        yield Question(
            "reloads",
            f"row counts {before} and then {after}, {counter or 'no counter'} changed",
            functools.partial(_reload, before, after, counter),
            (is_unannounced, [] if counter == "truncate_version" else same),
        )


def _reload(before: dict[int, int], after: dict[int, int], counter: str | None) -> tuple[bool, list[int]]:
    """Return whether a change was not announced, and which partitions may be kept open."""
    versions = iter((_version(_states(before)), _version(_states(after), counter)))
    with replaced("tornproof.impl.txn.reader:safe_read", lambda *_: next(versions)):
        reader = TransactionReader(MemoryStorage(), "_txn")
        reader.reload()
        found = reader.reload()
    return bool(found.unannounced), [partition.timestamp for partition in found.unchanged]


def _states(row_counts: dict[int, int]) -> list[PartitionState]:
    return [
        PartitionState(timestamp=timestamp, row_count=row_count, flags=0, name_txn=-1, token=-1)
        for timestamp, row_count in row_counts.items()
    ]


def _version(states: Sequence[PartitionState], counter: str | None = None) -> Transaction:
    record = bytearray(TransactionRecord.layout.size_bytes)
    if counter is not None:
        record[TransactionRecord.layout.offset_of(counter)] = 1
    partitions = (Partition(entry_offset_bytes=0, row_count_offset_bytes=0, **structs.asdict(each)) for each in states)
    decoded = TransactionRecord.unpack(bytes(record), 0, file="_txn")
    return Transaction(version=0, record=decoded, symbol_counts=(), partitions=tuple(partitions))


def announcements() -> Iterator[Question]:
    """Yield what changes of one of two partitions, and whether the next version announces it to readers that follow.

    They read the last row count in any case, and all else of older partitions only if it is announced.
    """
    before = [PartitionState(timestamp=each, row_count=5, flags=0, name_txn=each, token=100) for each in (1, 2)]
    for number, name in itertools.product(range(2), ("row_count", "flags", "name_txn", "token")):
        after = [structs.replace(each, **{name: 7}) if place == number else each for place, each in enumerate(before)]
        words = f"another {name} of {('the first', 'the last')[number]} of two partitions"
        is_seen_anyway = (number, name) == (1, "row_count")
        yield Question("announcements", words, functools.partial(_is_announced, before, after), not is_seen_anyway)
    for words, after in (
        ("nothing else", before),
        ("a partition less", before[:1]),
        ("none", []),
        ("a first", before[1:]),
    ):
        is_other = after != before
        yield Question("announcements", words, functools.partial(_is_announced, before, after), is_other)


def _is_announced(before: Sequence[PartitionState], after: Sequence[PartitionState]) -> bool:
    current = _version(before)
    found = next_version(current, partitions=after, min_timestamp=0, max_timestamp=0)
    return found.record.partition_table_version != current.record.partition_table_version


def next_versions() -> Iterator[Question]:
    """Yield versions with a value of its own in each field, and all fields of the next version and of the first one."""
    values: dict[str, Any] = {name: 1_000_003 * number for number, name in enumerate(TransactionRecord.layout.names, 1)}
    before = TransactionRecord(**values | {"left_over": b"\xff" * 12, "symbol_column_count": 1, "txn": 41})
    counts = (SymbolCount(count=3, transient_count=4),)
    current = structs.replace(_version(_states({1: 10, 2: 20})), version=41, record=before, symbol_counts=counts)
    for row_counts, seq_txn, symbols in itertools.product(
        ({}, {1: 10}, {1: 10, 2: 21}, {1: 11, 2: 20}, {1: 10, 2: 20, 3: 5}), (None, 7), (None, (), counts * 2)
    ):
        is_announced = not row_counts or [*row_counts][:-1] != [1] or row_counts[1] != 10
        *older, last = [*row_counts.values()] or [0]
        expected = {
            **_fields(before),
            "txn": 42,
            "transient_row_count": last,
            "fixed_row_count": sum(older),
            "min_timestamp": -5,
            "max_timestamp": 6,
            "partition_table_version": before.partition_table_version + is_announced,
            "seq_txn": before.seq_txn if seq_txn is None else seq_txn,
            "left_over": bytes(12),
            "symbol_column_count": 1 if symbols is None else len(symbols),
        }
        words = f"row counts {row_counts}, transaction {seq_txn} of the sequencer, symbol counts {symbols}"
        found = functools.partial(_next_record, current, _states(row_counts), seq_txn, symbols)
        yield Question("next versions", words, found, _with_lag_checksum(expected))
    for count in (0, 1, 3):
        expected = {**dict.fromkeys(values, 0), "left_over": bytes(12), "symbol_column_count": count}
        expected |= dict.fromkeys(("min_timestamp", "lag_min_timestamp"), (1 << 63) - 1)
        expected |= dict.fromkeys(("max_timestamp", "lag_max_timestamp"), -1 << 63)
        found = functools.partial(_first_record, count)
        yield Question("next versions", f"the first with {count} symbol columns", found, _with_lag_checksum(expected))


def _next_record(
    current: Transaction, states: Sequence[PartitionState], seq_txn: int | None, symbols: tuple[SymbolCount, ...] | None
) -> dict[str, object]:
    following = next_version(
        current, partitions=states, min_timestamp=-5, max_timestamp=6, symbol_counts=symbols, seq_txn=seq_txn
    )
    return _fields(following.record)


def _first_record(symbol_column_count: int) -> dict[str, object]:
    return _fields(first_version(symbol_column_count).record)


def _fields(record: TransactionRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in TransactionRecord.layout.names}


def _with_lag_checksum(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the polynomial of the lag's, whose halves are folded."""
    names = ("lag_min_timestamp", "lag_max_timestamp", "txn", "seq_txn", "lag_row_count", "lag_txn_count")
    of_lag = sum(fields[name] * 31**power for power, name in enumerate(reversed(names))) & (1 << 64) - 1
    (folded,) = struct.unpack("<i", struct.pack("<I", of_lag >> 32 ^ of_lag & 0xFFFFFFFF))
    return {**fields, "lag_checksum": folded}


def stores() -> Iterator[Question]:
    """Yield where the live record may stand, and whether the next one is stored beside it, and is there afterwards."""
    for symbol_count, older_count, count in itertools.product((0, 1), (0, 1, 2), (0, 1, 3)):
        smallest = FIRST_AREA + RECORD.size + SYMBOL.size * symbol_count + PARTITIONS_SIZE_BYTES + ENTRY.size * count
        for offset in (FIRST_AREA, *range(smallest - 16, smallest + 17, 8), 4096):
            words = f"{symbol_count} symbol counts and {count} partitions beside {older_count} partitions at {offset}"
            found = functools.partial(_stored, offset, symbol_count, older_count, count)
            yield Question("stores", f"the stores of a version with {words}", found, "as a whole, and elsewhere")


def _stored(offset_bytes: int, symbol_count: int, older_count: int, count: int) -> str:
    entries = tuple(Entry(timestamp=number, row_count=5) for number in range(older_count))
    symbols = ((3, 3),) * symbol_count
    content = TransactionFile(name="", area_offset=offset_bytes, entries=entries, symbols=symbols).content()
    current = decode_transaction(content, file="_txn")
    states = _states(dict.fromkeys(range(count), 7))
    following = next_version(current, partitions=states, min_timestamp=0, max_timestamp=9)
    plan = plan_store(content, following)
    stored = bytearray(content.ljust(plan.file_size_bytes, b"\0"))
    for store in plan.record_stores:
        stored[store.offset_bytes : store.offset_bytes + store.size_bytes] = store.value.to_bytes(
            store.size_bytes, "little"
        )
    if decode_transaction(bytes(stored), file="_txn") != current:
        return "over the live record"
    stored[: VERSION.size] = VERSION.pack(plan.version_store.value)
    found = decode_transaction(bytes(stored), file="_txn")
    # A gap of the record keeps what the file had there.
    record = found.record.changed(left_over=following.record.left_over)
    is_whole = (record, found.symbol_counts) == (following.record, following.symbol_counts)
    is_whole &= [PartitionState.of(each) for each in found.partitions] == states
    return "as a whole, and elsewhere" if is_whole else f"with a record of {_fields(found.record)}"


def pending() -> Iterator[Question]:
    """Yield logs of a sequencer, and how many of its transactions a version of the seventh does not contain."""
    for last, expected in ((-1, 0), (6, 0), (7, 0), (8, 1), (1 << 40, (1 << 40) - 7)):
        for more in (b"", b"\xff" * 9):
            content = struct.pack("<iq", 0, last) + more
            name = f"transactions after the seventh in a log of {len(content)} bytes that ends with {last}"
            yield Question("pending", name, functools.partial(_pending_in, content), expected)
    for size_bytes in (0, 4, 11):
        name = f"transactions in a log of {size_bytes} bytes"
        yield Question("pending", name, functools.partial(_pending_in, bytes(size_bytes)), None)
    yield Question("pending", "transactions without a log", functools.partial(_pending_in, None), None)


def _pending_in(content: bytes | None) -> int | None:
    version = _version(())
    version = structs.replace(version, record=version.record.changed(seq_txn=7))
    image = DiskImage.of_files({} if content is None else {f"table/{SEQUENCER_FILE}": content})
    return pending_transaction_count(image, "table", version)
