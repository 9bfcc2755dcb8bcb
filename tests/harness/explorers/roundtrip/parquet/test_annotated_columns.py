"""Annotations of columns are taken where they are legal; a migration that takes others, or a blind look, is noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet import annotated_columns as module
from tornproof.harness.explorers.roundtrip.parquet.annotated_columns import annotated_columns, failed_controls


def test_each_annotation_is_taken_where_it_is_legal_and_rejected_elsewhere() -> None:
    assert len({each.name for each in annotated_columns()}) == len(annotated_columns()) > 1_000
    assert 300 < sum(each.is_legal for each in annotated_columns()) < 600
    decimals = {
        each.annotation: each.is_legal for each in annotated_columns() if each.annotation.startswith("DECIMAL(")
    }
    assert len(decimals) == len(module.DIGITS) * 3 and not any(decimals[f"DECIMAL({few}, 4)"] for few in (-1, 0, 1))


@pytest.mark.parametrize(
    ("place", "broken", "words"),
    [
        ("schema:check_logical", lambda *_: None, "it is taken"),
        ("annotations:_check_decimal", lambda *_: None, "it is taken"),
        ("annotations:_LOGICAL_OF", {}, "it is rejected"),
    ],
)
def test_a_migration_with_other_rules_is_found_and_replays(place: str, broken: object, words: str) -> None:
    findings = first_that_replays("annotated", replaced(f"tornproof.impl.migrate.{place}", broken))
    assert findings and all(words in each.sentence for each in findings)


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
