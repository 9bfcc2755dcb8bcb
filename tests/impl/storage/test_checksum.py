"""The CRC-32 of `_pm` is zlib's, whichever library computes it and in how many parts."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornproof.impl.storage import checksum
from tornproof.impl.storage.checksum import crc32, large_crc32


@given(st.binary(max_size=300), st.integers(0, (1 << 32) - 1))
def test_a_checksum_goes_on_from_another_as_zlib_does(content: bytes, start: int) -> None:
    assert crc32(content, start) == zlib.crc32(content, start)


@pytest.mark.parametrize("half_bytes_min", [0, 1, 40, 1000])
def test_halves_have_the_checksum_of_the_whole(half_bytes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "HALF_BYTES_MIN", half_bytes_min)
    for size in (0, 1, 2, 3, 79, 80, 81, 1001):
        content = bytes(value * 7 % 256 for value in range(size))
        assert large_crc32(content) == zlib.crc32(content)
        assert large_crc32(memoryview(content)[1:]) == zlib.crc32(content[1:])


def test_without_a_way_to_combine_there_is_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "HALF_BYTES_MIN", 0)
    monkeypatch.setattr(checksum, "crc32_combine", None)
    assert large_crc32(b"123456789") == 0xCBF43926
