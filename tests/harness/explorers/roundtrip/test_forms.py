"""Files in other forms: real ones and made ones are the same in each, and mistakes of what changes them are noticed."""

from itertools import product
from pathlib import Path

import golden_archive
import pytest
from depth import sampled

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.explorers.roundtrip import forms
from tornproof.harness.explorers.roundtrip.forms import (
    FILES_MAX,
    FORMS,
    Original,
    difference,
    failed_controls,
    files_to_change,
    made_files,
)
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.table.table import open_table

REAL = tuple(
    name for name in golden_archive.member_names() if name.startswith("tables/") and name.endswith("/data.parquet")
)
"""Of tables that no crash left bytes in."""
DAY = 86_400_000_000
"""In the microseconds of a time."""


def test_each_form_is_tried_once_and_all_of_them_are_distinct() -> None:
    assert len({form.name for form in FORMS}) == len(FORMS) == 17
    assert {(form.footer, form.chunks) for form in FORMS} == {*product(FooterForm, ChunkForm)} - {
        (FooterForm.THRIFT, ChunkForm.OLD)
    }


def test_made_files_have_the_row_groups_that_they_ask_for() -> None:
    counts = {name: len(Original(content).footer.decoded().row_groups) for name, content in made_files().items()}
    assert counts["pages with indexes"] == 3 and min(counts.values()) > 0


def test_each_table_has_the_made_files_and_its_own_ones_alone() -> None:
    """Those of one table would be among the files of the next one, and the made files left it room for a single one."""
    made = dict(made_files())
    for first_time, count in ((FIRST_TIME, FILES_MAX), (2 * FIRST_TIME, FILES_MAX + 1)):
        storage = MemoryStorage()
        new_table_of_rows(storage, "t", {"ts": "TIMESTAMP"}, [first_time + number * DAY for number in range(count)])
        table = open_table(storage, "t")
        labels = [table.files_of(each).data_label for each in table.transaction().partitions]
        assert len(labels) == count and [*files_to_change(table)] == [*made, *labels[:FILES_MAX]]
    assert made_files() == made


@pytest.mark.parametrize("name", sampled(1, list(made_files())))
def test_files_of_numbers_are_the_same_in_each_form(name: str) -> None:
    original = Original(made_files()[name])
    assert {form.name: found for form in FORMS if (found := difference(original, form))} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", REAL)
def test_files_of_servers_are_the_same_in_each_form(name: str, questdb_data: Path) -> None:
    original = Original((questdb_data / name).read_bytes())
    assert {form.name: found for form in FORMS if (found := difference(original, form))} == {}


def test_each_control_is_noticed_and_a_blind_comparison_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*failed_controls()] == []
    monkeypatch.setattr(forms, "_differences", lambda original, form: iter(()))
    assert len([*failed_controls()]) == 7


@pytest.mark.parametrize("blinded", ["is_same", "_read_by_others"])
def test_another_comparison_still_notices_what_a_blind_one_does_not(
    blinded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls are of values, footers and the way back; each of them is noticed by one comparison alone."""
    monkeypatch.setattr(forms, blinded, lambda *_: True)
    assert [*failed_controls()] == (["values that are larger by one were not noticed"] if blinded == "is_same" else [])
