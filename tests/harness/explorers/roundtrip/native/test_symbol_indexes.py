"""Indexes of symbols are judged row by row; other limits, and comparisons that leave something out, are noticed."""

from __future__ import annotations

import pytest
from depth import sampled
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.native.index_judge import FILE_BYTES_MAX, HEADER_FIELDS, KEY_FIELDS
from tornproof.harness.explorers.roundtrip.native.symbol_indexes import ROWS_MAX, IndexedRows, _judged, symbol_indexes
from tornproof.impl.layout.index import IndexHeader, IndexKey
from tornproof.impl.table import symbol_index
from tornproof.impl.verify import indexes


def test_indexes_are_judged_as_their_rows_are() -> None:
    assert (FILE_BYTES_MAX, ROWS_MAX) == (symbol_index.INDEX_LIMIT_BYTES, indexes.ROW_LIMIT)


def test_fields_are_where_the_layout_has_them_and_each_one_that_counts_is_said_to_be_wrong() -> None:
    places = {field.format_name: field.offset_bytes for field in IndexHeader.layout.fields}
    assert {name: at for name, (at, _) in HEADER_FIELDS.items()}.items() <= places.items()
    assert {field.format_name: field.offset_bytes for field in IndexKey.layout.fields} == KEY_FIELDS
    cases = [case for case in symbol_indexes() if isinstance(case, IndexedRows)]
    fields = {each[1].partition(" of key ")[0] for case in cases for each in _judged(case, is_split=False)}
    counted = {*HEADER_FIELDS, *KEY_FIELDS} - {"UNUSED", "MAX_VALUE", "SEQUENCE"}
    assert counted | {"row", "next block", "previous block", "file", ""} <= fields


@pytest.mark.parametrize(
    ("location", "broken"),
    sampled(
        1,
        [
            ("table.symbol_index:INDEX_LIMIT_BYTES", 1 << 30),
            ("table.symbol_index:SIGNATURE", 0xFB),
            ("verify.indexes:ROW_LIMIT", 1 << 30),
        ],
    ),
)
def test_other_comparisons_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("index", replaced(f"tornproof.impl.{location}", broken))
