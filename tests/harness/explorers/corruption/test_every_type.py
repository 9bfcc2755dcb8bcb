"""Damaged values of every type are read or rejected, wrong lengths of arrays are rejected; no other error occurs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.every_type import PATH, TYPES, image_of_every_type
from tornproof.harness.explorers.corruption.judge import FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Again, Kind, Overwrite, damage_of, evidence_of
from tornproof.harness.replay import replay_finding
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.pm import footer_comparison
from tornproof.impl.types.questdb import TypeTag, tag_of


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


def damages_of(judge: Judge) -> list[Again]:
    damages = [each for file in judge.files(Kind.VALUE) for each in listed(judge, Kind.VALUE, file)]
    return [each for each in damages if isinstance(each, Again)]


def test_the_table_has_every_type_that_a_column_can_have() -> None:
    columns = Judge(image_of_every_type(), PATH).snapshot.columns
    assert len(columns) == len(TYPES)
    parameters_or_no_columns = {TypeTag.LONG128} | {tag for tag in TypeTag if tag.name.startswith(("GEO", "DECIMAL"))}
    assert {tag_of(column.type) for column in columns} >= set(TypeTag) - parameters_or_no_columns


def test_no_damaged_value_ends_in_another_error_and_arrays_fit_their_lengths(made: Judge) -> None:
    judge, damages = made.of(Kind.VALUE), damages_of(made)
    arrays = [each for each in damages if isinstance(each.damage, Overwrite)]
    assert {judge.judge(each)[0] for each in arrays} == {Outcome.REJECTED} and len(arrays) > 50
    assert {judge.judge(each)[0] for each in damages} == {Outcome.REJECTED, Outcome.HARMLESS}


def any_page_offset(found: Any, chunk: Any, column: Any) -> Iterator[tuple[str, object, object]]:
    """Compare everything but where the first data page begins."""
    return (each for each in compare_chunk(found, chunk, column) if each[0] != "data_page_offset")


compare_chunk = footer_comparison._compare_chunk


def test_a_data_page_before_the_dictionary_is_rejected_and_found_if_it_is_not_compared(made: Judge) -> None:
    judge = made.of(Kind.VALUE)
    wrong = [each for each in damages_of(made) if "data_page_offset" in str(each)]
    assert len(wrong) >= 4 and {judge.judge(each)[0] for each in wrong} == {Outcome.REJECTED}
    with replaced("tornproof.impl.pm.footer_comparison:_compare_chunk", any_page_offset):
        assert sum(judge.judge(each)[0] is Outcome.SILENT for each in wrong) >= 3


def test_a_decoder_that_fails_or_takes_what_does_not_fit_is_found_and_replays(made: Judge) -> None:
    judge = made.of(Kind.VALUE)
    damage = next(each for each in damages_of(made) if isinstance(each.damage, Overwrite))
    evidence = json.loads(json.dumps(evidence_of(damage, "page")))
    assert damage_of(evidence) == damage
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, made.image, MADE_PATH) is Verdict.VALID

    def lists_of_flat(values: Any, *_: Any, **__: Any) -> Any:
        return values

    with replaced("tornproof.impl.chunk.chunk:lists_of", lists_of_flat):
        assert judge.judge(damage)[0] is Outcome.SILENT
    with replaced("tornproof.impl.chunk.chunk:lists_of", int):
        assert judge.judge(damage)[0] in FOUND and judge.reason.startswith("TypeError: ")
