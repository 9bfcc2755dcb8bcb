"""Partitions whose columns were changed are written to; a writer that looks up dropped columns is found and replays."""

import pytest
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.writing.changed_columns import changed_columns, failed_controls, problem_of
from tornproof.impl.write import partition_change


def test_columns_of_each_type_are_changed_and_mistakes_are_noticed() -> None:
    cases = changed_columns()
    assert {case.filters for case in cases} > {None} and len({case.column for case in cases}) == 9
    assert [problem for case in cases[::9] if (problem := problem_of(case)) is not None] == []
    assert [*failed_controls()] == []


def test_a_writer_that_can_give_a_filter_to_no_column_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> bool:
        raise KeyError("a column")

    monkeypatch.setattr(partition_change, "has_hashes", fail)
    findings = [*findings_of(part_of("altered"))]
    assert "KeyError" in str(findings) and replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}
