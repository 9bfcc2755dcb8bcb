"""The tables of docs/format.md are those of the code; documents that cannot be rewritten are rejected."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import layout_tables as document
import pytest
from layout_tables import DocumentError, declared_tables, layout_modules, main, rewrite, sections
from msgspec.structs import replace

import tornproof.impl.layout
from tornproof.impl.layout import pm
from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import Record
from tornproof.impl.types.questdb import TypeTag

ROOT = Path(__file__).parents[3]
FORMAT = ROOT / "docs" / "format.md"
CONTENTS = {"a": "table a", "b": "table b"}
BOTH = "Top\n<!-- layout: a -->\n<!-- end -->\nbetween\n<!-- layout: b -->\nold\n<!-- end -->\nrest\n"


def all_subclasses(parent: type[Record]) -> set[type[Record]]:
    return {each for child in parent.__subclasses__() for each in (child, *all_subclasses(child))}


def test_the_format_document_is_not_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FORMAT), "--check"]) == 0, capsys.readouterr().out


def test_every_layout_of_every_module_stands_in_the_format_document_with_all_its_fields() -> None:
    text = FORMAT.read_text()
    for found in pkgutil.iter_modules(tornproof.impl.layout.__path__):
        importlib.import_module(f"tornproof.impl.layout.{found.name}")
    records = {
        each
        for each in all_subclasses(Record)
        if each.__module__.startswith("tornproof.impl.") and hasattr(each, "layout")
    }
    assert len(records) > 20
    for record in records:
        layout = record.layout
        assert f"**{layout.title}**, {layout.size_bytes} bytes (source: {layout.source})" in text
        for spec in layout.fields:
            row = (spec.offset_bytes, spec.wire.size_bytes, spec.format_name, spec.wire.name, spec.meaning)
            assert f"| {' | '.join(map(str, row))} |" in text


def test_every_bit_table_and_every_type_code_stands_in_the_format_document() -> None:
    text = FORMAT.read_text()
    tables = [table for module in layout_modules().values() for table in declared_tables(module)]
    bit_tables = [table for table in tables if isinstance(table, BitTable)]
    assert {"Column type", "Row count and flags", "Statistics flags"} <= {table.title for table in bit_tables}
    for table in bit_tables:
        assert f"**{table.title}**, a word of {table.word_bits} bits (source: {table.source})" in text
        for bits in table.bits:
            assert f"| {bits.offset_bits} | {bits.size_bits} | {bits.name} | {bits.meaning} |" in text
    for tag in TypeTag:
        assert f"| {tag.value} | {tag.name} | `" in text


@pytest.mark.parametrize(
    ("tag", "arrow"),
    [
        (TypeTag.LONG, "`int64`"),
        (TypeTag.TIMESTAMP, "`timestamp[us, tz=UTC]`, with NANOSECOND `timestamp[ns, tz=UTC]`"),
        (TypeTag.DECIMAL64, "`decimal128(18, 0)` with"),
        (TypeTag.ARRAY, "`list<element: double>` in"),
    ],
)
def test_type_codes_come_with_their_arrow_types(tag: TypeTag, arrow: str) -> None:
    assert f"| {tag.value} | {tag.name} | {arrow}" in sections()["types"]


def test_tables_are_in_the_order_in_which_they_are_declared() -> None:
    declared = declared_tables(pm)
    assert declared[:3] == [pm.Header, pm.ColumnDescriptor, pm.SortingColumn]
    assert declared[-1] is pm.ENCODINGS
    text = sections()["pm"]
    titles = [f"**{table.title if isinstance(table, BitTable) else table.layout.title}**" for table in declared]
    assert sorted(titles, key=text.index) == titles


def test_a_changed_meaning_makes_the_document_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = pm.Header.layout
    first, *others = layout.fields
    changed = replace(layout, fields=(replace(first, meaning="something else"), *others))
    monkeypatch.setattr(pm.Header, "layout", changed)
    assert main([str(FORMAT), "--check"]) == 1
    diff = capsys.readouterr().out
    assert f"\n-| 0 | 8 | PARQUET_META_FILE_SIZE | u64 | {first.meaning} |" in diff
    assert "\n+| 0 | 8 | PARQUET_META_FILE_SIZE | u64 | something else |" in diff


def test_a_new_table_of_a_module_cannot_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    table = BitTable("Brand new", "nowhere", 8, (Bits("NEW", 0, 1, "a | b"),))
    monkeypatch.setattr(pm, "BRAND_NEW", table, raising=False)
    assert main([str(FORMAT), "--check"]) == 1
    assert "**Brand new**" in sections()["pm"]
    assert r"| 0 | 1 | NEW | a \| b |" in sections()["pm"]


def test_a_new_module_cannot_be_forgotten(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(document, "layout_modules", lambda: {**layout_modules(), "brand_new": pm})
    assert main([str(FORMAT), "--check"]) == 2
    assert "no marker for layout brand_new" in capsys.readouterr().err


def test_rewriting_replaces_only_the_text_between_the_markers() -> None:
    first = rewrite(BOTH, CONTENTS)
    assert first == (
        "Top\n<!-- layout: a -->\n\ntable a\n\n<!-- end -->\nbetween\n"
        "<!-- layout: b -->\n\ntable b\n\n<!-- end -->\nrest\n"
    )
    assert rewrite(first, CONTENTS) == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- layout: a -->\n<!-- end -->\n", "no marker for layout b"),
        (BOTH + "<!-- layout: c -->\n<!-- end -->\n", "line 9: no layout is called c; there are a, b"),
        (BOTH + "<!-- layout: a -->\n<!-- end -->\n", "line 9: layout a occurs twice"),
        (BOTH + "<!-- end -->\n", "line 9: an end without a layout before it"),
        (
            "<!-- layout: a -->\n<!-- layout: b -->\n<!-- end -->\n",
            "line 2: layout b starts before the end of layout a",
        ),
        ("<!-- layout: a -->\n<!-- end -->\n<!-- layout: b -->\n", "layout b has no end"),
    ],
)
def test_markers_that_do_not_fit_are_errors_in_words(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        rewrite(text, CONTENTS)
    assert str(caught.value) == message


def test_the_command_rewrites_a_stale_document_and_check_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "format.md"
    stale = FORMAT.read_text().replace("| u64 |", "| old |")
    path.write_text(stale)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "docs" / "layout_tables.py"), str(path), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    checked = run("--check")
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "-| 0 | 8 | NUM_ROWS | old |" in checked.stdout
    assert path.read_text() == stale
    assert run().returncode == 0
    assert path.read_text() == FORMAT.read_text()
    assert run("--check").returncode == 0


def test_a_longer_document_leaves_no_rest_when_it_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "format.md"
    path.write_text(FORMAT.read_text().replace("<!-- end -->", "old row\n" * 50 + "<!-- end -->"))
    assert main([str(path)]) == 0
    assert path.read_text() == FORMAT.read_text()


def test_a_document_that_cannot_be_read_is_an_error_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "format.md"
    assert main([str(path)]) == 2
    assert "cannot open for reading: it is not there" in capsys.readouterr().err
    path.write_bytes(b"ab\xff")
    assert main([str(path), "--check"]) == 2
    assert "not UTF-8 at byte 2" in capsys.readouterr().err
