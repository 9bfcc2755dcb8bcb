"""Structs of Parquet's metadata are read by their declarations; a declaration or a reader that differs is noticed."""

from __future__ import annotations

import pytest
from depth import sampled

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parquet.parquet_members import declared
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.parquet import fields
from tornproof.impl.parquet.records import Member, Table


def test_every_struct_is_declared_here_too() -> None:
    tables = {name for name, value in vars(fields).items() if isinstance(value, Table)}
    assert tables == set(declared())


def others(table: Table, **changes: object) -> Table:
    """Return a table whose last member is another one."""
    *members, last = table.by_id.values()
    values = {"id": last.id, "name": last.name, "form": last.form, "required": last.required, **changes}
    return Table(table.name, *members, Member(**values))  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("table", "changes"),
    sampled(
        1,
        [
            ("PAGE_LOCATION", {"required": False}),
            ("PAGE_LOCATION", {"form": fields.I64}),
            ("SORTING_COLUMN", {"form": fields.I32}),
            ("KEY_VALUE", {"form": fields.BYTES}),
            ("DATA_PAGE_HEADER", {"id": 6}),
            ("ROW_GROUP", {"name": "number"}),
            ("STATISTICS", {"form": fields.SIZE64}),
        ],
    ),
)
def test_another_declaration_is_noticed_and_its_finding_replays(table: str, changes: dict[str, object]) -> None:
    with replaced(f"tornproof.impl.parquet.fields:{table}", others(getattr(fields, table), **changes)):
        (finding,) = findings_of(part_of("member"))
        assert replay_roundtrip(finding, DiskImage.of_files({}), "/table") is Verdict.INVALID
        assert finding.sentence.startswith(f"A struct with {table}" if part_of("member").subject else table)
    assert replay_roundtrip(finding, DiskImage.of_files({}), "/table") is Verdict.VALID
