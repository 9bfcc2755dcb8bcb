"""Tables answer what they are asked for, and refuse it for the right reason; other answers are noticed."""

from __future__ import annotations

import pytest
from replayed import kinds_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.asked_tables import asked_tables
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.read.row_group import _Group


@pytest.mark.parametrize(
    ("location", "broken", "kinds"),
    [
        ("table.tables_below:is_table", lambda directory: (directory / "_txn").exists(), {"below"}),
        ("table.indexed_columns:indexed_columns", lambda _: (), {"advice"}),
    ],
)
def test_other_answers_are_noticed_and_their_findings_replay(location: str, broken: object, kinds: set[str]) -> None:
    assert kinds_that_replay("table", replaced(f"tornproof.impl.{location}", broken)) == kinds


def test_a_read_that_asks_for_no_room_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Group, "_check", lambda _: None)
    assert {asked_tables()[each.evidence["table"]].kind for each in findings_of(part_of("table"))} == {"rooms"}
