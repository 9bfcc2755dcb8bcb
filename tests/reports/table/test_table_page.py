"""The page of a table: what stands on it for real tables, sound and damaged, and what hostile documents do to it."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import page_text
import pyarrow as pa
import pytest
import table_builder as tb
from golden_data import CHAIN, CUT_DATA, LEGACY, ORPHANED
from markupsafe import Markup

from tornproof.api.steady import verify_until_stable
from tornproof.cli.commands.verify import report_document
from tornproof.cli.table_result import inspections_of, table_result
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types.questdb import TypeTag
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import Page
from tornproof.reports.table import page as table_module
from tornproof.reports.table.page import table_page

FLIPPED_BLOCK = "power-loss/9.4.2/pm-one-bit-flipped-in-a-committed-block/table"
OLD_HEADER = "power-loss/9.4.2/pm-header-old-txn-new/table"
BROKEN_TXN = "power-loss/9.4.2/txn-version-new-record-area-old/table"
JUMPED = "after-restart/2026-07/sync-2-12/table"
HOSTILE = "<script>alert(1)</script>\u202e"
NO_PARTITION_NAME = '2024-01-01"><img src=x onerror=alert(1)>$\\frac'

Document = dict[str, Any]


def document_of(table: Path) -> Document:
    """The result of a table, as it comes out of its file."""
    storage = OperatingSystemStorage()
    report = verify_until_stable(storage, str(table), quick=False)
    document = table_result(report_document(report), inspections_of(storage, str(table), report))
    return dict(json.loads(json.dumps(document)))


@pytest.fixture(scope="module")
def result(questdb_data: Path) -> Callable[[str], Document]:
    known: dict[str, Document] = {}

    def result(name: str) -> Document:
        if name not in known:
            known[name] = document_of(questdb_data / name)
        return copy.deepcopy(known[name])

    return result


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the plot out, which takes longer than all the rest of a page; test_table_plot.py looks at it."""
    monkeypatch.setattr(table_module, "partitions_plot", lambda bars: Markup("<svg></svg>"))


def page_of(document: Any) -> Page:
    return table_page(document, key="table-1", file="tables/table-x.json")


def text_of(page: Page) -> str:
    """What stands on the page, without its markup."""
    return page_text.text_of(page.body)


def test_a_sound_table_says_so_with_its_version_and_its_counts(result: Callable[[str], Document]) -> None:
    page = page_of(result(CHAIN))
    assert (page.verdict, page.group, page.key) == ("VALID", "Tables", "table-1")
    text = text_of(page)
    assert "Version 5 is sound in its 1 parquet partition; 1 native partition (5 rows) looked at only in sizes" in text
    assert "row groups 6 rows 23 column chunks 24 of them decoded 24" in text
    assert "What is wrong" not in text
    assert "orphan of a generation that was never committed" not in text


def test_the_generations_of_a_chain_say_who_wrote_which_row_groups(result: Callable[[str], Document]) -> None:
    text = text_of(page_of(result(CHAIN)))
    assert "0 → committed 10,642 23 6 5 5,741 2,568 ok" in text
    assert "3 older 4,503 20 5 0, 2, 4 0 1,556 ok" in text
    assert "chunks of generation 3: ts, v, s, n unused" in text


def test_an_orphan_is_drawn_where_it_lies_and_its_bytes_are_counted(result: Callable[[str], Document]) -> None:
    document = result(ORPHANED)
    page = page_of(document)
    text = text_of(page)
    assert page.verdict == "INVALID", "the image lacks its native partition"
    assert "0 ⊘ orphan" in text and "1 → committed" in text
    assert "all of generation 0 orphan" in text
    assert document["verify"]["partitions"][0]["dead_bytes"] == 1848
    assert "1,654 1,848 1,848 0" in text, "unused, dead, of them orphan, problems"


def test_a_flipped_bit_is_shown_in_the_range_that_holds_it(result: Callable[[str], Document]) -> None:
    page = page_of(result(FLIPPED_BLOCK))
    assert page.verdict == "INVALID"
    text = text_of(page)
    assert "is damaged: 2 problems." in text
    assert "2024-01-01.1/_pm 1,740 CHECKSUM" in text
    assert "16 more problems after the one at which verify stopped" in text
    assert "trailer, generation 0 in use problem 1" in text
    assert re.search(r'<a href="#table-1-partition-1">trailer, generation 0 \(in use\)</a>', page.body)
    assert 'id="table-1-partition-1"' in page.body


def test_bytes_that_are_not_there_are_drawn_as_missing(result: Callable[[str], Document]) -> None:
    text = text_of(page_of(result(CUT_DATA)))
    assert "5,091–6,666 up to the committed token missing" in text
    assert "row group 0, generation 2: ts, v, n in use" in text, "what _pm says of a file whose footer is gone"


def test_a_committed_generation_behind_the_published_size_is_pointed_at(result: Callable[[str], Document]) -> None:
    text = text_of(page_of(result(OLD_HEADER)))
    assert "No generation in this file has the committed token 6,667: the newest one is shown." in text
    assert "a complete generation with the committed token 6,667 that is not in the chain not explained" in text
    assert "not known" in text, "how many bytes are unused"


def test_a_generation_that_the_chain_jumps_is_dead(result: Callable[[str], Document]) -> None:
    assert "a complete generation with token 11,834 that is not in the chain dead" in text_of(page_of(result(JUMPED)))


def test_a_table_without_a_readable_version_has_a_page_with_its_problem(result: Callable[[str], Document]) -> None:
    page = page_of(result(BROKEN_TXN))
    assert page.verdict == "INVALID"
    assert "No version of this table can be read: 1 problem." in text_of(page)
    assert "no map" in text_of(page)
    assert "Partitions over time" not in page.body


def test_a_table_from_before_pm_has_its_note_and_a_map_of_its_data(result: Callable[[str], Document]) -> None:
    text = text_of(page_of(result(LEGACY)))
    assert "it can be migrated" in text
    assert "in use row group 5: ts, v, s, n" in text


def test_what_verify_alone_wrote_makes_a_page_without_maps(result: Callable[[str], Document]) -> None:
    page = page_of(result(CUT_DATA)["verify"])
    assert page.verdict == "INVALID"
    assert "1 partition was verified, but not inspected for this page." in text_of(page)
    assert "Inside of partitions" not in page.body and "<svg" in page.body


def test_a_table_that_a_release_could_not_go_on_with_is_not_valid(result: Callable[[str], Document]) -> None:
    document = result(CHAIN)
    document["verify"]["as"] = {"preset": "p", "readable": True, "writable": True, "reason": "r", "hazards": ["h1"]}
    page = page_of(document)
    assert page.verdict == "VALID"
    assert "p can continue from these files: r" in text_of(page) and "hazard: h1" in text_of(page)
    document["verify"]["as"]["writable"] = False
    page = page_of(document)
    assert page.verdict == "INVALID"
    assert "can read these files, but not continue" in text_of(page)


def test_a_version_that_was_committed_meanwhile_is_named_and_is_no_orphan(result: Callable[[str], Document]) -> None:
    document = result(ORPHANED)
    (inspection,) = document["inspections"].values()
    inspection["pm"]["committed"] |= {"version": 4, "generation": 0}
    text = text_of(page_of(document))
    assert "Version 4 was committed during the inspection. Version 3 is shown." in text
    assert "+ newer" in text and "⊘ orphan" not in text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    table = tb.build({HOSTILE: (TypeTag.LONG, pa.array([1, 2, 3]))}).write_to(tmp_path / "table")
    document = document_of(table)
    document["verify"]["partitions"][0]["name"] = NO_PARTITION_NAME
    document["inspections"] = {NO_PARTITION_NAME: document["inspections"].popitem()[1]}
    document["verify"]["unreferenced"] = document["verify"]["notes"] = ["</td><script>1", "\udcff"]
    document["verify"]["table"] = f"/x/{HOSTILE}"
    page = page_of(document)
    assert "<script" not in page.body and "<img" not in page.body and "\u202e" not in page.body
    assert "row group 0, generation 0: ts, <script>alert(1)</script>\\u202e" in text_of(page)
    assert "\\udcff" in text_of(page)
    page.body.encode()


def test_the_same_result_makes_the_same_bytes(result: Callable[[str], Document]) -> None:
    assert page_of(result(ORPHANED)) == page_of(result(ORPHANED))


WRONG = [
    ([], "the document: expected an object, found a list of 0"),
    ({"verify": 3}, "format: expected a whole number, found nothing"),
    ({"format": 2, "verify": {}}, "format: expected 1, found 2"),
    ({"format": 1, "verify": 3}, "verify: expected an object, found the number 3"),
    ({"format": 1, "partitions": []}, "counts: expected an object, found nothing"),
]


@pytest.mark.parametrize(("document", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_another_document_is_one_clear_sentence(document: object, sentence: str) -> None:
    with pytest.raises(ResultError) as caught:
        page_of(document)
    assert str(caught.value) == f"tables/table-x.json: {sentence}"


def test_a_verdict_that_contradicts_its_problems_is_rejected(result: Callable[[str], Document]) -> None:
    document = result(CUT_DATA)
    document["verify"]["sound"] = True
    with pytest.raises(ResultError, match=r"verify\.sound: expected false, because 2 problems are listed, found true"):
        page_of(document)


VALUES: tuple[Any, ...] = (None, -1, 1 << 70, "x\n\x00", [[]])
UNREAD = ("columns", "header", "schema")
"""Fields that no page shows more than a name of."""


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON document that a page may read, of each list its first entry."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, each in inner:
        if name not in UNREAD:
            yield from paths_of(each, (*path, name))


def test_no_value_in_any_place_does_more_than_end_in_one_sentence(
    result: Callable[[str], Document],
) -> None:
    document, rejected, made = result(ORPHANED), 0, 0
    for path in paths_of(document):
        holder = document
        for name in path[:-1]:
            holder = holder[name]
        kept = holder[path[-1]]
        for value in VALUES:
            holder[path[-1]] = value
            try:
                page_of(document)
                made += 1
            except ResultError as error:
                assert "\n" not in str(error)
                rejected += 1
        holder[path[-1]] = kept
    assert made and rejected
