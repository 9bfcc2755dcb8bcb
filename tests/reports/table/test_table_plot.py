"""The plot of a table's partitions, and how large a page becomes at most, plot and byte maps included."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tornproof.api.steady import verify_until_stable
from tornproof.cli.commands.verify import report_document
from tornproof.cli.table_result import inspections_of, table_result
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.reports.table.fields import Partition
from tornproof.reports.table.page import table_page
from tornproof.reports.table.plot import BARS_MAX, bars_of, partitions_plot

DAMAGED = "power-loss/9.4.2/data-tail-lost-length/table"
LONG_CHAIN = "tables/9.4.2/history/table"
PARTITION = Partition(
    name="2024-01-01.7",
    format="parquet",
    rows=10,
    token=1000,
    generations=3,
    orphans=1,
    unused_bytes=300,
    dead_bytes=50,
    problems=(),
)


def test_a_bar_splits_the_bytes_of_a_partition_without_counting_one_twice() -> None:
    (bar,) = bars_of([PARTITION], {PARTITION.name: 20})
    assert (bar.name, bar.rows) == ("2024-01-01", 10)
    assert (bar.used, bar.unused, bar.dead, bar.orphan) == (700, 300, 30, 20)
    (bar,) = bars_of([PARTITION], {})
    assert (bar.dead, bar.orphan) == (50, 0)


def test_many_partitions_share_bars_and_none_is_left_out() -> None:
    bars = bars_of([PARTITION] * 1001, {})
    assert len(bars) <= BARS_MAX
    assert sum(bar.partition_count for bar in bars) == 1001
    assert sum(bar.rows for bar in bars) == 10_010
    assert len(bars_of([PARTITION] * BARS_MAX, {})) == BARS_MAX


@pytest.mark.parametrize("number", [(1 << 64) - 1, 1 - (1 << 64), 0])
def test_numbers_that_no_table_has_are_drawn_all_the_same(number: int) -> None:
    odd = replace(PARTITION, rows=number, token=number, unused_bytes=number, dead_bytes=number)
    assert "<svg" in partitions_plot(bars_of([PARTITION, odd], {}))


def test_a_name_is_no_formula_and_no_markup_in_the_plot() -> None:
    hostile = replace(PARTITION, name="$\\frac$<b>&")
    drawn = partitions_plot(bars_of([hostile], {}))
    assert "<b>" not in drawn
    assert "$\\frac$&lt;b&gt;&amp;" in drawn


def test_the_plot_says_its_numbers_to_those_who_do_not_see_it() -> None:
    drawn = partitions_plot(bars_of([PARTITION] * 2, {PARTITION.name: 20}))
    assert "20 rows, 1,400 bytes in use, 600 unused, 60 dead, 40 of orphans" in drawn


@pytest.mark.nightly
def test_ten_thousand_partitions_make_a_bounded_page_with_the_damaged_ones_first(
    questdb_data: Path,
) -> None:
    document, whole = (document_of(questdb_data / name) for name in (DAMAGED, LONG_CHAIN))
    (busy,) = (each for each in whole["inspections"].values() if each["pm"])
    damaged, native = document["verify"]["partitions"]
    partitions = [native | {"name": f"2024-01-01T00.{number}", "format": "parquet"} for number in range(10_000)]
    partitions[9_000:] = [
        damaged | {"name": each["name"], "problems": damaged["problems"] * 20} for each in partitions[9_000:]
    ]
    document["verify"]["partitions"] = partitions
    document["inspections"] = {f"2024-01-01T00.{9_000 + number}": busy for number in range(8)}
    document["left_out"] = 9_992
    text = table_page(document, key="table-1", file="table.json").body
    assert len(text.encode()) < 500_000
    assert "9,500 more partitions are not listed; those with problems are first." in text
    assert "2024-01-01T00.9000" in text and "2024-01-01T00.8999" not in text
    assert "<svg" in text and "one bar is 167 partitions" in text
    assert "9,992 partitions were verified, but not inspected" in text
    assert "more problems are not listed here" in text


def document_of(table: Path) -> dict[str, Any]:
    """The result of a table."""
    storage = OperatingSystemStorage()
    report = verify_until_stable(storage, str(table), quick=False)
    return table_result(report_document(report), inspections_of(storage, str(table), report))
