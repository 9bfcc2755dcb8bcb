"""What contradicts a partition is named; comparisons that are not made, or made with something else, are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import MAGIC, placed_partitions
from tornproof.impl.types.questdb import NANOSECOND


def test_what_contradicts_is_named() -> None:
    kinds = {each.kind for each in placed_partitions()}
    assert {each.kind for each in placed_partitions() if each.expected} == kinds


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("check:is_same_type", lambda *_: True),
        ("check:interval_end", lambda *_, **__: None),
        ("check:column_key", lambda index, _: index),
        ("check:DESIGNATED", NANOSECOND),
        ("partition:MAGIC", b"PARE"),
        ("partition:COLUMN_FILE_SUFFIX", ".k"),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("placed", replaced(f"tornproof.impl.table.{location}", broken))


def test_tokens_up_to_the_shortest_file_are_tried_without_metadata() -> None:
    """Behind the magic number a file ends with the length of its footer and the magic number again."""
    assert f"token {len(MAGIC) + 3}" in {each.name for each in placed_partitions() if each.kind == "unmigrated"}
