"""The page of a table in a real browser: nothing asked of the network, nothing wrong for those who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import table_builder as tb
from depth import nightly

from tornproof.api.steady import verify_until_stable
from tornproof.cli.commands.verify import report_document
from tornproof.cli.table_result import inspections_of, table_result
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types.questdb import TypeTag
from tornproof.reports.kit.page import as_document
from tornproof.reports.table.page import table_page

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

DAMAGED = "power-loss/9.4.2/data-tail-zeros/table"
HOSTILE = "<img src=x onerror=alert(1)>"


def html_of(*tables: Path) -> str:
    storage, pages = OperatingSystemStorage(), []
    for number, table in enumerate(tables, 1):
        report = verify_until_stable(storage, str(table), quick=False)
        document = table_result(report_document(report), inspections_of(storage, str(table), report))
        pages.append(table_page(document, key=f"table-{number}", file="table.json"))
    return as_document("tables", pages)


@pytest.fixture(scope="module")
def html(questdb_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    position = tmp_path_factory.mktemp("hostile") / HOSTILE
    return html_of(questdb_data / DAMAGED, tb.build({HOSTILE: (TypeTag.LONG, pa.array([1, 2, 3]))}).write_to(position))


# Each table in one theme, and in the other one at night.
@pytest.mark.parametrize(
    ("damaged_theme", "hostile_theme"),
    [("dark", "light"), nightly("light", "dark")],
)
def test_problems_lead_to_their_bytes_and_hostile_names_are_text(
    html: str,
    open_report: Callable[..., BrowserPage],
    axe_violations: Callable[[BrowserPage], list[str]],
    damaged_theme: str,
    hostile_theme: str,
) -> None:
    page = open_report(html, key="table-1", theme=damaged_theme)
    assert axe_violations(page) == []
    page.click("#table-1 .table-problems a >> nth=0")
    assert page.is_visible("#table-1-partition-1")
    page = open_report(html, key="table-2", theme=hostile_theme, width=390)
    assert HOSTILE in page.inner_text("#table-2")
    assert page.locator("#table-2 img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out on a phone"
    assert axe_violations(page) == []
