"""Footers of other programs are other bytes of the same rows, and fixed programs use each of them."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tornproof.harness.explorers.model_based.fixed_programs import WRITTEN_OTHERWISE
from tornproof.harness.explorers.model_based.other_footers import CHANGES, FOOTERS, with_footer
from tornproof.harness.explorers.model_based.other_writers import FORM_COUNT, written

ROWS = pa.table(
    {
        "ts": pa.array([1, 2, 3, 5], pa.timestamp("ns")),
        "v": [1, None, 3, 4],
        "name": ["a", None, "b", "b"],
        "d": [1.5, 2.5, None, -0.0],
        "flag": [True, None, False, True],
        "price": pa.array([None, Decimal("1.25"), Decimal("2.00"), Decimal("-3.10")], pa.decimal128(9, 2)),
    }
)
AS_PYARROW_WRITES_IT, *OTHER_FOOTERS = FOOTERS


@pytest.mark.parametrize("form", range(FORM_COUNT))
def test_pyarrow_reads_the_same_rows_from_each_footer(form: int) -> None:
    for number in range(len(CHANGES)):
        assert pq.read_table(io.BytesIO(written(ROWS, form=form, footer=number))).equals(ROWS)


def test_forms_differ_in_codec_dictionaries_checksums_statistics_pages_and_row_groups() -> None:
    files = [pq.ParquetFile(io.BytesIO(written(ROWS, form=form, footer=0))) for form in range(FORM_COUNT)]
    chunks = [file.metadata.row_group(0).column(1) for file in files]
    assert len({chunk.compression for chunk in chunks}) == 5
    assert {chunk.has_dictionary_page for chunk in chunks} == {True, False}
    assert {chunk.is_stats_set for chunk in chunks} == {True, False}
    assert {chunk.has_column_index for chunk in chunks} == {True, False}
    assert {file.num_row_groups for file in files} == {1, 2}
    assert {bool(file.metadata.row_group(0).sorting_columns) for file in files} == {True, False}


def test_fixed_programs_have_each_footer_where_it_is_another_one() -> None:
    names, changed = [*FOOTERS], set()
    for program in WRITTEN_OTHERWISE:
        for step in program:
            if "footer" in step:
                form, number = step["form"], step["footer"] % len(CHANGES)
                if written(ROWS, form=form, footer=number) != written(ROWS, form=form, footer=0):
                    changed.add(names[number])
    assert changed == {*OTHER_FOOTERS}


def test_an_unchanged_footer_is_the_same_bytes() -> None:
    content = written(ROWS, form=1, footer=0)
    assert with_footer(content, FOOTERS[AS_PYARROW_WRITES_IT]) == content
