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

pytestmark = pytest.mark.usefixtures("empty_directory")


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


@pytest.mark.parametrize(("size_bytes", "offset_bytes"), [(11, 90), (1, 100), (-1, 0), (1, -1)])
def test_ranges_outside_of_a_mapping_are_rejected(file: File, size_bytes: int, offset_bytes: int) -> None:
    with file.map(100) as mapping:
        with pytest.raises(AssertionError):
            mapping.read(size_bytes, offset_bytes)
        with pytest.raises(AssertionError), mapping.view(size_bytes, offset_bytes):
            pass


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


def test_a_failing_msync_arrives_in_plain_words(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingMap(mmap.mmap):
        def flush(self, *_: object) -> NoReturn:
            raise OSError("an error that carries no number")

    monkeypatch.setattr(mmap, "mmap", FailingMap)
    with file.map(100) as mapping, pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        mapping.msync()
