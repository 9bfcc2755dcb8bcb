"""Structs of footers are read as QuestDB's converter does; readers that know or charge something else are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet import converted_structs
from tornproof.harness.explorers.roundtrip.parquet.converted_structs import KEPT, UNIONS
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.migrate import shapes
from tornproof.impl.parquet import fields
from tornproof.impl.parquet.records import UnionTable


def test_what_is_a_union_and_what_is_kept_is_said_here_too() -> None:
    assert {name for name, value in vars(fields).items() if isinstance(value, UnionTable)} == UNIONS
    kept = {name: shapes.shape_of(getattr(fields, name)).record._fields for name in KEPT}
    assert kept == {name: tuple(members.split()) for name, members in KEPT.items()}


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("footer_reader:ITEM_COST", 7),
        ("footer_reader:STRUCT_COST", 1),
        ("footer_reader:KIND_BITS", {4: 16, 5: 64, 6: 64}),
        ("footer_reader:UNKNOWN", None),
    ],
)
def test_another_converter_is_noticed_and_its_findings_replay(location: str, broken: object) -> None:
    first_that_replays("converted", replaced(f"tornproof.impl.migrate.{location}", broken))


@pytest.mark.nightly
def test_members_of_later_releases_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted_structs, "LATER", {})
    assert len([*findings_of(part_of("converted"))]) >= 2
