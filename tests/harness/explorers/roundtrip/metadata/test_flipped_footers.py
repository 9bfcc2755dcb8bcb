"""Damage of one of two footers is noticed; a reader that believes either is found, and blind looks are noticed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.metadata import flipped_footers as module
from tornproof.harness.explorers.roundtrip.metadata.flipped_footers import failed_controls, flipped_footers


def test_each_byte_of_each_footer_is_flipped() -> None:
    counts = Counter((each.form, each.kind) for each in flipped_footers())
    assert len(counts) == 7
    for form, kind in counts:
        at = sorted({each.bit // 8 for each in flipped_footers() if (each.form, each.kind) == (form, kind)})
        assert at == [*range(at[0], at[-1] + 1)]


def test_a_reader_whose_checksums_fit_anything_is_found_and_replays() -> None:
    findings = all_that_replay(
        "flipped", wrapped("tornproof.impl.extension.footer:large_crc32", lambda _: lambda _: _AnyNumber())
    )
    for kind in (module.THRIFT, module.FLATBUFFERS, module.FINAL):
        assert any(kind in each.sentence for each in findings)


class _AnyNumber(int):
    def __eq__(self, other: Any) -> bool:
        return True

    def __ne__(self, other: Any) -> bool:
        return False

    __hash__ = int.__hash__


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
