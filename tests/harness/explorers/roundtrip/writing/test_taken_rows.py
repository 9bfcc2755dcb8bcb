"""Rows are taken by names and times; a writer that mixes them up is a finding that replays."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import taken_rows
from tornproof.harness.explorers.roundtrip.writing.taken_rows import failed_controls, offered_rows


def test_rows_are_taken_by_names_and_times() -> None:
    assert len({each.name for each in offered_rows()}) == len(offered_rows())


@pytest.mark.parametrize(
    ("place", "wrap"),
    [
        ("incoming_rows:interval_start", lambda _: lambda *_, **__: 0),
        ("table_writer:in_time_order", lambda _: lambda rows, _: rows),
    ],
)
def test_a_writer_that_mixes_rows_up_is_found_and_replays(place: str, wrap: Any) -> None:
    all_that_replay("rows", wrapped(f"tornproof.impl.write.{place}", wrap))


def test_a_look_at_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    first = offered_rows()[:1]
    monkeypatch.setattr(taken_rows, "_named", lambda: first)
    assert "rows of one time are turned round: not noticed" in [*failed_controls()]
