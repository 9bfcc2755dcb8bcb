import pytest
from interop_cases import Outcome, Result
from interop_page import page
from interop_tally import DifferenceError, Direction, Tally, demand_equal

from tornproof.harness.systems.server.release import Release

RELEASE = Release(version="9.3.4", classpath="", java="java", java_version=17)


def test_equal_rows_are_accepted() -> None:
    demand_equal("rows", [[1, None], [2, "x"]], [[1, None], [2, "x"]])


@pytest.mark.parametrize(
    ("found", "words"),
    [([[1], [3]], "row 1: expected [2], found [3]"), ([[1]], "found 1; row 1: expected [2], found no row")],
)
def test_rows_that_differ_are_rejected_with_the_first_of_them(found: list[list[int]], words: str) -> None:
    with pytest.raises(DifferenceError) as raised:
        demand_equal("rows", [[1], [2]], found)
    assert words in str(raised.value)


def made_page(difference: str | None) -> str:
    tally = Tally()
    tally.add(["commits"], Direction.VERIFIED)
    tally.add(["merges in place"], Direction.QUERIED)
    tally.counts["programs begun"] = 3
    results = [Result(case="new symbol", did="We write one", outcome=Outcome.REJECTED, saw="a | b")]
    return page(RELEASE, tally, results, seed=0, steps=10, idle_milliseconds=50, difference=difference)


def test_a_page_has_every_operation_and_case() -> None:
    made = made_page(None)
    assert "| 9.3.4 | the server: commits | 1 | 0 | 0 | 0 |" in made
    assert "| 9.3.4 | we: merges in place | 1 | 0 | 0 |" in made
    assert "| 9.3.4 | new symbol | We write one | rejected by our writer: a \\| b |" in made
    assert "difference ended" not in made


def test_a_page_tells_the_difference_that_ended_the_run() -> None:
    assert "**A difference ended the run:** rows differ" in made_page("rows\ndiffer")
