"""Columns in new encodings: how numbers are packed, and what is read of them whatever the footer says besides."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.explorers.model_based.other_footers import CHUNK_FACTS, with_fields_of
from tornproof.harness.explorers.roundtrip.forms import in_form, opened, reader_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.impl.chunk.duplicate_values import duplicate_problems, read_column_values
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension.bit_packing import pack, unpack
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.thrift import Field, Kind

FILE, COLUMN = "data.parquet", "a"
WIDTHS = range(65)
COUNT = 100
"""More than a block of 64 numbers, and not a multiple of it."""
SIGN = 1 << 31
NO_DICTIONARY = Field(11, Kind.I64, 0)
"""Of a chunk's facts: its dictionary page is at byte 0."""


def new_encodings() -> Iterator[Question]:
    """Yield numbers of each width, and columns of few or large numbers, in the old encoding and in the new one."""
    for width in WIDTHS:
        mask = (1 << width) - 1
        numbers = [(0x9E3779B97F4A7C15 * (number + 1) >> 3) & mask for number in range(COUNT - 1)] + [mask]
        bits = sum(number << width * place for place, number in enumerate(numbers))
        expected = bits.to_bytes(-(-COUNT * width // 8), "little"), numbers
        yield ask("new encodings", f"numbers of {width} bits", expected, _packed, numbers, width)
    yield ask("new encodings", "a column of no row groups", ([], []), _values, _file_of(pa.int64(), None), None)
    for words, of, values in (
        ("no rows", pa.int64(), []),
        ("numbers", pa.int64(), [1, -2, None, 1 << 62]),
        ("numbers without a sign, which are read with one", pa.uint32(), [0, SIGN - 1, SIGN, 2 * SIGN - 1]),
    ):
        content = _file_of(of, values)
        right = [_signed(each) if of == pa.uint32() else each for each in values]
        for form in ChunkForm:
            name = f"a column of {words}, in the form {form}"
            yield ask("new encodings", name, ([], right), _values, content, form)
        changed = with_fields_of(content, CHUNK_FACTS, NO_DICTIONARY)
        name = f"a column of {words}, whose dictionary page is said to be at byte 0, where none is"
        yield ask("new encodings", name, ([], right), _values, changed, None)


def _packed(numbers: Sequence[int], width: int) -> Any:
    """Return the bytes of numbers, and the numbers that are read of them."""
    content = pack(np.array([numbers], np.uint64), width)
    size_bytes = -(-len(numbers) * width // 8)
    return content[0].tobytes()[:size_bytes], unpack(content, width, len(numbers))[0].tolist()


def _file_of(of: pa.DataType, numbers: Sequence[int | None] | None) -> bytes:
    target = io.BytesIO()
    schema = pa.schema([(COLUMN, of)])
    with pq.ParquetWriter(target, schema, store_schema=False, use_dictionary=False) as writer:
        if numbers is not None:
            writer.write_table(pa.table({COLUMN: pa.array(numbers, of)}))
    return target.getvalue()


def _signed(number: int | None) -> int | None:
    return number if number is None or number < SIGN else number - 2 * SIGN


def _values(content: bytes, form: ChunkForm | None) -> tuple[list[str], list[Any]]:
    """Return what is wrong with the duplicates of a column, and its values, changed to a form if one is given."""
    if form is not None:
        content = in_form(content, FooterForm.THRIFT, form)
    read = reader_of(content)
    footer = opened(content).decoded()
    problems = [str(problem) for problem in duplicate_problems(read, footer, file=FILE)]
    return problems, read_column_values(read, footer, COLUMN, file=FILE).values.to_pylist()
