"""Maps of bytes: each byte is shown once, small ranges beside large ones, and whatever a range says stays text."""

import re

from finding_documents import HOSTILE

from tornproof.reports.kit.byte_map import (
    FINDING_STATES,
    MERGED_ABOVE,
    TABLE_ROWS_MAX,
    ByteRange,
    Mark,
    StateLook,
    byte_map,
    legend,
)

BODY = ByteRange(start=0, end=30_000, state="durable", label="chunk")
TOKEN = ByteRange(start=30_000, end=30_004, state="lost", label="TOKEN")


def said(page: str) -> list[str]:
    """Return what each segment of the ribbon says."""
    segments = re.findall(r'<li class="map-segment.*?</li>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", segment).split()) for segment in segments]


def widths(page: str) -> list[float]:
    return [float(width) for width in re.findall(r"flex-basis: ([\d.]+)rem", page)]


def spread(count: int, *, states: tuple[str, ...] = ("durable",)) -> list[ByteRange]:
    return [
        ByteRange(start=position, end=position + 1, state=states[position % len(states)], label=f"field {position}")
        for position in range(count)
    ]


def test_each_range_says_its_bytes_field_and_state_in_words() -> None:
    page = byte_map("a/_pm", 30_004, [TOKEN, BODY])
    assert said(page) == ["0–29,999 chunk durable", "30,000–30,003 TOKEN lost"]
    assert "30,004 bytes" in page


def test_a_field_of_four_bytes_is_wide_enough_to_be_read_beside_a_chunk_of_thousands() -> None:
    chunk, token = widths(byte_map("data.parquet", 30_004, [BODY, TOKEN]))
    assert 4 < token < chunk < 3 * token


def test_what_nobody_has_said_anything_about_is_not_known() -> None:
    ranges = [ByteRange(start=4, end=8, state="lost", label="TOKEN")]
    assert said(byte_map("_pm", 10, ranges)) == ["0–3 not known", "4–7 TOKEN lost", "8–9 not known"]


def test_ranges_outside_of_the_file_and_those_that_overlap_are_cut() -> None:
    ranges = [
        ByteRange(start=-5, end=4, state="durable", label="a"),
        ByteRange(start=2, end=6, state="lost", label="b"),
        ByteRange(start=8, end=7, state="torn", label="c"),
        ByteRange(start=6, end=10**30, state="kept", label="d"),
    ]
    assert said(byte_map("_pm", 9, ranges)) == ["0–3 a durable", "4–5 b lost", "6–8 d kept"]


def test_a_bracket_splits_a_range_and_is_named_where_it_opens() -> None:
    marks = [Mark(start=10, end=30_002, label="read by reader 1")]
    page = byte_map("_pm", 30_004, [BODY, TOKEN], marks=marks)
    assert said(page) == [
        "0–9 chunk durable",
        "10–29,999 chunk durable read by reader 1",
        "30,000–30,001 TOKEN lost",
        "30,002–30,003 TOKEN lost",
    ]
    assert page.count("<td>read by reader 1</td>") == 2


def test_no_bracket_is_drawn_where_nothing_is_marked() -> None:
    page = byte_map("_pm", 30_004, [BODY, TOKEN])
    assert "map-opens" not in page
    assert "Marks" not in page


def test_many_ranges_that_look_alike_are_drawn_as_one_and_listed_in_the_table() -> None:
    page = byte_map("_txn", 50, spread(50))
    assert said(page) == ["0–49 field 0 … field 49 (50 ranges) durable"]
    assert page.count("<tr><td") == 50


def test_few_ranges_that_look_alike_are_drawn_each() -> None:
    assert len(said(byte_map("_txn", MERGED_ABOVE, spread(MERGED_ABOVE)))) == MERGED_ABOVE


def test_of_very_many_ranges_the_page_says_how_many_it_leaves_out() -> None:
    page = byte_map("_txn", 3000, spread(3000, states=("durable", "lost")))
    assert "1,000 more ranges of the data are left out." in page
    assert page.count("<tr><td") == TABLE_ROWS_MAX
    assert len(page) < 200_000


def test_an_empty_file_is_said_to_be_empty() -> None:
    assert "The file is empty." in byte_map("_pm", 0, [])
    assert "The file is empty." in byte_map("_pm", -1, [BODY])


def test_names_labels_and_states_that_are_html_stay_text() -> None:
    ranges = [ByteRange(start=0, end=9, state=HOSTILE, label=HOSTILE)]
    page = byte_map(HOSTILE, 9, ranges, marks=[Mark(start=0, end=4, label=HOSTILE)])
    assert "<script" not in page + legend(FINDING_STATES, [HOSTILE])
    assert page.count("&lt;script&gt;") > 5


def test_the_legend_has_the_states_that_are_used_and_no_others() -> None:
    page = legend(FINDING_STATES, ["torn", "durable"])
    assert page.index("durable") < page.index("torn")
    assert "lost" not in page


def test_another_page_brings_states_of_its_own() -> None:
    states = {"dead": StateLook(label="dead", meaning="nobody refers to it", colour="spare", pattern="vertical")}
    page = byte_map("_pm", 5, [ByteRange(start=0, end=5, state="dead", label="old block")], states=states)
    assert said(page) == ["0–4 old block dead"]
    assert "map-vertical" in page
    assert "nobody refers to it" in legend(states, ["dead"])
