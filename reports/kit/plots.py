"""Plots as inline SVG, in the page's own colours, so that they follow light and dark mode."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib does not support CSS variables, so each is represented by a unique colour while it draws.
COLOURS = {
    name: f"#0102{number:02x}"
    for number, name in enumerate(
        (
            *("ink", "faint", "line", "accent", "paper", "card", "valid", "unknown", "invalid"),
            *("durable", "kept", "lost", "torn", "damaged", "written", "spare"),
            *("heat-1", "heat-2", "heat-3", "heat-4", "heat-5"),
        )
    )
}
DASHES: Any = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
"""How the lines of a plot are told apart where colours are not."""
_CYCLE = [COLOURS[name] for name in ("accent", "lost", "written", "torn", "damaged", "spare")]
_SETTINGS: Any = {
    "axes.prop_cycle": f"cycler('color', {_CYCLE})",
    "svg.fonttype": "none",
    "svg.hashsalt": "tornproof",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["line"],
    "xtick.color": COLOURS["faint"],
    "ytick.color": COLOURS["faint"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "grid.color": COLOURS["line"],
    "hatch.color": COLOURS["paper"],
    "patch.edgecolor": COLOURS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-15, 15),
    "axes.formatter.useoffset": False,
    "legend.frameon": False,
}
# Below this labels are too small to read, so the plot scrolls instead of shrinking.
_REM_PER_INCH_MIN = 4.2
_TAG = re.compile(r"<[^<>]+>")
_REFERENCE = re.compile(r'(?:url\(#|href="#)([\w.-]+)')
_IDENTITY = re.compile(r' id="([\w.-]+)"')


def plot(
    draw: Callable[[Figure], None], *, title: str, key: str = "", width_inches: float = 8, height_inches: float = 3
) -> Markup:
    """Return what `draw` draws on a figure as SVG; `title` is the text for screen readers.

    Colours are taken from `COLOURS`; `key` distinguishes otherwise identical plots of one document.
    """
    svg = _lines_only(_svg_of(draw, width_inches, height_inches))
    digest = hashlib.sha256("\n".join((key, title, svg)).encode(errors="surrogatepass")).hexdigest()[:12]
    svg = _in_page_colours(_with_own_identities(svg, f"plot-{digest}"))
    size = f'aria-hidden="true" style="min-width: {width_inches * _REM_PER_INCH_MIN:.1f}rem; stroke-linejoin: round"'
    return Markup('<div class="plot" role="img" tabindex="0" aria-label="{}">{}</div>').format(
        escape(title), Markup(svg.replace("<svg ", f"<svg {size} ", 1))
    )


def _svg_of(draw: Callable[[Figure], None], width_inches: float, height_inches: float) -> str:
    # Importing it takes half a second, which pages without plots save.
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        figure.patch.set_alpha(0)
        draw(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
            for axis in (axes.xaxis, axes.yaxis):
                # Powers of ten would need math text, which is off because data could contain it.
                if axis.get_scale() == "log":
                    axis.set_major_formatter("{x:,g}")
                    axis.set_minor_formatter(NullFormatter())
        drawn = io.StringIO()
        with warnings.catch_warnings():
            # The browser draws the text, with its own fonts; and names from files may be longer than the plot.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def _lines_only(svg: str) -> str:
    """Return the SVG without its preamble, metadata, fonts, and style rules, which would apply to the whole page."""
    svg = svg[svg.index("<svg") :]
    for element in ("metadata", "style"):
        svg = re.sub(rf"<{element}\b.*?</{element}>", "", svg, count=1, flags=re.DOTALL)
    assert not re.search(r"<(image|a|script)\b", svg), "only lines follow the page's colours: pcolormesh, not imshow"
    svg = _TAG.sub(lambda tag: re.sub(r" font-family: [^;\"]*;| xmlns(:xlink)?=\"[^\"]*\"", "", tag[0]), svg)
    return re.sub(r">\s+<", "><", svg.strip())


def _with_own_identities(svg: str, prefix: str) -> str:
    """Return the SVG with prefixed ids, and without ids that nothing refers to."""
    tags = _TAG.findall(svg)
    referred = {name for tag in tags for name in _REFERENCE.findall(tag)}
    names = {name for tag in tags for name in _IDENTITY.findall(tag)} & referred
    numbers = {name: f"{prefix}-{number}" for number, name in enumerate(sorted(names))}

    def rename(tag: re.Match[str]) -> str:
        kept = _IDENTITY.sub(lambda found: f' id="{numbers[found[1]]}"' if found[1] in numbers else "", tag[0])
        return _REFERENCE.sub(lambda found: found[0].replace(found[1], numbers[found[1]]), kept)

    return _TAG.sub(rename, svg)


def _in_page_colours(svg: str) -> str:
    """Return the SVG with the page's colours in its tags, but not in texts."""
    names = {colour: name for name, colour in COLOURS.items()}
    return _TAG.sub(lambda tag: re.sub(r"#0102\w\w", lambda found: f"var(--{names[found[0]]})", tag[0]), svg)
