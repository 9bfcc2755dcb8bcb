"""Files with footers of others are the same in other forms; a change that loses something is found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.model_based.other_footers import FOOTERS
from tornproof.harness.explorers.roundtrip.forms import few_numbers
from tornproof.harness.explorers.roundtrip.parquet import forms_of_others as module
from tornproof.harness.explorers.roundtrip.parquet.forms_of_others import failed_controls, forms_of_others


def test_all_footers_are_others_and_are_changed_into_all_of_some_forms() -> None:
    kinds = {each.kind for each in forms_of_others()}
    assert len(forms_of_others()) == len(kinds) * len(module.SOME) and kinds > set(FOOTERS)
    contents = [module._original(kind).content for kind in sorted(kinds)]
    # One change finds nothing to change, because all chunks have a dictionary.
    assert len(set(contents)) == len(contents) - 1 and few_numbers() in contents


def unseen(_: Any) -> Any:
    return lambda value: value


@pytest.mark.nightly
@pytest.mark.parametrize(
    "location", ["tornproof.impl.extension.chunks:unpadded", "tornproof.impl.migrate.chunk_form:without_padding"]
)
def test_a_change_that_sees_no_padded_number_is_found_and_replays(location: str) -> None:
    findings = first_that_replays("others", wrapped(location, unseen))
    assert "wide numbers" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3
