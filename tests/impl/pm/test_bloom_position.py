"""Bloom filters are found in `_pm` or through it in data.parquet, and what cannot be one is rejected."""

from collections.abc import Callable

import pm_builder as pm
import pytest

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.parquet.bloom_filter import SIZE_MAX_BYTES, encode_filter_header
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.encode import NewRowGroup
from tornproof.impl.pm.footer import BloomReference

FLAGS = layout.BLOOM_FILTERS_EXTERNAL.put(layout.BLOOM_FILTERS.put(0, 1), 1)
INLINED = pm.header(pm.TIMESTAMP, pm.VALUE, pm.UUID, bloom_columns=(1, 2))
EXTERNAL = pm.header(pm.TIMESTAMP, pm.VALUE, pm.UUID, bloom_columns=(1, 2), feature_flags=FLAGS)
BITSET = bytes(range(32)) * 2
POSITION = 100
TOKEN = 100_000


def inlined(*rows: tuple[bytes | None, ...]) -> bytes:
    groups = [pm.row_group(INLINED, nth, blooms=row) for nth, row in enumerate(rows)]
    return pm.file(INLINED, *groups, footer=pm.facts(TOKEN))


def external(offset_bytes: int, length_bytes: int) -> bytes:
    reference = BloomReference(offset_bytes=offset_bytes, length_bytes=length_bytes)
    group = pm.row_group(EXTERNAL)
    made = NewRowGroup(num_rows=group.num_rows, chunks=group.chunks, blooms=(None, reference))
    return pm.file(EXTERNAL, made, footer=pm.facts(TOKEN))


def found(
    content: bytes, ordinal: int, column: int, read_data: Callable[[int, int], bytes] | None = None
) -> bytes | None:
    metadata = pm.read(content, TOKEN)
    return bitset_of(content, metadata, ordinal, column, read_data=read_data, file=pm.FILE)


def reader_of(raw: bytes) -> Callable[[int, int], bytes]:
    """Return a reader of a file that holds `raw` at POSITION and ends there."""
    data = bytes(POSITION) + raw
    return lambda size_bytes, offset_bytes: data[offset_bytes : offset_bytes + size_bytes]


def test_inlined_filters_are_found_by_row_group_and_column() -> None:
    content = inlined((b"a" * 32, b"b" * 64), (None, b"c" * 32))
    assert [[found(content, ordinal, column) for column in range(3)] for ordinal in range(2)] == [
        [None, b"a" * 32, b"b" * 64],
        [None, None, b"c" * 32],
    ]


@pytest.mark.parametrize("header", [b"", encode_filter_header(len(BITSET))])
def test_external_filters_are_read_with_a_header_in_front_or_without(header: bytes) -> None:
    raw = header + BITSET
    content = external(POSITION, len(raw))
    assert found(content, 0, 2, reader_of(raw)) == BITSET
    assert found(content, 0, 1, reader_of(raw)) is None
    assert found(content, 0, 2, None) is None


def test_an_inlined_filter_that_is_no_whole_number_of_blocks_is_corrupt() -> None:
    content = inlined((b"a" * 33, None))
    with pytest.raises(CorruptError, match=r"bloom bitset LENGTH.*a multiple of 32, found 33"):
        found(content, 0, 1)


def never_read(size_bytes: int, offset_bytes: int) -> bytes:
    raise AssertionError(f"{size_bytes} bytes at {offset_bytes} were read")


@pytest.mark.parametrize(
    ("offset_bytes", "length_bytes"),
    [(POSITION, 0), (TOKEN - 32, 64), (TOKEN + 1, 32), (4, SIZE_MAX_BYTES * 2), (1 << 63, 32)],
)
def test_no_filter_is_read_from_behind_the_committed_end_or_at_any_length(offset_bytes: int, length_bytes: int) -> None:
    with pytest.raises(CorruptError, match="bloom reference of column 'u' of row group 0"):
        found(external(offset_bytes, length_bytes), 0, 2, never_read)


HEADER = encode_filter_header(64)
UNKNOWN_HASH = HEADER.replace(b"\x1c\x1c\x00\x00", b"\x1c\x2c\x00\x00", 1)


@pytest.mark.parametrize(
    ("raw", "length_bytes"),
    [
        (BITSET[:-1], 64),
        (b"\xff" * 79, 79),
        (encode_filter_header(32) + BITSET, len(HEADER) + 64),
        (encode_filter_header(96) + BITSET, len(HEADER) + 64),
        (encode_filter_header(0), 15),
        (UNKNOWN_HASH + BITSET, len(HEADER) + 64),
    ],
    ids=["cut", "no header", "smaller", "larger", "empty", "other hash"],
)
def test_what_is_no_filter_in_the_data_file_is_corrupt(raw: bytes, length_bytes: int) -> None:
    assert found(external(POSITION, len(HEADER) + 64), 0, 2, reader_of(HEADER + BITSET)) == BITSET
    with pytest.raises(CorruptError, match="bloom reference of column 'u' of row group 0"):
        found(external(POSITION, length_bytes), 0, 2, reader_of(raw))
