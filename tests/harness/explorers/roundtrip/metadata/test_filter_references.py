"""Filters are read where they are, by either kind of reference; a reader that takes others is found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.metadata import filter_references as module
from tornproof.harness.explorers.roundtrip.metadata.filter_references import failed_controls, filter_references
from tornproof.impl.parquet.bloom_filter import decode_filter_header, encode_filter_header


def test_headers_are_those_of_the_format() -> None:
    for size_bytes in (32, 64):
        assert module._header(size_bytes) == encode_filter_header(size_bytes)
        assert decode_filter_header(module._header(size_bytes), file="data.parquet")[0] == size_bytes
    for kind in {each.kind for each in filter_references()}:
        assert {each.expected is None for each in filter_references() if each.kind == kind} == {True, False}


def shorter(_: Any) -> Any:
    return lambda raw, **_: (len(raw) - 16, 16)


def test_a_reader_that_believes_no_header_is_found_and_replays() -> None:
    findings = first_that_replays(
        "reference", wrapped("tornproof.impl.pm.bloom_position:decode_filter_header", shorter)
    )
    assert "instead of" in findings[0].sentence or "taken for a filter" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
