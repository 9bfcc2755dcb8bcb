"""Each rule of metadata files is checked at its limit; a check that forgets one, or a blind look, is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from depth import sampled
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata import metadata_rules as module
from tornproof.harness.explorers.roundtrip.metadata.metadata_rules import failed_controls, rules


def test_each_rule_is_checked_and_nothing_else() -> None:
    assert len({each.name for each in rules()}) == len(rules()) > 350
    assert 130 < sum(bool(each.field) for each in rules()) < 300


@pytest.mark.parametrize(
    ("place", "broken", "words"),
    sampled(
        2,
        [
            ("check:_overlaps", lambda *_: [], "nothing is reported, instead of byte_range_start"),
            ("check:_check_row_order", lambda *_: [], "nothing is reported, instead of min_stat"),
            ("check:are_unsigned", lambda *_: False, "min_stat is reported, instead of nothing"),
            ("check:in_order", lambda *_: True, "nothing is reported, instead of min_stat"),
            ("check:_check_external_blooms", lambda *_: [], "nothing is reported, instead of bloom reference"),
            ("statistics:_decoder", lambda *_: bytes, "instead of"),
        ],
    ),
)
def test_a_check_that_forgets_a_rule_is_found_and_replays(
    place: str, broken: Callable[..., object], words: str
) -> None:
    findings = all_that_replay("rule", replaced(f"tornproof.impl.pm.{place}", broken))
    assert any(words in each.sentence for each in findings)


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 11
