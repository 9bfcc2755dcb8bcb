"""How a content that differs from the model's is described."""

from tornproof.harness.common.model_check import difference
from tornproof.model.rows import Content, Interval, Row

HOUR = 3_600


def content(*rows: Row, version: int = 4, start: int = 0) -> Content:
    return Content(version=version, partitions=((start, rows),), interval=Interval.HOUR, ticks=1)


def test_a_difference_names_the_version_the_partitions_or_the_rows_and_is_empty_for_the_same() -> None:
    a, b, c = Row(1, None, "a"), Row(2, None, "b"), Row(2, None, "c")
    expected = content(a, b)
    assert difference(expected, content(a, b)) == ""
    assert "version is wrong: expected 4, found 3" in difference(expected, content(a, b, version=3))
    assert "expected those that start at [0], found [3600]" in difference(expected, content(start=HOUR))
    assert difference(expected, content(a)).endswith("found 1; missing are ['b']")
    assert difference(expected, content(a, c)).endswith("missing are ['b']; too many are ['c']")
    assert difference(expected, content(b, a)).endswith("the same in another order")
