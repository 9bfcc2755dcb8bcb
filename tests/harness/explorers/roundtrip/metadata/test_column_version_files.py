"""Column versions are read as what their bytes say; readers of another area or another time are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata import column_version_files
from tornproof.harness.explorers.roundtrip.metadata.column_version_files import (
    DICTIONARY,
    FILE_BYTES_MAX,
    HEADER,
    OTHERS,
)
from tornproof.impl.table import column_versions


def test_files_are_read_as_what_they_say() -> None:
    assert (OTHERS, DICTIONARY) == (column_versions.DEFAULT_PARTITION, column_versions.DICTIONARY)
    assert column_versions.CV_LIMIT_BYTES == FILE_BYTES_MAX


@pytest.mark.parametrize(
    ("location", "broken"),
    [("column_versions:DEFAULT_PARTITION", 0), ("column_versions:ENTRY_BYTES", 8), ("column_versions:NO_NAME_TXN", 0)],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("column_version", replaced(f"tornproof.impl.table.{location}", broken))


def test_files_are_cut_right_before_and_behind_their_header() -> None:
    sizes = {len(each.content) for each in column_version_files._cut()}
    assert {0, 1, HEADER.size - 1, HEADER.size, HEADER.size + 1} <= sizes
