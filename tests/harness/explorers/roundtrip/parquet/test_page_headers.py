"""Headers of pages are judged by what they say; readers that take others, or not all, are noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from depth import sampled
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet import page_headers
from tornproof.harness.explorers.roundtrip.parquet.page_headers import PLACES, page_chunks, problem_of
from tornproof.impl.parquet import pages, single_pages
from tornproof.impl.parquet.single_pages import SinglePages


def test_all_headers_are_judged_by_what_they_say() -> None:
    assert {each.kind for each in page_chunks()} == {"forms", "sizes", "counts", "order", "checksums", "limits"}


@pytest.mark.parametrize(("before", "behind"), PLACES)
def test_a_page_that_is_taken_for_ordinary_in_one_place_among_others_is_noticed(before: int, behind: int) -> None:
    """Pages that are not ordinary were tried alone only, and no test noticed that."""
    (chunk,) = [each for each in page_chunks() if each.name == "forms: 0, None, right"]
    counts: list[int] = []

    def taken(content: bytes, sizes: Sequence[int], *more: Any) -> SinglePages:
        counts.append(len(sizes))
        return page_headers._walked_behind(before, single_pages.single_pages, content, sizes, *more)

    assert problem_of(chunk) is None
    with replaced(f"{page_headers.__name__}:single_pages", taken):
        assert "its checksum is not looked at" in str(problem_of(chunk))
    assert counts[-1] == before + 1 + behind


@pytest.mark.parametrize(
    ("location", "broken", "kind"),
    sampled(
        2,
        [
            ("pages:EXPANSION_SLACK_BYTES", 65, "sizes"),
            ("pages:PAGE_SIZE_MAX_BYTES", pages.PAGE_SIZE_MAX_BYTES + 1, "sizes"),
            ("pages:_end_of_body", lambda _, position, page: position + page.compressed_size_bytes, "sizes"),
            ("pages:quick_read", lambda *_: ({"type": 0}, 9), "forms"),
            ("single_pages:ENCODING_COUNT_MAX", 127, "forms"),
            ("single_pages:STATISTICS_MEMBER_COUNT_MAX", 7, "forms"),
            ("single_pages:PAGE_NUMBERS", single_pages.PAGE_NUMBERS[:3], "forms"),
        ],
    ),
)
def test_other_rules_are_noticed_and_their_findings_replay(location: str, broken: object, kind: str) -> None:
    findings = all_that_replay("header", replaced(f"tornproof.impl.parquet.{location}", broken))
    assert any(kind in each.sentence for each in findings)
