"""Decoded chunks are cached for as long as searches come back to them, and in bounded memory."""

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from tornproof.harness.common import remembered_codecs
from tornproof.harness.common.remembered_codecs import HELD_BYTES_MAX, remembered_decoding
from tornproof.impl.chunk.together import Piece

row_group: Any = importlib.import_module("tornproof.impl.read.row_group")
CHUNKS_OF_A_WIDE_TABLE = 2_000
"""Three versions of a table with 300 columns have as many chunks, and each state of a reader reads 900."""


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """Count how often each content is decoded."""
    counts: Counter[bytes] = Counter()

    def decode(content: bytes) -> pa.Array:
        counts[content] += 1
        return pa.array([len(content)])

    monkeypatch.setattr(row_group, "decode_chunk", decode)
    return counts


def test_every_chunk_of_a_wide_table_is_decoded_once(decoded: Counter[bytes]) -> None:
    """The cache was emptied after 1,000 chunks, so reading a table of 300 columns again and again never hit it.

    `check` of such a table decoded 900 chunks for each state of a reader, and was never seen to end.
    """
    contents = [f"chunk {index}".encode() for index in range(CHUNKS_OF_A_WIDE_TABLE)]
    with remembered_decoding():
        for _ in range(3):
            assert [row_group.decode_chunk(content)[0].as_py() for content in contents] == list(map(len, contents))
    assert len(decoded) == CHUNKS_OF_A_WIDE_TABLE and set(decoded.values()) == {1}


def test_chunks_that_are_decoded_together_are_each_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is read again in many states, in each of which other chunks of it are damaged."""
    counts: Counter[bytes] = Counter()

    def decode(pieces: list[Piece], *, file: str) -> list[pa.Array | None]:
        counts.update(piece.content for piece in pieces)
        return [pa.array([len(piece.content)]) if piece.content else None for piece in pieces]

    monkeypatch.setattr(row_group, "decode_together", decode)
    pieces: list[Any] = [Piece(b"x" * length, None, None) for length in range(5)]  # type: ignore[arg-type]
    with remembered_decoding():
        for first in range(4):
            found = row_group.decode_together(pieces[first:], file="data.parquet")
            assert [array and array.to_pylist() for array in found] == [
                [length] if length else None for length in range(first, 5)
            ]
    assert set(counts.values()) == {1} and len(counts) == 5


def test_what_is_cached_is_bounded_in_bytes(decoded: Counter[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_codecs, "HELD_BYTES_MAX", 10_000)
    large, small = b"x" * 6_000, b"y" * 5_000
    with remembered_decoding():
        for content in (large, large, small, small, large):
            row_group.decode_chunk(content)
    assert decoded == {large: 2, small: 1}, "the first is kept until both together are too large"
    assert HELD_BYTES_MAX >= 1 << 20, "the real bound has room for the chunks of a wide table"


def test_other_arguments_are_other_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_group, "decode_chunk", lambda content, *, file: (content, file))
    with remembered_decoding():
        assert row_group.decode_chunk(b"a", file="one") == (b"a", "one")
        assert row_group.decode_chunk(b"a", file="two") == (b"a", "two")
        assert row_group.decode_chunk(b"b", file="one") == (b"b", "one")


def test_chunks_that_are_new_are_decoded_together_as_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were decoded one by one, so that no explorer saw what is decoded together."""
    calls: list[list[object]] = []

    def decode(pieces: Sequence[Any], *, file: str) -> list[Any]:
        calls.append([piece.column for piece in pieces])
        return [f"{file} {piece.column}" for piece in pieces]

    monkeypatch.setattr("tornproof.impl.read.row_group.decode_together", decode)
    a, b, c = (Piece(content=b"x", column=cast("Any", name), chunk=cast("Any", None)) for name in "abc")
    with remembered_decoding():
        assert row_group.decode_together([a, b, a], file="f") == ["f a", "f b", "f a"]
        assert row_group.decode_together([b, c], file="f") == ["f b", "f c"]
        assert row_group.decode_together([a, b, c], file="f") == ["f a", "f b", "f c"]
        assert row_group.decode_together([a], file="g") == ["g a"]
    assert calls == [["a", "b"], ["c"], ["a"]]
