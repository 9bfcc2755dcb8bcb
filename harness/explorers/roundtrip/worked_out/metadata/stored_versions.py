"""The next version of a table: its fields, and where and how it is stored beside the live one."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from tornproof.harness.explorers.roundtrip.metadata.transaction_files import (
    ENTRY,
    FIRST_AREA,
    RECORD,
    SYMBOL,
    Entry,
    TransactionFile,
    with_lag_checksum,
)
from tornproof.harness.explorers.roundtrip.worked_out.metadata.transactions import states_of, version_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.txn import SymbolCount, TransactionRecord
from tornproof.impl.txn import write
from tornproof.impl.txn.transaction import TXN_FILE, Transaction, decode_transaction
from tornproof.impl.txn.write import (
    NextVersion,
    PartitionState,
    StorePlan,
    WordStore,
    first_version,
    next_version,
    plan_store,
)
from tornproof.impl.write.commit import HARDENED, execute

VERSION = struct.Struct("<q")
PARTITIONS_SIZE_BYTES = 4
NO_LAG = {"lag_txn_count": 0, "lag_row_count": 0, "lag_min_timestamp": (1 << 63) - 1, "lag_max_timestamp": -1 << 63}
"""Of each version: rows in the lag are behind those of a partition that need not be the last one any more."""


def next_versions() -> Iterator[Question]:
    """Yield versions with a value of its own in each field, and all fields of the next version and of the first one."""
    values: dict[str, Any] = {name: 1_000_003 * number for number, name in enumerate(TransactionRecord.layout.names, 1)}
    before = TransactionRecord(**values | {"left_over": b"\xff" * 12, "symbol_column_count": 1, "txn": 41})
    counts = (SymbolCount(count=3, transient_count=4),)
    current = structs.replace(version_of(states_of({1: 10, 2: 20})), version=41, record=before, symbol_counts=counts)
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
            **NO_LAG,
            "left_over": bytes(12),
            "symbol_column_count": 1 if symbols is None else len(symbols),
        }
        words = f"row counts {row_counts}, transaction {seq_txn} of the sequencer, symbol counts {symbols}"
        found = functools.partial(
            _next_record, current, states_of(row_counts), seq_txn, symbols, is_announced=is_announced
        )
        yield Question("next versions", words, found, with_lag_checksum(expected))
    for count in (0, 1, 3):
        expected = {**dict.fromkeys(values, 0), **NO_LAG, "left_over": bytes(12), "symbol_column_count": count}
        expected |= {"min_timestamp": (1 << 63) - 1, "max_timestamp": -1 << 63}
        found = functools.partial(_first_record, count)
        yield Question("next versions", f"the first with {count} symbol columns", found, with_lag_checksum(expected))


def _next_record(
    current: Transaction,
    states: Sequence[PartitionState],
    seq_txn: int | None,
    symbols: tuple[SymbolCount, ...] | None,
    *,
    is_announced: bool,
) -> dict[str, object]:
    following = next_version(
        current, partitions=states, min_timestamp=-5, max_timestamp=6, symbol_counts=symbols, seq_txn=seq_txn
    )
    found, known = _fields(following.record), current.record.partition_table_version
    # To announce what has not changed harms nobody.
    is_early = not is_announced and found["partition_table_version"] == known + 1
    return found | ({"partition_table_version": known} if is_early else {})


def _first_record(symbol_column_count: int) -> dict[str, object]:
    return _fields(first_version(symbol_column_count).record)


def _fields(record: TransactionRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in TransactionRecord.layout.names}


def stores() -> Iterator[Question]:
    """Yield where the live record may stand, and whether the next one is stored beside it, and is there afterwards."""
    for symbol_count, older_count, count in itertools.product((0, 1), (0, 1, 2), (0, 1, 3)):
        smallest = FIRST_AREA + RECORD.size + SYMBOL.size * symbol_count + PARTITIONS_SIZE_BYTES + ENTRY.size * count
        # One of a server may begin between two words.
        for offset in (FIRST_AREA, FIRST_AREA + 4, *range(smallest - 16, smallest + 17, 4), 4096):
            words = f"{symbol_count} symbol counts and {count} partitions beside {older_count} partitions at {offset}"
            found = functools.partial(_stored, offset, symbol_count, older_count, count)
            yield Question("stores", f"the stores of a version with {words}", found, "as a whole, and elsewhere")

    for size_bytes, value in itertools.product((4096, 4104, 8192), (0, 7)):
        words = f"what is in a file of 4096 bytes of ones after {value} was stored in it and it has {size_bytes}"
        before, plan = b"\xff" * 4096, _plan_of(size_bytes, value)
        yield ask("stores", words, _committed(before, plan), _published, before, plan)


def _plan_of(size_bytes: int, value: int) -> StorePlan:
    """Return a plan that stores a value in words at the start and at both ends."""
    places = ((64, 8), (72, 4), (4088, 8), (size_bytes - 4, 4))
    stores = [WordStore(offset_bytes=offset, size_bytes=word, value=value) for offset, word in places]
    first = WordStore(offset_bytes=0, size_bytes=VERSION.size, value=value)
    return StorePlan(file_size_bytes=size_bytes, record_stores=tuple(stores), version_store=first)


def _published(content: bytes, plan: StorePlan) -> bytes:
    storage = MemoryStorage.of(DiskImage.of_files({f"table/{TXN_FILE}": content}))
    execute(HARDENED, storage, "table", (), plan)
    return storage.image().files[f"table/{TXN_FILE}"]


def _stored(offset_bytes: int, symbol_count: int, older_count: int, count: int) -> str:
    entries = tuple(Entry(timestamp=number, row_count=5) for number in range(older_count))
    symbols = ((3, 3),) * symbol_count
    content = TransactionFile(name="", area_offset=offset_bytes, entries=entries, symbols=symbols).content()
    following = _following(content, count)
    plan = plan_store(content, following)
    if decode_transaction(_with_stores(content, plan), file="_txn") != decode_transaction(content, file="_txn"):
        return "over the live record"
    found = decode_transaction(_committed(content, plan), file="_txn")
    is_whole = (found.record, found.symbol_counts) == (following.record, following.symbol_counts)
    is_whole &= [PartitionState.of(each) for each in found.partitions] == _states(count)
    return "as a whole, and elsewhere" if is_whole else f"with a record of {_fields(found.record)}"


def _with_stores(content: bytes, plan: StorePlan) -> bytes:
    stored = bytearray(content.ljust(plan.file_size_bytes, b"\0"))
    for store in plan.record_stores:
        end = store.offset_bytes + store.size_bytes
        stored[store.offset_bytes : end] = store.value.to_bytes(store.size_bytes, "little")
    return bytes(stored)


def _committed(content: bytes, plan: StorePlan) -> bytes:
    return VERSION.pack(plan.version_store.value) + _with_stores(content, plan)[VERSION.size :]


def spared_stores() -> Iterator[Question]:
    """Yield three versions after each other, and whether the third one stores enough where all before is durable.

    Only the record of the first one, if it is still there and the third one takes its place, is known to be durable:
    then words may be left out that are there already.
    """
    for counts in itertools.product((1, 2), repeat=3):
        for is_other in (False, True):
            words = f"{counts} partitions, of which the first record {'was replaced' if is_other else 'is there'}"
            yield ask("spared stores", f"versions with {words}", True, _is_enough, counts, is_other=is_other)


def _is_enough(counts: Sequence[int], *, is_other: bool) -> bool:
    first, second, third = counts
    is_spared = first == third and not is_other
    # The first record is right behind the place of the second, where the third is stored.
    offset = FIRST_AREA + RECORD.size + PARTITIONS_SIZE_BYTES + ENTRY.size * second
    entries = tuple(Entry(timestamp=number, row_count=7) for number in range(first))
    content = TransactionFile(name="", area_offset=offset, entries=entries, symbols=()).content()
    plan = plan_store(content, _following(content, second))
    content = _committed(content, plan)
    if is_other:
        content = content[:offset] + VERSION.pack(3) + content[offset + VERSION.size :]
    following = _following(content, third)
    whole = plan_store(content, following).record_stores
    spared = plan_store(content, following, area_is_durable=True).record_stores
    needed = [store for store in whole if not (is_spared and _is_there(content, store))]
    return set(needed) <= set(spared) <= set(whole)


def leave_out_equal_words(content: bytes, following: NextVersion, *, area_is_durable: bool = False) -> StorePlan:
    """Plan a store for a control: only the words that change, whatever record was there before."""
    plan = write.plan_store(content, following)
    stores = tuple(store for store in plan.record_stores if not _is_there(content, store))
    return structs.replace(plan, record_stores=stores) if area_is_durable else plan


def _is_there(content: bytes, store: WordStore) -> bool:
    return content[store.offset_bytes :][: store.size_bytes] == store.value.to_bytes(store.size_bytes, "little")


def _following(content: bytes, count: int) -> NextVersion:
    current = decode_transaction(content, file="_txn")
    return next_version(current, partitions=_states(count), min_timestamp=0, max_timestamp=9)


def _states(count: int) -> list[PartitionState]:
    return states_of(dict.fromkeys(range(count), 7))
