"""Headers of pages are judged by what they say; readers that take others, or not all, are noticed."""

from __future__ import annotations

import pytest
from depth import sampled
from replayed import replayed

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet.page_headers import page_chunks
from tornproof.harness.explorers.roundtrip.parts import PAGE_HEADERS
from tornproof.impl.parquet import pages, single_pages


def test_all_headers_are_judged_by_what_they_say() -> None:
    assert {each.kind for each in page_chunks()} == {"forms", "sizes", "counts", "order", "checksums", "limits"}


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
    with replaced(f"tornproof.impl.parquet.{location}", broken):
        findings = [*findings_of(PAGE_HEADERS)]
        assert any(kind in each.sentence for each in findings)
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
