"""The order of row groups is migrated as they say; a migration that says another one, or a blind look, is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet import migrated_orders as module
from tornproof.harness.explorers.roundtrip.parquet.migrated_orders import failed_controls, sorted_files


def test_each_order_is_stated_and_those_that_disagree_are_rejected() -> None:
    assert len({each.name for each in sorted_files()}) == len(sorted_files()) > 200
    assert 40 < sum(each.stated is not None for each in sorted_files()) < 80


@pytest.mark.parametrize(
    ("place", "broken", "words"),
    [
        ("_common_sorting", lambda groups: groups[0].sorting_columns or (), "and should be rejected"),
        ("_is_designated", lambda *_: True, "with timestamp 0, and should be"),
        ("_is_designated", lambda *_: False, "with timestamp -1, and should be"),
    ],
)
def test_a_migration_that_states_another_order_is_found_and_replays(
    place: str, broken: Callable[..., object], words: str
) -> None:
    findings = all_that_replay("sorted", replaced(f"tornproof.impl.migrate.header:{place}", broken))
    assert any(words in each.sentence for each in findings), findings


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 2
