"""The mapped reader of `_txn` agrees with the one that uses `pread`, and maps more if an area needs it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_data
import pytest
from depth import sampled
from txn_files import applied

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import BusyError, CorruptError, FileMissingError, TornproofError, UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.mapped import MappedTransactions
from tornproof.impl.txn.transaction import AREA_LIMIT_BYTES, Transaction, decode_transaction, safe_read
from tornproof.impl.txn.write import PartitionState, encode_new_file, first_version, next_version, plan_store

BASE = layout.BaseHeader.layout
EMPTY_FILE = encode_new_file(first_version(2))
FLAGS = layout.PARQUET_FORMAT.put(0, 1)


def storage_of(content: bytes) -> MemoryStorage:
    return MemoryStorage.of(DiskImage().with_file("_txn", content))


def outcome(read: Callable[[], Transaction]) -> Transaction | str:
    """What a reader returns, or the class of its error."""
    try:
        return read()
    except TornproofError as error:
        return type(error).__name__


def mapped(content: bytes) -> Transaction:
    with MappedTransactions(storage_of(content), "_txn") as transactions:
        return transactions.read()


def read(content: bytes) -> Transaction:
    return safe_read(storage_of(content), "_txn")


def with_slot(content: bytes, **fields: Any) -> bytes:
    base = layout.BaseHeader.unpack(content, 0, file="_txn")
    return replace(base, **fields).pack() + content[BASE.size_bytes :]


def committed(content: bytes, partition_count: int) -> bytes:
    """The file after one more commit, which names so many partitions."""
    states = [
        PartitionState(timestamp=number, row_count=number, flags=FLAGS, name_txn=0, token=9)
        for number in range(partition_count)
    ]
    current = decode_transaction(content, file="_txn")
    plan = plan_store(content, next_version(current, partitions=states, min_timestamp=0, max_timestamp=9))
    return applied(content.ljust(plan.file_size_bytes, b"\0"), (*plan.record_stores, plan.version_store))


@pytest.mark.parametrize("name", sampled(60, golden_data.files_named("_txn")))
def test_every_real_file_is_read_as_the_other_reader_reads_it(questdb_data: Path, name: str) -> None:
    path = str(questdb_data / name)
    storage = OperatingSystemStorage()
    with MappedTransactions(storage, path) as transactions:
        first, second = outcome(transactions.read), outcome(transactions.read)
    assert first == second == outcome(lambda: safe_read(storage, path))


def test_a_file_that_is_cut_anywhere_is_rejected_as_the_other_reader_rejects_it() -> None:
    content = committed(EMPTY_FILE, 3)[: 64 + 2 * 152 + 96]
    expected = [outcome(lambda cut=cut: read(content[:cut])) for cut in range(len(content))]  # type: ignore[misc]
    found = [outcome(lambda cut=cut: mapped(content[:cut])) for cut in range(len(content))]  # type: ignore[misc]
    assert found == expected
    assert set(found) == {"CorruptError"}
    assert mapped(content) == read(content)


@pytest.mark.parametrize(
    ("fields", "rejection"),
    [
        ({"version": -1}, CorruptError),
        ({"version": 2}, CorruptError),
        ({"version": 1}, CorruptError),
        ({"a_record_offset": 8}, CorruptError),
        ({"a_record_offset": 68}, CorruptError),
        ({"a_record_offset": -64}, CorruptError),
        ({"a_record_offset": 1 << 30}, CorruptError),
        ({"a_symbols_size": -8}, CorruptError),
        ({"a_symbols_size": 12}, CorruptError),
        ({"a_symbols_size": 24}, CorruptError),
        ({"a_partitions_size": -32}, CorruptError),
        ({"a_partitions_size": 33}, CorruptError),
        ({"a_partitions_size": 32}, CorruptError),
        ({"a_partitions_size": 1 << 30}, CorruptError),
    ],
)
def test_a_wrong_slot_is_rejected_as_the_other_reader_rejects_it(
    fields: dict[str, int], rejection: type[TornproofError]
) -> None:
    content = with_slot(EMPTY_FILE, **fields)
    with pytest.raises(rejection):
        mapped(content)
    assert outcome(lambda: mapped(content)) == outcome(lambda: read(content))


def test_a_record_beyond_what_is_mapped_or_too_long_to_load_is_not_supported() -> None:
    beyond = with_slot(EMPTY_FILE, a_record_offset=AREA_LIMIT_BYTES).ljust(AREA_LIMIT_BYTES + 4096, b"\0")
    too_long = with_slot(EMPTY_FILE, a_partitions_size=4 << 20).ljust(8 << 20, b"\0")
    for content in (beyond, too_long):
        with pytest.raises(UnsupportedError):
            mapped(content)
        assert outcome(lambda content=content: read(content)) == "UnsupportedError"  # type: ignore[misc]


def test_a_file_that_is_not_there_is_missing() -> None:
    with pytest.raises(FileMissingError):
        MappedTransactions(MemoryStorage(), "_txn")


def test_an_area_behind_the_mapping_is_mapped_when_a_version_names_it(tmp_path: Path) -> None:
    path = tmp_path / "_txn"
    path.write_bytes(EMPTY_FILE)
    grown = committed(EMPTY_FILE, 200)
    assert len(grown) > len(EMPTY_FILE)
    with MappedTransactions(OperatingSystemStorage(), str(path)) as transactions:
        assert transactions.read().version == 0
        with path.open("r+b") as file:
            file.write(grown)
        assert transactions.read() == decode_transaction(grown, file="_txn")


def test_an_area_that_the_file_does_not_hold_is_corrupt_and_no_bus_error() -> None:
    cut = committed(EMPTY_FILE, 200)[: len(EMPTY_FILE)]
    with pytest.raises(CorruptError, match="inside the file's 4096"):
        mapped(cut)


class MovingVersion(InterceptedStorage):
    """A `_txn` whose version changes between the first loads."""

    def __init__(self, content: bytes, moves: int) -> None:
        super().__init__(storage_of(content))
        self._looks = itertools.count(1)
        self._moves = moves
        self.fences: list[CallKind] = []

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        if call.kind in (CallKind.LOAD, CallKind.LOAD_FENCE):
            self.fences.append(call.kind)
        answer = run()
        if call.kind is CallKind.LOAD and call.offset_bytes == 0:
            return max(0, self._moves - next(self._looks)) * 2  # type: ignore[return-value]
        return answer


def test_a_version_that_changes_between_the_checks_is_read_again() -> None:
    storage = MovingVersion(EMPTY_FILE, moves=3)
    with MappedTransactions(storage, "_txn") as transactions:
        assert transactions.read().version == 0
    grouped = [kind for kind, _ in itertools.groupby(storage.fences)]
    assert grouped.count(CallKind.LOAD_FENCE) == 4, "two fences each for two attempts"


def test_a_version_that_never_rests_is_busy() -> None:
    storage = MovingVersion(EMPTY_FILE, moves=1 << 20)
    with MappedTransactions(storage, "_txn") as transactions, pytest.raises(BusyError):
        transactions.read()


def test_the_record_is_loaded_between_the_fences_and_the_checks() -> None:
    storage = MovingVersion(EMPTY_FILE, moves=0)
    with MappedTransactions(storage, "_txn") as transactions:
        transactions.read()
    first, fence, *record, last_fence, last = storage.fences
    assert (first, fence, last_fence, last) == (
        CallKind.LOAD,
        CallKind.LOAD_FENCE,
        CallKind.LOAD_FENCE,
        CallKind.LOAD,
    )
    assert record == [CallKind.LOAD] * (3 + (132 + 2 * 8 + 4) // 8)


def test_a_record_that_is_too_long_is_not_loaded() -> None:
    storage = MovingVersion(with_slot(EMPTY_FILE, a_partitions_size=4 << 20).ljust(8 << 20, b"\0"), moves=0)
    with MappedTransactions(storage, "_txn") as transactions, pytest.raises(UnsupportedError):
        transactions.read()
    assert storage.fences.count(CallKind.LOAD) == 2 + 3, "two looks and the slot"


def test_closing_twice_is_harmless() -> None:
    transactions = MappedTransactions(storage_of(EMPTY_FILE), "_txn")
    transactions.close()
    transactions.close()
