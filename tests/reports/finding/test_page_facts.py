"""What a page shows is what its document says, value by value; and mistakes of the page builder are noticed by that.

The facts are recomputed here by brute force on random documents. `MISTAKES` are planted one at a time: each must break
a fact that holds without it.
"""

import itertools
import random
import re
from collections.abc import Callable

import pytest
from finding_documents import byte_range, finding_document, lane_row
from page_text import text_of

from tornproof.harness.counterexamples.state_recorder import with_values
from tornproof.harness.mutation.source_patch import SourcePatch
from tornproof.reports.finding.neighbour import ROWS_AFTER, ROWS_BEFORE, side_by_side
from tornproof.reports.finding.page import finding_page
from tornproof.reports.finding.space_time import LaneRow
from tornproof.reports.kit.byte_map import ByteRange, Mark, byte_map

STATES = ("durable", "written", "lost", "torn")
RUNS = 60
_ROW = re.compile(r"<tr>(<td.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
_PAIR = re.compile(r'<div class="pair-cell pair-(\w+)">(.*?)</div>\n', re.DOTALL)


def table_of(page: str) -> list[list[str]]:
    """Return the rows of the table of a byte map: first and last byte, size, state, label and marks."""
    return [[text_of(cell) for cell in _CELL.findall(row)] for row in _ROW.findall(page)]


def check_byte_map(chance: random.Random) -> None:
    """Each byte of a file is in one row, with the state and the field of the first range that has it."""
    size_bytes = chance.randrange(1, 40)

    def extent() -> tuple[int, int]:
        start = chance.randrange(-3, size_bytes)
        return start, start + chance.randrange(9)

    ranges = [
        ByteRange(start=start, end=end, state=chance.choice(STATES), label=f"field {number}")
        for number, (start, end) in enumerate(extent() for _ in range(chance.randrange(9)))
    ]
    marks = [Mark(start=start, end=end, label=f"mark {n}") for n, (start, end) in enumerate(extent() for _ in range(2))]
    in_order = sorted(ranges, key=lambda each: (each.start, each.end))
    found = table_of(byte_map("f", size_bytes, ranges, marks=marks))
    at = 0
    for first, last, size, state, label, *marked in found:
        assert int(first) == at and int(last) >= at and int(size) == int(last) - at + 1
        for byte in range(at, int(last) + 1):
            held = next((each for each in in_order if each.start <= byte < each.end), None)
            assert (state, label) == ("not known" if held is None else held.state, "" if held is None else held.label)
            covering = [mark.label for mark in marks if mark.start <= byte < mark.end]
            assert "; ".join(marked) == "; ".join(covering)
        at = int(last) + 1
    assert at == size_bytes


def check_neighbour(chance: random.Random) -> None:
    """Both runs are shown from just before their first difference on, without a row lost, and the rest is counted."""
    names = [f"commit {number}" for number in range(chance.randrange(2, 9 if chance.random() < 0.5 else 30))]
    sides = [
        [
            lane_row("writer", "writer", name, f"step {name}", *(["more"] if chance.random() < 0.1 else []))
            for name in names
            if chance.random() < 0.9
        ]
        for _ in range(2)
    ]
    broken, passing = ([LaneRow(**{**row, "does": tuple(row["does"]), "ends": ()}) for row in rows] for rows in sides)
    first = next((n for n, pair in enumerate(zip(broken, passing, strict=False)) if pair[0] != pair[1]), None)
    if first is None:
        return
    page = str(side_by_side(broken, passing, "one step earlier"))
    cells = [(side, text_of(cell)) for side, cell in _PAIR.findall(page)]
    start = max(0, first - ROWS_BEFORE)
    left_out = re.search(r"(\d+) more rows are left out", page)
    pair_count = len({row.operation for row in (*broken, *passing)})
    shown_count = min(pair_count, first + ROWS_AFTER) - start
    assert len(cells) == 2 * shown_count
    assert (int(left_out[1]) if left_out else 0) == pair_count - start - shown_count
    for side, rows in (("broken", broken), ("passing", passing)):
        shown = [cell for name, cell in cells if name == side and cell != "no such row"]
        assert len(shown) == len(rows) - start if left_out is None else len(shown) <= len(rows) - start
        for cell, row in zip(shown, rows[start:], strict=False):
            assert all(f"{each} " in f"{cell} " for each in (row.operation, *row.does))
            assert ("more" in row.does) == (" more" in cell)


def check_values(chance: random.Random) -> None:
    """Each range of a file has the value of its own field."""
    ends = sorted(chance.sample(range(1, 60), chance.randrange(2, 8)))
    ranges = [
        {**byte_range(start, end, chance.choice(STATES), f"FIELD_{start}"), "value": f"{start} → {end}"}
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    file = {"file": "_txn", "size_bytes": ends[-1], "ranges": ranges, "read": []}
    page = finding_page(finding_document({"files": [file]}), file="a.json", key="a")
    rows = [row for row in table_of(str(page.body)) if len(row) >= 5 and row[4].startswith("FIELD_")]
    assert len(rows) == len(ranges)
    for first, last, _, state, label, *_ in rows:
        assert label == f"FIELD_{first} {first} → {int(last) + 1}" and state in STATES


def check_values_of_bytes(chance: random.Random) -> None:
    """A field of a run that has changed has the numbers that its bytes are before and after it, and no other has."""
    before = chance.randbytes(40)
    after = bytes(byte if chance.random() < 0.8 else chance.randrange(256) for byte in before)
    starts = sorted(chance.sample(range(40), 6))
    ranges = [
        byte_range(start, end, "written", chance.choice(["", "FIELD"])) for start, end in itertools.pairwise(starts)
    ]
    for each in with_values({"ranges": ranges}, before, after)["ranges"]:
        place = slice(each["start"], each["end"])
        was, now = (sum(byte << 8 * n for n, byte in enumerate(content[place])) for content in (before, after))
        is_shown = bool(each["field"]) and was != now and place.stop - place.start <= 8
        assert each.get("value", "") == (f"{was} → {now}" if is_shown else "")


Check = Callable[[random.Random], None]
NEIGHBOUR, MAP, DOCUMENT, STATES_OF_RUN = (
    "reports/finding/neighbour.py",
    "reports/kit/byte_map.py",
    "reports/finding/document.py",
    "harness/counterexamples/state_recorder.py",
)
MISTAKES: dict[str, tuple[SourcePatch, Check]] = {
    "one row fewer in the neighbour": (
        SourcePatch(NEIGHBOUR, "in passing[right:right_end])", "in passing[right : right_end - 1])"),
        check_neighbour,
    ),
    "one row fewer of the run itself": (
        SourcePatch(NEIGHBOUR, "in broken[left:left_end])", "in broken[left + 1 : left_end])"),
        check_neighbour,
    ),
    "a pair fewer": (SourcePatch(NEIGHBOUR, "first + ROWS_AFTER\n", "first + ROWS_AFTER - 1\n"), check_neighbour),
    "rows that are left out are counted from the first difference": (
        SourcePatch(NEIGHBOUR, "max(0, len(pairs) - end)", "max(0, len(pairs) - first)"),
        check_neighbour,
    ),
    "calls of the other run": (
        SourcePatch(NEIGHBOUR, "_own(mine.told, does)]", "_own(does or mine.told, mine.told)]"),
        check_neighbour,
    ),
    "ranges of no bytes are kept": (SourcePatch(MAP, "if start >= end:", "if start > end:"), check_byte_map),
    "marks split ranges into parts of no bytes": (
        SourcePatch(MAP, "if each.start < offset < each.end)", "if each.start <= offset < each.end)"),
        check_byte_map,
    ),
    "a gap has the field behind it": (
        SourcePatch(
            MAP,
            'yield ByteRange(start=at, end=start, state=UNKNOWN_STATE, label="")',
            "yield ByteRange(start=at, end=start, state=UNKNOWN_STATE, label=each.label)",
        ),
        check_byte_map,
    ),
    "the last bytes are left out": (SourcePatch(MAP, "if at < size_bytes:", "if at < size_bytes - 1:"), check_byte_map),
    "a mark covers what it touches": (
        SourcePatch(MAP, "if mark.start <= start and end <= mark.end", "if mark.start <= end and start <= mark.end"),
        check_byte_map,
    ),
    "value of another field": (
        SourcePatch(
            DOCUMENT,
            "label=_label(each)) for each in fields.inners(",
            'label=_label(fields.inners("ranges", 1)[0])) for each in fields.inners(',
        ),
        check_values,
    ),
    "a value from beside the field": (
        SourcePatch(STATES_OF_RUN, "before[start:end], after[start:end]", "before[start:end], after[end : 2 * end]"),
        check_values_of_bytes,
    ),
    "before and after exchanged": (
        SourcePatch(STATES_OF_RUN, "before[start:end], after[start:end]", "after[start:end], before[start:end]"),
        check_values_of_bytes,
    ),
    "a range fewer": (
        SourcePatch(
            DOCUMENT, 'in fields.inners("ranges", RANGES_MAX)],', 'in fields.inners("ranges", RANGES_MAX)[1:]],'
        ),
        check_values,
    ),
}


@pytest.mark.parametrize("check", [check_byte_map, check_neighbour, check_values, check_values_of_bytes])
def test_what_a_page_shows_is_what_its_document_says(check: Check) -> None:
    chance = random.Random(1)
    for _ in range(RUNS):
        check(chance)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_page_builder_is_noticed(name: str) -> None:
    patch, check = MISTAKES[name]
    reached: list[None] = []
    chance = random.Random(1)
    with patch.planted(lambda: reached.append(None)), pytest.raises(AssertionError):
        for _ in range(RUNS):
            check(chance)
    assert reached
