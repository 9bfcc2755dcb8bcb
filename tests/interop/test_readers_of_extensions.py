"""What readers that know no extensions do with files in each form, and that the page says the same."""

from pathlib import Path

import pytest
import readers_child
from readers_files import FILTER_COLUMN, FILTER_FROM, HEADERS, FormFile, form_files, plain_file
from readers_run import CRASHES, ELSEWHERE, HERE, PAGE, READS, REFUSES, outcome

from tornproof.impl.layout.parquet import FooterForm

LARGE_BYTES = 1_000_000


def rows_of_page() -> dict[tuple[str, ...], list[str]]:
    """Return the cells of the page by form, header, and whether the extension is large."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    # An empty cell has no text, and so one space.
    cells = [[cell.strip(" |") for cell in line] for line in lines]
    return {key_of_cells(each): each[4:] for each in cells}


def key_of_cells(cells: list[str]) -> tuple[str, ...]:
    footer, chunks, header, size = cells[:4]
    return footer, chunks, header, str(int(size.replace(",", "") or 0) > LARGE_BYTES)


def key_of(file: FormFile) -> tuple[str, ...]:
    header = HEADERS[file.header] if file.extension_bytes else ""
    return f"`{file.footer}`", f"`{file.chunks}`", header, str(file.extension_bytes > LARGE_BYTES)


@pytest.mark.parametrize("reader", ["pyarrow", "DuckDB", "Polars"])
def test_the_page_says_what_readers_do(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(plain_file())
    rows, _ = readers_child.read_with_pyarrow(str(path), FILTER_COLUMN, FILTER_FROM)
    table, seen = rows_of_page(), set()
    for file in form_files(LARGE_BYTES):
        path.write_bytes(file.content)
        answer = readers_child.answer_of(reader, FILTER_COLUMN, FILTER_FROM, str(path))
        verdict = outcome(answer, rows).verdict
        expected = table[key_of(file)][[*HERE, *ELSEWHERE].index(reader)]
        assert verdict == expected, (key_of(file), answer.get("error"))
        assert (verdict == READS) is (file.footer is not FooterForm.FINAL and "alone" not in file.chunks)
        seen.add(key_of(file))
    assert seen == table.keys()


def test_every_reader_reads_files_with_thrift_and_an_extension_of_the_footer_of_any_size() -> None:
    found = [
        cells for key, cells in rows_of_page().items() if key[:2] in (("`private`", "`old`"), ("`migration`", "`old`"))
    ]
    assert len(found) == 8
    assert all(set(cells) == {READS} and len(cells) == len(HERE + ELSEWHERE) for cells in found)


def test_no_reader_shows_wrong_rows_or_crashes() -> None:
    said = {cell for cells in rows_of_page().values() for cell in cells}
    assert said == {READS, REFUSES} and CRASHES not in said


def test_other_rows_would_be_said_to_be_wrong() -> None:
    assert outcome({"rows": [[1.0]], "filtered": 100}, [[1.0]]).verdict == READS
    for answer in ({"rows": [[1.0]], "filtered": 99}, {"rows": [[2.0]], "filtered": 100}):
        assert outcome(answer, [[1.0]]).verdict not in (READS, REFUSES)
    assert outcome({"error": "OSError: x"}, []).verdict == REFUSES
