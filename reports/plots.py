"""Plots as SVG inside of a page, in the page's own colours, so that they follow light and dark."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib knows no variables of CSS, so each stands for a colour that nothing else has while it draws.
COLOURS = {
    name: f"#0102{number:02x}"
    for number, name in enumerate(
        "ink faint line accent valid unknown invalid durable kept lost torn damaged written spare paper".split()
    )
}
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tornproof",
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
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def plot(draw: Callable[[Figure], None], *, title: str, width_inches: float = 8, height_inches: float = 3) -> Markup:
    """Return what `draw` puts on a figure as SVG; `title` is what those are told who do not see it.

    Colours are taken from `COLOURS`.
    """
    # It takes half a second to import, which pages without plots need not wait for.
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        figure.patch.set_alpha(0)
        draw(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    label = Markup(' role="img" aria-label="{}" ').format(title)
    return Markup(svg.replace("<svg ", f"<svg{label}", 1))
