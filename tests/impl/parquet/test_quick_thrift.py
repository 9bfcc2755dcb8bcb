"""`quick_read` returns what the lossless decoder returns, or None."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import golden_data
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_of

from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.fields import PAGE_HEADER
from tornproof.impl.parquet.pages import quick_read
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import BrokenError, Field, Kind, Struct, decode, encode


def header_of(*fields: Field) -> bytes:
    return encode(Struct(fields))


def number(id: int, value: int, kind: Kind = Kind.I32, **form: int) -> Field:
    return Field(id, kind, value, **form)


DATA_PAGE = Struct((number(1, 1024), number(2, 0), number(3, 3), number(4, 3)))
HEADER = header_of(
    number(1, 0), number(2, 8199), number(3, 4733), number(4, -80839362), Field(5, Kind.STRUCT, DATA_PAGE)
)


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """What both ways have in common: numbers, and structs of numbers."""
    return {
        name: numbers(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if name != "offset_bytes" and isinstance(value, dict | int)
    }


def strict_read(data: bytes) -> tuple[dict[str, Any], int]:
    header, end = decode(data, file="data.parquet")
    return read(header, PAGE_HEADER), end


def assert_agrees(data: bytes) -> bool:
    """Whether `quick_read` returned something, after checking that the strict decoder returns the same."""
    quick = quick_read(data, 0, PAGE_HEADER)
    if quick is None:
        return False
    values, end = strict_read(data)
    # The quick way leaves trees alone, such as statistics in a header; the strict one keeps them as trees.
    found = numbers(quick[0])
    for inner in found.values():
        if isinstance(inner, dict):
            inner.pop("statistics", None)
    assert (found, quick[1]) == (numbers(values), end)
    return True


def test_an_ordinary_header_is_read() -> None:
    assert assert_agrees(HEADER)
    values, end = quick_read(HEADER, 0, PAGE_HEADER) or ({}, 0)
    assert (values["compressed_page_size"], end) == (4733, len(HEADER))
    assert quick_read(b"\xff" * 3 + HEADER, 3, PAGE_HEADER) == (values, end + 3)


@pytest.mark.parametrize("name", golden_data.files("tables/*/*/table/*/data.parquet"))
def test_the_first_header_of_every_real_chunk_has_a_quick_answer(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    chunks = [chunk for group in footer_of(content).row_groups for chunk in group.chunks if chunk.total_compressed_size]
    for chunk in chunks:
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        assert assert_agrees(content[start : start + chunk.total_compressed_size])


@given(st.data())
def test_whatever_bytes_there_are_the_quick_answer_is_the_strict_one(data: st.DataObject) -> None:
    changed = bytearray(HEADER)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(changed) - 1))
        changed[position] = data.draw(st.integers(0, 255))
    cut = bytes(changed)[: data.draw(st.integers(0, len(changed)))]
    assert_agrees(cut + data.draw(st.binary(max_size=4)))


@given(st.binary(max_size=40))
def test_random_bytes_have_no_answer_that_the_strict_decoder_rejects(content: bytes) -> None:
    if quick_read(content, 0, PAGE_HEADER) is not None:
        try:
            assert_agrees(content)
        except (ProblemError, BrokenError):
            pytest.fail("the strict decoder rejects it")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        HEADER[:-1],
        HEADER[:12],
        header_of(number(1, 7), number(2, 1), number(3, 1)),
        header_of(number(1, 0, Kind.I64), number(2, 1), number(3, 1)),
        header_of(number(1, 0), number(2, -1), number(3, 1)),
        header_of(number(1, 0), number(3, 1)),
        header_of(number(1, 0, id_width_bytes=1), number(2, 1), number(3, 1)),
        header_of(number(1, 0), number(2, 1), number(3, 1), number(9, 1, Kind.BYTE)),
        header_of(number(1, 0), number(2, 1), number(3, 1), Field(5, Kind.STRUCT, Struct(()))),
    ],
)
def test_what_is_wrong_or_unusual_is_left_to_the_strict_decoder(header: bytes) -> None:
    assert quick_read(header, 0, PAGE_HEADER) is None
