"""Plots: the page's colours, text that stays text, and identities that no other plot has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from tornproof.reports.kit.plots import COLOURS, plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOSTILE = '</text></svg><script>alert(1)</script>"\'--> $\\frac{$ \x00\x01 #010200 id="axes_1" 日本'


class Elements(HTMLParser):
    """Collects the elements, attributes and texts that a browser would make of a plot."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def draw_much(figure: Figure, text: str = "rows") -> None:
    """Draw what refers to other parts of the drawing: markers, clipped lines, hatches, and colours of all kinds."""
    from matplotlib.colors import ListedColormap

    left, right = figure.subplots(1, 2)
    left.plot([1, 2, 3], [1, 4, 2], marker="o", label=text)
    left.bar([1, 2], [2, 3], color=COLOURS["lost"], hatch="//", alpha=0.5)
    left.scatter([1, 2], [1, 1], c=COLOURS["torn"])
    left.set_title(text)
    left.legend()
    left.grid(True)
    heat = ListedColormap([COLOURS[f"heat-{number}"] for number in range(1, 6)])
    right.pcolormesh([[1, 2], [3, 4]], cmap=heat)
    right.set_yscale("log")
    right.set_ylim(1, 1000)
    right.set_xticks([1], [text])


@pytest.fixture(scope="module")
def drawn() -> str:
    return str(plot(draw_much, title="Speed"))


def test_the_same_drawing_gives_the_same_plot(drawn: str) -> None:
    assert plot(draw_much, title="Speed") == drawn


def test_every_colour_is_one_of_the_pages_own(drawn: str) -> None:
    assert "#" not in re.sub(r'url\(#|href="#', "", drawn)
    assert "rgb" not in drawn
    used = set(re.findall(r"var\(--([\w-]+)\)", drawn))
    assert {"ink", "faint", "line", "accent", "lost", "torn", "heat-1", "heat-5", "paper"} <= used <= set(COLOURS)


def test_text_in_a_plot_stays_text() -> None:
    elements = Elements(str(plot(lambda figure: draw_much(figure, HOSTILE), title=HOSTILE)))
    assert elements.tags == {"div", "svg", "g", "defs", "path", "use", "text", "clippath", "rect", "pattern"}
    assert elements.texts.count(HOSTILE) == 3, "title, legend and tick"
    assert ("aria-label", HOSTILE) in elements.attributes
    assert not [name for name, _ in elements.attributes if name.startswith("on")]


def test_powers_of_ten_are_numbers_and_no_formulas(drawn: str) -> None:
    assert {"1", "10", "100", "1,000"} <= set(Elements(drawn).texts)


def test_plots_share_no_identities_unless_they_are_the_same(drawn: str) -> None:
    others = [str(plot(draw_much, title="Speed", key="run-2")), str(plot(draw_much, title="Yield"))]
    identities = [identities_of(text) for text in (drawn, *others)]
    assert all(identities)
    assert len(set.union(*identities)) == sum(map(len, identities))


def test_all_that_a_plot_refers_to_is_in_it(drawn: str) -> None:
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', drawn)) == identities_of(drawn)


def identities_of(text: str) -> set[str]:
    found = [value for name, value in Elements(text).attributes if name == "id"]
    assert len(set(found)) == len(found)
    return set(found)


def test_a_plot_has_a_name_for_those_who_do_not_see_it(drawn: str) -> None:
    assert drawn.startswith('<div class="plot" role="img" tabindex="0" aria-label="Speed"><svg aria-hidden="true"')


def test_a_raster_is_rejected_for_it_would_not_follow_the_theme() -> None:
    def draw_raster(figure: Figure) -> None:
        figure.subplots().imshow([[1, 2]])

    with pytest.raises(AssertionError, match="pcolormesh"):
        plot(draw_raster, title="Raster")
