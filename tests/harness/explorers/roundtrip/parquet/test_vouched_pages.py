"""No bit of a header makes pages unreadable that checksums prove to be sound; looser rules are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import original_of, replaced
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet.vouched_pages import COLUMNS, failed_controls, vouched_pages
from tornproof.harness.explorers.roundtrip.parts import part_of


def test_what_is_taken_for_sound_is_read_as_it_was_written() -> None:
    assert [*findings_of(part_of("vouched"))] == [] == [*failed_controls()]
    ways = {each.written for each in vouched_pages()}
    assert {each.of for each in ways} == {*COLUMNS} and len(vouched_pages()) > 200 * len(ways)


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("tornproof.impl.verify.pages:are_vouched", lambda pages, *_: None not in [page.crc for page in pages]),
        ("tornproof.impl.chunk.chunk:_is_filled", lambda *_: True),
        ("tornproof.impl.parquet.pages:TRUE", 0),
    ],
)
def test_looser_rules_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    assert original_of(location) is not None
    first_that_replays("vouched", replaced(location, broken))
