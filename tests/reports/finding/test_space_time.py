"""The diagram of a run: rows in their lanes, where control goes, what is decisive, and crashes through all lanes."""

import re
from dataclasses import replace

import pytest
from finding_documents import HOSTILE

from tornproof.reports.finding.neighbour import side_by_side
from tornproof.reports.finding.space_time import ROWS_MAX, LaneRow, bounded, call_of, space_time

OPEN = LaneRow(lane="writer", client="writer", operation="open")
COMMIT = LaneRow(lane="writer", client="writer", operation="commit 0", does=("write d/_pm", "store a word d/_pm"))
READ = LaneRow(lane="readers", client="reader 1", operation="read 1", does=("read _txn x4",), ends=("is refused",))


def steps(page: str) -> list[str]:
    return page.split("data-step ")[1:]


def test_each_row_stands_in_the_lane_of_its_client() -> None:
    commit, read = steps(space_time([COMMIT, READ]))
    assert "lanes-in-writer" in commit
    assert "lanes-in-readers" in read


def test_a_link_says_where_control_goes_to_another_client_and_only_there() -> None:
    opened, commit, read = steps(space_time([OPEN, COMMIT, READ]))
    assert "lanes-link" not in opened + commit
    assert "lanes-across lanes-to-readers" in read
    assert "then reader 1" in read


def test_a_switch_is_told_apart_from_a_client_that_ends() -> None:
    _, read = steps(space_time([COMMIT, replace(READ, happens="switch")]))
    assert "reader 1 runs while writer is paused" in read


def test_a_client_in_the_same_lane_is_linked_downwards() -> None:
    _, second = steps(space_time([COMMIT, replace(COMMIT, client="writer.2")]))
    assert "lanes-down lanes-to-writer" in second


def test_the_decisive_row_is_marked_in_words_and_playback_starts_there() -> None:
    commit, read = steps(space_time([COMMIT, replace(READ, is_decisive=True)]))
    assert "Decisive step" not in commit
    assert "Decisive step</p>" in read
    assert "data-step-start" in read
    assert 'data-text="Decisive step: reader 1, read 1: read _txn x4; is refused"' in read


@pytest.mark.parametrize(
    ("happens", "words"),
    [("power", "Power cut"), ("kill", "writer is killed here"), ("fail", "a call of writer fails here")],
)
def test_a_crash_is_a_bar_through_all_lanes(happens: str, words: str) -> None:
    commit, read = steps(space_time([replace(COMMIT, happens=happens), READ]))
    assert words in commit
    assert "lanes-crash" in commit
    assert "lanes-crash" not in read


def test_the_disk_lists_what_is_not_durable() -> None:
    page = space_time([replace(COMMIT, disk="not durable: d/_pm, _txn; lost as model C allows")])
    disk = page[page.index('class="lanes-disk"') :]
    assert disk.count("<li>") == 2
    assert "<p>lost as model C allows</p>" in disk


def test_of_too_many_rows_those_around_the_decisive_one_are_shown() -> None:
    rows = [*[OPEN] * 1000, replace(READ, is_decisive=True), *[OPEN] * 1000]
    page = space_time(rows)
    assert len(steps(page)) == ROWS_MAX
    assert "Decisive step</p>" in page
    assert "800 rows before these are left out." in page
    assert "801 rows after these are left out." in page


def test_rows_that_fit_are_all_shown() -> None:
    page = space_time([OPEN] * ROWS_MAX)
    assert len(steps(page)) == ROWS_MAX
    assert "left out" not in page


def test_a_row_with_thousands_of_long_calls_is_cut_and_says_so() -> None:
    row = bounded(replace(COMMIT, does=("write " + "x" * 5000,) * 5000))
    assert sum(map(len, row.does)) < 10_000
    assert row.does[-1] == "and 4,984 more calls"


def test_the_file_of_a_call_is_told_from_its_words() -> None:
    assert call_of("store a word 2024/_pm x3") == ("store a word", "2024/_pm", "x3")
    assert call_of("read _txn") == ("read", "_txn", "")
    assert call_of("power is cut") == ("power is cut", "", "")


def test_clients_files_and_ends_that_are_html_stay_text() -> None:
    row = replace(READ, client=HOSTILE, operation=HOSTILE, does=(f"read {HOSTILE}",), ends=(HOSTILE,), disk=HOSTILE)
    page = space_time([row, COMMIT]) + side_by_side([row], [COMMIT], HOSTILE)
    assert "<script" not in page


def test_side_by_side_names_what_only_one_of_the_runs_has() -> None:
    passing = replace(COMMIT, does=("write d/_pm",))
    page = side_by_side([OPEN, COMMIT, READ], [OPEN, passing, replace(READ, ends=("sees 1",))], "one step earlier")
    assert "in writer, commit 0, only the violating run has “store a word d/_pm”." in page
    assert page.count("First difference") == 1
    assert re.search(r"pair-first.*store a word.*only here", page, re.DOTALL)


def test_side_by_side_shows_a_row_that_one_of_the_runs_lacks() -> None:
    page = side_by_side([COMMIT, READ], [COMMIT, replace(COMMIT, operation="close"), READ], "left out")
    assert "only the run that passes has writer, close." in page
    assert "no such row" in page


def test_side_by_side_of_runs_that_differ_between_two_calls_says_so() -> None:
    page = side_by_side([COMMIT, READ], [COMMIT, READ], "left out")
    assert "The rows of both runs are the same" in page
    assert "First difference" not in page
