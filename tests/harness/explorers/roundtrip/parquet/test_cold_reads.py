"""Chunks that are read alone have the values that were written; reads that make or bound them otherwise are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import BOUND_BYTES, DEEP, DEEPER, _file
from tornproof.impl.read.row_group import BATCH_FLOOR_BYTES


def test_chunks_that_are_read_alone_have_their_values() -> None:
    assert BOUND_BYTES == BATCH_FLOOR_BYTES


@pytest.mark.parametrize(("rows", "others", "dimensions"), [(DEEP, DEEP[:2], 2), (DEEPER, DEEPER, 3)])
def test_lists_have_levels_for_a_null_of_each_list_or_of_the_outer_one_alone(
    rows: object, others: object, dimensions: int
) -> None:
    levels = [_file(name)[1].header.columns[0].max_def_level for name in (f"deep {others}", f"complete {rows}")]
    assert levels == [2 * dimensions + 1, dimensions + 2]


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("is_all_null", lambda _, chunk: chunk.num_values == chunk.null_count > 0),
        ("_check_size", lambda *_: None),
        ("read_chunk", lambda handle, chunk, **_: handle.pread(chunk.total_compressed, chunk.byte_range_start - 1)),
    ],
)
def test_other_reads_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("cold", replaced(f"tornproof.impl.read.cold_read:{location}", broken))
