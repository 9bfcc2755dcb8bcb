"""Chunks that are read alone have the values that were written; reads that make or bound them otherwise are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import (
    BOUND_BYTES,
    cold_reads,
    failed_controls,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.parts import COLD_READS
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.read.row_group import BATCH_FLOOR_BYTES

EMPTY = DiskImage.of_files({})


def test_chunks_that_are_read_alone_have_their_values() -> None:
    assert [problem for each in cold_reads() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    assert BOUND_BYTES == BATCH_FLOOR_BYTES


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("is_all_null", lambda _, chunk: chunk.num_values == chunk.null_count > 0),
        ("_check_size", lambda *_: None),
        ("read_chunk", lambda handle, chunk, **_: handle.pread(chunk.total_compressed, chunk.byte_range_start - 1)),
    ],
)
def test_other_reads_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.read.cold_read:{location}", broken):
        findings = [*findings_of(COLD_READS)]
        assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}
