"""Arrays are stored as QuestDB stores them; other bytes and other lists are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet.array_bytes import array_bytes, stored_of


def test_arrays_are_stored_and_read_as_what_they_are() -> None:
    assert {each.kind for each in array_bytes()} == {"sound", "corrupt", "limits", "ragged"}


def test_the_bytes_are_those_of_the_documentation() -> None:
    assert stored_of((1,), [1.0]) == bytes.fromhex("0100000000000000000000000000f03f")
    assert len(stored_of((1, 2, 1), [1.0, 2.0])) == 16 + 16


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("_header_bytes", lambda dimensions: -(-dimensions * 4 // 16) * 16),
        ("ELEMENT_COUNT_CEILING", 2.0),
        ("BINARY_MAX_BYTES", 15),
    ],
)
def test_other_arrays_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("arrays", replaced(f"tornproof.impl.types.raw_arrays:{location}", broken))
