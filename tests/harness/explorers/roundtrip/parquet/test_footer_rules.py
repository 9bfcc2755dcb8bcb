"""Numbers of a footer are stated or rejected by a migration; one that states others, or a blind look, is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet import footer_rules as module
from tornproof.harness.explorers.roundtrip.parquet.footer_rules import REJECTED, failed_controls, footer_rules


def test_each_number_is_stated_or_rejected() -> None:
    assert len({each.name for each in footer_rules()}) == len(footer_rules()) > 120
    assert 40 < sum(each.field == REJECTED for each in footer_rules()) < 60


@pytest.mark.parametrize(
    ("place", "broken", "words"),
    [
        ("chunks:_not_negative", lambda *_: None, "it is taken"),
        ("chunks:_count", lambda number: number, "argument out of range"),
        ("chunks:_encodings", lambda _: 1, "encodings is 1, and should be"),
        ("convert:check_statistics", lambda *_: None, "AssertionError"),
        ("chunks:STATISTIC_LIMIT_BYTES", 65_534, "it is rejected"),
    ],
)
def test_a_migration_that_takes_other_numbers_is_found_and_replays(
    place: str, broken: Callable[..., object] | int, words: str
) -> None:
    findings = first_that_replays("footer", replaced(f"tornproof.impl.migrate.{place}", broken))
    assert any(words in each.sentence for each in findings), [each.sentence for each in findings]


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
