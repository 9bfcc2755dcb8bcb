"""The colours of style.css by numbers: contrast of text and graphics, states that the colour-blind tell apart."""

import itertools
import re
from pathlib import Path

import numpy
import pytest
from numpy.typing import NDArray

from tornproof.reports.kit.byte_map import FINDING_STATES, PATTERNS
from tornproof.reports.kit.plots import COLOURS

STYLE = Path(__file__).parents[3] / "reports" / "kit" / "templates" / "style.css"
THEMES = ("light", "dark")
GROUNDS = ("paper", "card")
TEXTS = ("ink", "faint", "accent", "valid", "unknown", "invalid")
STATES = ("durable", "kept", "lost", "torn", "damaged", "written", "spare")
HEATS = tuple(f"heat-{number}" for number in range(1, 6))

# WCAG 2.2, success criteria 1.4.3 and 1.4.11.
TEXT_CONTRAST_MIN = 4.5
GRAPHICS_CONTRAST_MIN = 3
# Distance in CIELAB (CIE 1976): 2.3 is just noticeable; small areas that do not touch need several times that.
STATE_DISTANCE_MIN = 15
HEAT_DISTANCE_MIN = 10

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
SIGHTS = {
    "normal": numpy.eye(3),
    "protanopia": numpy.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": numpy.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": numpy.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ_OF_LINEAR = numpy.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = XYZ_OF_LINEAR.sum(axis=1)

Colour = NDArray[numpy.float64]


def palette() -> dict[str, dict[str, Colour]]:
    """Return the colours of each theme as linear RGB."""
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE.read_text(encoding="utf-8"))
    return {theme: {name: linear(pair[index]) for name, *pair in found} for index, theme in enumerate(THEMES)}


def linear(colour: str) -> Colour:
    parts = numpy.frombuffer(bytes.fromhex(colour[1:]), numpy.uint8) / 255
    return numpy.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: Colour, other: Colour) -> float:
    darker, lighter = sorted(float(XYZ_OF_LINEAR[1] @ colour) + 0.05 for colour in (one, other))
    return lighter / darker


def lab(colour: Colour, sight: str = "normal") -> Colour:
    parts = XYZ_OF_LINEAR @ numpy.clip(SIGHTS[sight] @ colour, 0, 1) / WHITE
    x, y, z = numpy.where(parts > 216 / 24389, numpy.cbrt(parts), (24389 / 27 * parts + 16) / 116)
    return numpy.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: Colour, other: Colour, sight: str) -> float:
    return float(numpy.linalg.norm(lab(one, sight) - lab(other, sight)))


def test_the_formulas_give_known_values() -> None:
    black, white, grey, red = map(linear, ("#000000", "#ffffff", "#767676", "#ff0000"))
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.01)
    assert lab(white) == pytest.approx([100, 0, 0], abs=0.01)
    assert lab(red) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)


def test_red_and_green_of_one_lightness_are_not_told_apart_by_everybody() -> None:
    red, green = linear("#c04030"), linear("#406030")
    assert distance(red, green, "normal") > STATE_DISTANCE_MIN
    assert min(distance(red, green, sight) for sight in ("protanopia", "deuteranopia")) < STATE_DISTANCE_MIN


def test_the_palette_has_all_colours_that_plots_and_pages_name() -> None:
    for colours in palette().values():
        assert set(colours) == set(COLOURS)
        assert set(colours) == {*GROUNDS, *TEXTS, *STATES, *HEATS, "line"}


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_every_ground(theme: str) -> None:
    colours = palette()[theme]
    contrasts = {(text, ground): contrast(colours[text], colours[ground]) for text in TEXTS for ground in GROUNDS}
    assert {pair: value for pair, value in contrasts.items() if value < TEXT_CONTRAST_MIN} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_states_of_bytes_stand_out_from_every_ground(theme: str) -> None:
    colours = palette()[theme]
    contrasts = {(state, ground): contrast(colours[state], colours[ground]) for state in STATES for ground in GROUNDS}
    assert {pair: value for pair, value in contrasts.items() if value < GRAPHICS_CONTRAST_MIN} == {}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHTS)
def test_states_of_bytes_are_told_apart(theme: str, sight: str) -> None:
    colours = palette()[theme]
    distances = {
        pair: distance(colours[pair[0]], colours[pair[1]], sight) for pair in itertools.combinations(STATES, 2)
    }
    assert {pair: value for pair, value in distances.items() if value < STATE_DISTANCE_MIN} == {}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHTS)
def test_heat_goes_one_way_from_the_paper(theme: str, sight: str) -> None:
    colours = palette()[theme]
    ramp = [lab(colours[name], sight) for name in ("paper", *HEATS)]
    steps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(ramp)]
    assert all(step < 0 for step in steps) if theme == "light" else all(step > 0 for step in steps)
    assert min(float(numpy.linalg.norm(b - a)) for a, b in itertools.pairwise(ramp[1:])) > HEAT_DISTANCE_MIN


def test_patterns_tell_states_apart_where_colours_do_not_help() -> None:
    style = STYLE.with_name("byte_map.css").read_text(encoding="utf-8")
    drawn = dict(re.findall(r"^\.map-(\w+) \{ (background-.*?); \}$", style, re.MULTILINE))
    assert set(drawn) == set(PATTERNS) and len(set(drawn.values())) == len(PATTERNS)
    patterns = [look.pattern for look in FINDING_STATES.values()]
    assert len(set(patterns)) == len(patterns)
