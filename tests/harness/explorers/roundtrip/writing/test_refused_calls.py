"""What may not be asked for is refused and changes nothing; one who takes it is found, and blind looks are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import refused_calls as module
from tornproof.harness.explorers.roundtrip.writing.refused_calls import failed_controls, refused_calls
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import OpenMode


def test_each_kind_of_call_is_taken_and_refused() -> None:
    for kind in ("creations", "writes", "reads"):
        expected = [each.expected for each in refused_calls() if each.kind == kind]
        assert {str(each).endswith("Error") for each in expected} == {True, False}, kind


def test_one_who_creates_any_table_is_found_and_replays() -> None:
    def no_check(_: Any) -> Any:
        return lambda *_, **__: None

    findings = first_that_replays("refused", wrapped("tornproof.impl.table.create:_check_columns", no_check))
    assert "created instead of TableRejectedError" in findings[0].sentence


def test_a_change_before_a_refusal_is_told() -> None:
    def changing(storage: Any) -> None:
        storage.mkdir(f"{module.PATH}/new")
        with storage.open_for_writing(f"{module.PATH}/new/file", OpenMode.NEW):
            raise TornproofError

    assert module._answer(changing) == "TornproofError, and files are others"


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
