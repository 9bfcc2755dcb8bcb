"""Rows are added to files in other forms; an extension that stays beside the new one is found and replays."""

import pytest
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.writing.grown_forms import failed_controls, grown_forms, problem_of
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.parquet.thrift import Struct
from tornproof.impl.write import partition_writer


def test_rows_are_added_to_each_form_that_others_read_and_mistakes_are_noticed() -> None:
    cases = grown_forms()
    assert len(cases) == 18 and {case.form.header for case in cases} == {*HeaderForm}
    assert [problem for case in cases if (problem := problem_of(case)) is not None] == []
    assert [*failed_controls()] == []


def test_an_extension_that_stays_because_of_its_id_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_plain(struct: Struct) -> Struct:
        kept = tuple(field for field in struct.fields if field.id != HeaderForm.PLAIN.value)
        return Struct(kept, struct.offset_bytes)

    assert [*findings_of(part_of("grown"))] == []
    monkeypatch.setattr(partition_writer, "without_extension", without_plain)
    findings = [*findings_of(part_of("grown"))]
    assert "2 extensions" in str(findings) and replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}
