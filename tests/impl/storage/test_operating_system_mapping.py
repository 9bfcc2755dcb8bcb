"""How mapped files of the operating system load, store, lend and let go."""

import gc
import mmap
import pickle
from collections.abc import Callable
from typing import NoReturn

import numpy
import pytest
from processes import descriptor_count

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import File, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


def test_mapped_stores_are_seen_by_pread_and_writes_by_loads(storage: OperatingSystemStorage, file: File) -> None:
    with storage.open_for_reading("file") as reading, file.map(100) as mapping:
        mapping.store_u64(8, 0x1122334455667788)
        mapping.store_u32(96, 0xFFFFFFFE)
        assert reading.pread(8, 8) == bytes.fromhex("8877665544332211")
        assert reading.pread(4, 96) == bytes.fromhex("feffffff")
        file.pwrite(bytes(range(8)), 16)
        assert mapping.load_u64(16) == 0x0706050403020100
        assert mapping.load_u32(20) == 0x07060504
        mapping.msync()
    assert file.pread(8, 8) == bytes.fromhex("8877665544332211")


def test_a_mapping_of_a_file_opened_for_reading_sees_stores_of_another(
    storage: OperatingSystemStorage, file: File
) -> None:
    with storage.open_for_reading("file") as reading, reading.map(64) as seen, file.map(64) as stored:
        stored.store_u64(0, 42)
        assert seen.load_u64(0) == 42


def test_words_at_both_ends_of_a_mapping_are_in_reach_and_no_further(file: File) -> None:
    with file.map(100) as mapping:
        assert mapping.load_u64(88) == int.from_bytes(bytes(range(88, 96)), "little")
        assert mapping.load_u32(96) == int.from_bytes(bytes(range(96, 100)), "little")
        for offset_bytes in (-8, 96, 100, 104):
            with pytest.raises(AssertionError):
                mapping.load_u64(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u64(offset_bytes, 0)
        for offset_bytes in (-4, 100):
            with pytest.raises(AssertionError):
                mapping.load_u32(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u32(offset_bytes, 0)
    assert file.pread(100, 0) == bytes(range(100))
    with file.map(24) as mapping:
        assert mapping.load_u64(16) == int.from_bytes(bytes(range(16, 24)), "little")


@pytest.mark.parametrize("misalignment_bytes", range(1, 8))
def test_unaligned_words_are_rejected(file: File, misalignment_bytes: int) -> None:
    with file.map(100) as mapping:
        with pytest.raises(AssertionError):
            mapping.load_u64(16 + misalignment_bytes)
        with pytest.raises(AssertionError):
            mapping.store_u64(16 + misalignment_bytes, 0)
        if misalignment_bytes % 4:
            with pytest.raises(AssertionError):
                mapping.load_u32(16 + misalignment_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u32(16 + misalignment_bytes, 0)
    assert file.pread(100, 0) == bytes(range(100))


def test_words_hold_their_largest_value_and_reject_larger_ones(file: File) -> None:
    with file.map(16) as mapping:
        mapping.store_u64(0, (1 << 64) - 1)
        mapping.store_u32(8, (1 << 32) - 1)
        assert (mapping.load_u64(0), mapping.load_u32(8)) == ((1 << 64) - 1, (1 << 32) - 1)
        for value in (-1, 1 << 64):
            with pytest.raises(AssertionError):
                mapping.store_u64(0, value)
        for value in (-1, 1 << 32):
            with pytest.raises(AssertionError):
                mapping.store_u32(8, value)


@pytest.mark.parametrize("size_bytes", [101, 1 << 40, 1 << 70])
def test_a_mapping_longer_than_the_file_is_rejected(file: File, size_bytes: int) -> None:
    with pytest.raises(StorageError, match=StorageReason.TOO_SHORT):
        file.map(size_bytes)


def test_read_copies_and_view_does_not(file: File) -> None:
    with file.map(100) as mapping:
        copied = mapping.read(10, 90)
        with mapping.view(10, 90) as leased:
            file.pwrite(b"x", 90)
            assert leased.tobytes() == b"x" + bytes(range(91, 100))
            assert leased.readonly
        assert copied == bytes(range(90, 100))


@pytest.mark.parametrize(("size_bytes", "offset_bytes"), [(11, 90), (1, 100), (-1, 0), (1, -1)])
def test_ranges_outside_of_a_mapping_are_rejected(file: File, size_bytes: int, offset_bytes: int) -> None:
    with file.map(100) as mapping:
        with pytest.raises(AssertionError):
            mapping.read(size_bytes, offset_bytes)
        with pytest.raises(AssertionError), mapping.view(size_bytes, offset_bytes):
            pass


def test_a_view_ends_with_its_lease(file: File) -> None:
    with file.map(100) as mapping:
        with mapping.view(10, 0) as leased:
            pass
        with pytest.raises(ValueError, match="released"):
            leased[0]


@pytest.mark.parametrize("keep", [lambda view: numpy.frombuffer(view, "u1"), pickle.PickleBuffer])
def test_bytes_that_an_error_carries_out_of_a_lease_hide_no_error_and_crash_nothing(
    file: File, keep: Callable[[memoryview], object]
) -> None:
    with pytest.raises(FileMissingError, match="on purpose"), file.map(100) as mapping, mapping.view(10, 0) as leased:
        kept = keep(leased)
        raise FileMissingError(file="inner", operation="test", reason="on purpose")
    assert bytes(memoryview(kept)) == bytes(range(10))  # type: ignore[arg-type]


def test_the_memory_goes_with_the_last_array_of_it(file: File) -> None:
    before_count = descriptor_count()
    with file.map(100) as mapping, mapping.view(10, 0) as leased:
        kept = numpy.frombuffer(leased, "u1")
    assert descriptor_count() == before_count + 1
    del kept, leased, mapping
    gc.collect()
    assert descriptor_count() == before_count


def test_unmapping_under_a_lease_is_a_bug(file: File) -> None:
    with file.map(100) as mapping, mapping.view(10, 0), pytest.raises(AssertionError):
        mapping.unmap()


def test_unmapping_twice_is_harmless_and_a_load_after_it_is_not_served(file: File) -> None:
    mapping = file.map(100)
    mapping.unmap()
    mapping.unmap()
    with pytest.raises(ValueError, match="released"):
        mapping.load_u64(0)


def test_a_mapping_outlives_its_file_and_the_name_of_it(storage: OperatingSystemStorage, file: File) -> None:
    with file.map(100) as mapping:
        storage.unlink("file")
        file.close()
        assert mapping.load_u64(0) == 0x0706050403020100


def test_a_failing_msync_arrives_in_plain_words(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingMap(mmap.mmap):
        def flush(self, *_: object) -> NoReturn:
            raise OSError("an error that carries no number")

    monkeypatch.setattr(mmap, "mmap", FailingMap)
    with file.map(100) as mapping, pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        mapping.msync()
