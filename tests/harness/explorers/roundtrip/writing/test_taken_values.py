"""A writer takes what columns hold and refuses the rest; one that does not is a finding that replays."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.writing import taken_values
from tornproof.harness.explorers.roundtrip.writing.offered_values import offered_columns
from tornproof.harness.explorers.roundtrip.writing.taken_values import failed_controls
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag, tag_of


def test_columns_of_every_type_take_what_they_hold() -> None:
    assert {tag_of(type_code(each.type) or 0) for each in offered_columns()} == {*TypeTag}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("place", "substitute", "words"),
    [
        ("incoming_rows:_lost", lambda *_: None, "type BOOLEAN: 2, int8: it is taken"),
        ("incoming_rows:_is_number", lambda _: False, "type BOOLEAN: 2, int8: it is taken"),
    ],
)
def test_a_writer_that_takes_more_or_less_is_found_and_replays(place: str, substitute: Any, words: str) -> None:
    findings = all_that_replay("taken", replaced(f"tornproof.impl.write.{place}", substitute))
    assert any(words in each.sentence for each in findings)


@pytest.mark.nightly
def test_a_look_at_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_values, "_keys", lambda _: [])
    monkeypatch.setattr(taken_values, "_differences", lambda *_: iter(()))
    assert [*failed_controls()] == [
        "ends of long texts are lost: not noticed",
        "row groups are read in the opposite order: not noticed",
        "the last row group is read twice: not noticed",
        "others see row groups in the opposite order: not noticed",
        "rows are others with numbers twice: not noticed",
    ]
