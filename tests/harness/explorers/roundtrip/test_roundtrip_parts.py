"""Each part alone finds nothing in what is right, and notices its controls; a whole check says so of all together."""

from operator import attrgetter
from pathlib import Path

import pytest
import roundtrip_page

from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import PARTS, Part


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS, ids=attrgetter("key"))
def test_nothing_is_found_in_what_is_right(part: Part) -> None:
    assert [finding.sentence for finding in findings_of(part)] == []
    assert [*part.module.failed_controls()] == []


def test_each_part_has_a_key_and_a_count_of_its_own() -> None:
    assert len({part.key for part in PARTS}) == len({part.count for part in PARTS}) == len(PARTS)


def test_the_page_of_questions_is_that_of_the_parts() -> None:
    page = Path(__file__).parents[4] / "docs" / "roundtrip.md"
    assert page.read_text() == roundtrip_page.page(), "python docs/roundtrip_page.py > docs/roundtrip.md"
