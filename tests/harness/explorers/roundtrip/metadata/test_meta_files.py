"""Files of columns are read as what their bytes say; readers that take more, or something else, are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.meta_files import (
    COLUMN,
    COLUMN_COUNT_MAX,
    FILE_BYTES_MAX,
    HEADER,
    USUAL_CAPACITY,
)
from tornproof.impl.layout.meta import INDEXED
from tornproof.impl.table import metadata_file


def test_files_are_read_as_what_they_say() -> None:
    assert (HEADER.size, COLUMN.size) == (metadata_file.HEADER_BYTES, metadata_file.COLUMN_BYTES)
    assert (*(metadata_file.COLUMN_COUNT_LIMIT, metadata_file.META_LIMIT_BYTES), metadata_file.SYMBOL_CAPACITY) == (
        COLUMN_COUNT_MAX,
        FILE_BYTES_MAX,
        USUAL_CAPACITY,
    )


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
    first_that_replays("meta", replaced(f"tornproof.impl.table.{location}", broken))
