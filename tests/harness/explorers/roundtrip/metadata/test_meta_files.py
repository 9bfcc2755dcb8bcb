"""Files of columns are read as what their bytes say; readers that take more, or something else, are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata.meta_files import (
    COLUMN,
    COLUMN_COUNT_MAX,
    FILE_BYTES_MAX,
    HEADER,
    USUAL_CAPACITY,
    failed_controls,
    meta_files,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.parts import META_FILES
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout.meta import INDEXED
from tornproof.impl.table import metadata_file

EMPTY = DiskImage.of_files({})


def test_files_are_read_as_what_they_say() -> None:
    assert [problem for each in meta_files() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    assert (HEADER.size, COLUMN.size) == (metadata_file.HEADER_BYTES, metadata_file.COLUMN_BYTES)
    assert (
        *(metadata_file.COLUMN_COUNT_LIMIT, metadata_file.META_LIMIT_BYTES),
        metadata_file.SYMBOL_CAPACITY,
    ) == (COLUMN_COUNT_MAX, FILE_BYTES_MAX, USUAL_CAPACITY)


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("metadata_file:_check_header", lambda *_: None),
        ("metadata_file:CODE_UNIT_BYTES", 1),
        ("metadata_file:NANOSECOND", INDEXED),
        ("metadata_file:META_LIMIT_BYTES", 1 << 40),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.table.{location}", broken):
        findings = [*findings_of(META_FILES)]
        assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}
