"""Which bytes were read: the tracing storage passes everything on and records all reads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.trace import ReadRanges, TracingStorage
from tornproof.impl.errors import FileMissingError
from tornproof.impl.storage.interface import EntryKind

IMAGE = DiskImage().with_file("/t/a", bytes(range(100))).with_file("/t/b", b"b")

RANGES = st.sets(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(RANGES)
def test_bytes_of_a_range_were_read_exactly_if_one_of_them_is_in_a_range_that_was(ranges: set[tuple[int, int]]) -> None:
    merged = ReadRanges(ranges)
    read = {offset for start, end in ranges for offset in range(start, end)}
    for start, end in itertools.combinations(range(-2, 90), 2):
        assert merged.have_any(start, end) is not read.isdisjoint(range(start, end))


def offsets(ranges: ReadRanges) -> list[int]:
    return [offset for offset in range(100) if ranges.have_any(offset, offset + 1)]


def test_reads_are_passed_on_and_recorded_per_file() -> None:
    storage = TracingStorage(IMAGE)
    with storage.open_for_reading("/t/a") as file:
        assert file.pread(3, 10) == bytes([10, 11, 12])
        assert file.pread(2, 20) == bytes([20, 21])
        assert file.size_bytes() == 100
    assert offsets(storage.ranges("/t/a")) == [10, 11, 12, 20, 21]
    assert offsets(storage.ranges("/t/b")) == []


def test_two_handles_of_one_file_add_up() -> None:
    storage = TracingStorage(IMAGE)
    for offset_bytes in (1, 3):
        with storage.open_for_reading("/t/a") as file:
            file.pread(1, offset_bytes)
    assert offsets(storage.ranges("/t/a")) == [1, 3]


def test_a_read_over_the_end_covers_what_was_asked_for() -> None:
    storage = TracingStorage(IMAGE)
    with storage.open_for_reading("/t/b") as file:
        assert file.pread(10, 0) == b"b"
    assert offsets(storage.ranges("/t/b")) == [*range(10)]


def test_everything_else_is_the_inner_storage() -> None:
    storage = TracingStorage(IMAGE)
    assert storage.listdir("/t") == ("a", "b")
    assert [storage.kind(path) for path in ("/t", "/t/a", "/t/c")] == [
        EntryKind.DIRECTORY,
        EntryKind.FILE,
        EntryKind.MISSING,
    ]
    before = storage.monotonic_seconds()
    storage.sleep_seconds(1.5)
    assert storage.monotonic_seconds() - before == 1.5
    with pytest.raises(FileMissingError):
        storage.open_for_reading("/t/c")
