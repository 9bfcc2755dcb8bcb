"""Bloom filters are found where footers say; migrations that look elsewhere, or take what is none, are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from replayed import first_findings, replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.parquet.migrated_filters import migrated_filters
from tornproof.impl.migrate import blooms
from tornproof.impl.migrate.blooms import BloomFilters


def test_filters_are_found_where_they_are() -> None:
    assert any(len(each.content) > 2 * blooms.HEADER_FIRST_BYTES * 16 for each in migrated_filters())
    assert {(each.is_rejected, each.found is None) for each in migrated_filters()} == {
        *((True, True), (False, True), (False, False))
    }


def ends_with_its_length(header: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    def found(filters: BloomFilters, offset_bytes: int) -> tuple[int, int]:
        size_bytes, _ = header(filters, offset_bytes)
        return size_bytes, offset_bytes + 47 - size_bytes

    return found


def nothing_is_left_out(read: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda filters, length, offset_bytes: read(filters, length, offset_bytes).ljust(max(0, length), b"\0")


@pytest.mark.parametrize(("method", "broken"), [("_header", ends_with_its_length), ("_read", nothing_is_left_out)])
def test_other_filters_are_findings_that_replay(
    monkeypatch: pytest.MonkeyPatch, method: str, broken: Callable[..., Any]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(BloomFilters, method, broken(getattr(BloomFilters, method)))
        findings = first_findings("filter")
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
