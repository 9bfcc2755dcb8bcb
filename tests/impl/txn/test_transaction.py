"""`_txn` files of real releases are decoded; damaged or changing, they are rejected with a message, never misread."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_data
import pytest
from damage import each_flipped, patched
from depth import nightly
from golden_data import CopyOf
from rejections import rejection
from work import counted_calls

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import BusyError, CorruptError, FileMissingError, Problem, UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn import transaction
from tornproof.impl.txn.transaction import (
    AREA_LIMIT_BYTES,
    RECORD_BYTES,
    RECORD_LIMIT_BYTES,
    Area,
    Transaction,
    area_of,
    check_area,
    decode_transaction,
)

TORN_IMAGES = tuple(name for name in golden_data.POWER_LOSSES if name.endswith("txn-version-new-record-area-old"))
FILES = tuple(name for name in golden_data.files_named("_txn") if not name.startswith(TORN_IMAGES))
CHAIN = "tables/9.4.2/chain/table/_txn"
HISTORY = golden_data.files("tables/9.4.2/history/history/*/_txn")
RECORD = layout.TransactionRecord.layout
CALLS_MAX = 10_000


def area(**changes: int) -> Area:
    values = {"slot_offset_bytes": 8, "record_offset": 64, "symbols_size": 16, "partitions_size": 64} | changes
    return Area(name="A", **values)


def live_area(content: bytes) -> Area:
    base = layout.BaseHeader.unpack(content, 0, file="_txn")
    return area_of(base, base.version)


def problem_of(content: bytes) -> Problem:
    problem = rejection(lambda: decode_transaction(content, file="_txn"))
    assert problem.file == "_txn"
    return problem


class ScriptedStorage(InterceptedStorage):
    """One file whose content before the n-th call of pread is the n-th of a script; its size is not used."""

    def __init__(self, contents: Iterator[bytes]) -> None:
        super().__init__(MemoryStorage.of(DiskImage().with_file("table/_txn", b"")))
        self._contents = contents
        self.order: list[str] = []

    def intercept(self, call: Call, run: Run[Any]) -> Any:
        assert call.kind not in (CallKind.SIZE, CallKind.LISTDIR, CallKind.KIND)
        if call.kind is CallKind.PREAD:
            assert call.size_bytes >= 0 and call.offset_bytes >= 0
            self.order.append("record" if call.offset_bytes else "version")
            return next(self._contents)[call.offset_bytes : call.offset_bytes + call.size_bytes]
        if call.kind is CallKind.LOAD_FENCE:
            self.order.append("fence")
        return run()


def safe_read(contents: Iterator[bytes]) -> Transaction:
    return transaction.safe_read(ScriptedStorage(contents), "table/_txn")


def unchanging(content: bytes) -> Iterator[bytes]:
    while True:
        yield content


def changing_once(old: bytes, new: bytes, *, after_call_count: int) -> Iterator[bytes]:
    for _ in range(after_call_count):
        yield old
    yield from unchanging(new)


@pytest.mark.parametrize("name", FILES)
def test_real_files_decode_to_partitions_that_ascend_and_to_the_rows_that_the_record_counts(
    questdb_data: Path, name: str
) -> None:
    found = decode_transaction((questdb_data / name).read_bytes(), file=name)
    timestamps = [partition.timestamp for partition in found.partitions]
    assert found.partitions and timestamps == sorted(set(timestamps))
    assert found.record.txn == found.version
    assert sum(partition.row_count for partition in found.partitions) == (
        found.record.fixed_row_count + found.record.transient_row_count
    )
    assert found.partitions[-1].row_count == found.record.transient_row_count
    for partition in found.partitions:
        assert partition.token > 12 if partition.is_parquet else partition.token in (-1, 0)


@pytest.mark.parametrize("name", TORN_IMAGES)
def test_a_version_whose_record_was_lost_is_rejected(questdb_data: Path, name: str) -> None:
    problem = problem_of((questdb_data / name / "table" / "_txn").read_bytes())
    assert (problem.field, problem.actual) == ("TXN", "2")


@pytest.mark.parametrize("name", FILES)
def test_offsets_of_a_partition_lead_back_to_its_values(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    for partition in decode_transaction(content, file=name).partitions:
        entry = layout.PartitionEntry.unpack(content, partition.entry_offset_bytes, file=name)
        word = int.from_bytes(content[partition.flags_offset_bytes :][:8], "little")
        rows = int.from_bytes(content[partition.row_count_offset_bytes :][:8], "little")
        assert (entry.timestamp, entry.name_txn) == (partition.timestamp, partition.name_txn)
        assert int.from_bytes(content[partition.token_offset_bytes :][:8], "little", signed=True) == partition.token
        assert word & ~layout.ROW_COUNT.mask == partition.flags
        assert layout.ROW_COUNT.get(rows) == partition.row_count


@pytest.mark.parametrize("name", FILES)
def test_everything_outside_the_live_area_may_be_garbage(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    live = live_area(content)
    garbage = bytearray(b"\xa5" * len(content))
    for start, size_bytes in ((0, 8), (live.slot_offset_bytes, 12), (live.record_offset, live.size_bytes)):
        garbage[start : start + size_bytes] = content[start : start + size_bytes]
    assert decode_transaction(garbage, file=name) == decode_transaction(content, file=name)
    assert safe_read(unchanging(bytes(garbage))) == decode_transaction(content, file=name)


@pytest.mark.parametrize("name", FILES)
def test_the_version_before_selects_the_sibling_record(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    committed = decode_transaction(content, file=name)
    earlier = decode_transaction(patched(content, 0, committed.version - 1, 8), file=name)
    assert earlier == decode_transaction(content, file=name, version=committed.version - 1)
    assert earlier.version == earlier.record.txn == committed.version - 1
    assert problem_of(patched(content, 0, committed.version + 1, 8)).field == "TXN"
    assert problem_of(patched(content, 0, committed.version + 2, 8)).field == "TXN"


def test_a_negative_version_is_rejected(questdb_data: Path) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    assert problem_of(patched(content, 0, -1, 8)).field == "VERSION"


def test_an_area_that_just_fits_is_accepted() -> None:
    check_area(area(), area().record_offset + area().size_bytes, file="_txn")
    check_area(area(symbols_size=0, partitions_size=0), 64 + RECORD_BYTES + 4, file="_txn")


@pytest.mark.parametrize(
    ("changes", "field", "offset_bytes"),
    [
        ({"record_offset": 56}, "A_RECORD_OFFSET", 8),
        ({"record_offset": -64}, "A_RECORD_OFFSET", 8),
        ({"record_offset": 68}, "A_RECORD_OFFSET", 8),
        ({"record_offset": 72}, "A_RECORD_OFFSET", 8),
        ({"symbols_size": -8}, "A_SYMBOLS_SIZE", 12),
        ({"symbols_size": 12}, "A_SYMBOLS_SIZE", 12),
        ({"partitions_size": -32}, "A_PARTITIONS_SIZE", 16),
        ({"partitions_size": 72}, "A_PARTITIONS_SIZE", 16),
        ({"partitions_size": 96}, "A_RECORD_OFFSET", 8),
    ],
)
def test_an_area_that_cannot_stand_there_is_rejected(changes: dict[str, int], field: str, offset_bytes: int) -> None:
    end_bytes = area().record_offset + area().size_bytes
    problem = rejection(lambda: check_area(area(**changes), end_bytes, file="_txn"))
    assert (problem.field, problem.offset_bytes) == (field, offset_bytes)


@pytest.mark.parametrize(
    ("name", "value", "size_bytes", "field"),
    [
        ("txn", 0, 8, "TXN"),
        ("transient_row_count", -1, 8, "TRANSIENT_ROW_COUNT"),
        ("fixed_row_count", 0, 8, "FIXED_ROW_COUNT"),
        ("symbol_column_count", -1, 4, "SYMBOL_COLUMN_COUNT"),
        ("symbol_column_count", 2**31 - 1, 4, "SYMBOL_COLUMN_COUNT"),
    ],
)
def test_a_record_that_contradicts_itself_is_rejected(
    questdb_data: Path, name: str, value: int, size_bytes: int, field: str
) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    position = live_area(content).record_offset + RECORD.offset_of(name)
    problem = problem_of(patched(content, position, value, size_bytes))
    assert (problem.field, problem.offset_bytes, problem.actual) == (field, position, str(value))


def test_partitions_that_do_not_ascend_are_rejected(questdb_data: Path) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    first, second, *_ = decode_transaction(content, file="_txn").partitions
    problem = problem_of(patched(content, second.entry_offset_bytes, first.timestamp, 8))
    assert (problem.field, problem.offset_bytes) == ("TIMESTAMP of a partition", second.entry_offset_bytes)
    decode_transaction(patched(content, second.entry_offset_bytes, first.timestamp + 1, 8), file="_txn")


def test_a_directory_of_the_version_itself_is_rejected(questdb_data: Path) -> None:
    """The next commit removed it, because new directories are named after the version before them."""
    content = (questdb_data / CHAIN).read_bytes()
    found = decode_transaction(content, file="_txn")
    position = found.partitions[0].entry_offset_bytes + layout.PartitionEntry.layout.offset_of("name_txn")
    decode_transaction(patched(content, position, found.version - 1, 8), file="_txn")
    for name_txn in (found.version, found.version + 1, 2**63 - 1):
        expected = f"less than {found.version}, the version"
        problem = problem_of(patched(content, position, name_txn, 8))
        assert problem == Problem("_txn", "NAME_TXN", position, expected, str(name_txn))


def test_the_two_sizes_of_the_partition_table_must_agree(questdb_data: Path) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    live = live_area(content)
    position = live.record_offset + RECORD_BYTES + live.symbols_size
    assert problem_of(patched(content, position, live.partitions_size - 32, 4)).offset_bytes == position


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 8, 63, 64, 100, 264])
def test_a_cut_file_is_rejected(questdb_data: Path, size_bytes: int) -> None:
    cut = (questdb_data / CHAIN).read_bytes()[:size_bytes]
    problem_of(cut)
    with pytest.raises(CorruptError):
        safe_read(unchanging(cut))


@pytest.mark.parametrize("value", [-(2**31), -1, 2**30, 2**31 - 1, 2**31 - 32])
@pytest.mark.parametrize("word", [0, 1, 2], ids=["record_offset", "symbols_size", "partitions_size"])
def test_hostile_sizes_are_rejected_before_they_cost_anything(questdb_data: Path, word: int, value: int) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    hostile = patched(content, live_area(content).slot_offset_bytes + 4 * word, value, 4)
    problem_of(hostile)
    with pytest.raises((CorruptError, UnsupportedError)):
        safe_read(unchanging(hostile))


def test_a_record_beyond_the_limit_is_called_unsupported_and_a_claim_of_one_wrong(questdb_data: Path) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    live = live_area(content)
    sizes = live.slot_offset_bytes + 8
    largest = (RECORD_LIMIT_BYTES - (live.size_bytes - live.partitions_size)) // 32 * 32
    grown = content.ljust(live.record_offset + 2 * RECORD_LIMIT_BYTES, b"\0")
    with pytest.raises(CorruptError):
        safe_read(unchanging(patched(content, sizes, largest + 32, 4)))
    with pytest.raises(CorruptError):
        safe_read(unchanging(patched(grown, sizes, largest, 4)))
    problem = rejection(lambda: safe_read(unchanging(patched(grown, sizes, largest + 32, 4))), UnsupportedError)
    assert problem.offset_bytes == live.slot_offset_bytes


def test_a_record_far_behind_the_start_is_read_up_to_the_limit(questdb_data: Path) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    live = live_area(content)
    record = content[live.record_offset : live.record_offset + live.size_bytes]

    def moved(record_offset: int) -> bytes:
        patched_slot = patched(content, live.slot_offset_bytes, record_offset, 4)
        return patched_slot.ljust(record_offset, b"\0") + record

    committed = decode_transaction(content, file="_txn")
    assert safe_read(unchanging(moved(9 * 1024 * 1024))).version == committed.version
    with pytest.raises(UnsupportedError, match="RECORD_OFFSET"):
        safe_read(unchanging(moved(AREA_LIMIT_BYTES)))


@pytest.mark.parametrize("step", [7, nightly(1)])
def test_flipped_bits_are_rejected_or_decode_at_a_bounded_cost(questdb_data: Path, step: int) -> None:
    content = (questdb_data / CHAIN).read_bytes()
    committed = decode_transaction(content, file="_txn")
    rejected = harmless = different = 0
    for damaged in each_flipped(content, step):
        try:
            with counted_calls(CALLS_MAX):
                found = decode_transaction(damaged, file="_txn")
            harmless, different = harmless + (found == committed), different + (found != committed)
        except (CorruptError, UnsupportedError):
            rejected += 1
    assert rejected + harmless + different == len(range(0, 8 * 4096, step))
    assert min(rejected, harmless, different) > 0


@pytest.mark.parametrize("step", range(len(HISTORY) - 1))
@pytest.mark.parametrize("after_call_count", range(6))
def test_a_commit_between_any_two_reads_gives_one_of_the_two_versions(
    questdb_data: Path, step: int, after_call_count: int
) -> None:
    old, new = ((questdb_data / name).read_bytes() for name in HISTORY[step : step + 2])
    both = [decode_transaction(content, file="_txn") for content in (old, new)]
    assert safe_read(changing_once(old, new, after_call_count=after_call_count)) == both[after_call_count < 4]


def test_garbage_that_is_gone_at_the_second_check_is_not_decoded(questdb_data: Path) -> None:
    old, new = ((questdb_data / name).read_bytes() for name in HISTORY[:2])
    live = live_area(old)
    for torn, call_count in (
        (patched(old, live.slot_offset_bytes + 8, 2**31 - 32, 4), 3),
        (patched(old, live.slot_offset_bytes, -1, 4), 2),
        (patched(old, live.record_offset, 7, 8), 3),
        (old[:40], 2),
        (old[:100], 3),
    ):
        assert safe_read(changing_once(torn, new, after_call_count=call_count)) == decode_transaction(new, file="_txn")


def test_the_record_is_read_between_the_fences_and_the_checks(questdb_data: Path) -> None:
    old, new = ((questdb_data / name).read_bytes() for name in HISTORY[:2])
    storage = ScriptedStorage(changing_once(old, new, after_call_count=2))
    transaction.safe_read(storage, "table/_txn")

    one_attempt = ["version", "fence", "record", "record", "fence", "version"]
    assert storage.order == 2 * one_attempt


def test_a_version_that_never_rests_is_busy_after_one_second(questdb_data: Path) -> None:
    old, new = ((questdb_data / name).read_bytes() for name in HISTORY[:2])

    def restless() -> Iterator[bytes]:
        while True:
            yield from (old, old, old, new)

    storage = ScriptedStorage(restless())
    with pytest.raises(BusyError, match=r"_txn.*1 s"):
        transaction.safe_read(storage, "table/_txn")
    assert 1.0 < storage.monotonic_seconds() < 1.01


def test_a_reader_of_files_reports_what_the_decoder_reports(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    expected = decode_transaction(path.read_bytes(), file="_txn")
    assert transaction.safe_read(OperatingSystemStorage(), str(path)) == expected
    path.unlink()
    with pytest.raises(FileMissingError):
        transaction.safe_read(OperatingSystemStorage(), str(path))
