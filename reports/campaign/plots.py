"""Plots of the behaviours that a campaign has found, and of how many may be left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tornproof.reports.campaign.discovery import Yield, about, at_most
from tornproof.reports.kit.plots import COLOURS, plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP_LINES_MAX = 12
WIDTH_INCHES, HEIGHT_INCHES = 5.2, 3


def behaviours_plot(points: Sequence[Yield], group_starts: Sequence[int]) -> Markup:
    """Return a plot of the number of distinct behaviours by runs."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        runs = [0, *(point.run_count for point in points)]
        axes.plot(runs, [0, *(point.behaviour_count for point in points)], color=COLOURS["accent"], linewidth=2)
        axes.set_ylabel("distinct behaviours")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
        _finish(axes, group_starts)

    last = points[-1]
    title = f"{last.behaviour_count:,} distinct behaviours after {last.run_count:,} runs"
    return plot(draw, title=title, width_inches=WIDTH_INCHES, height_inches=HEIGHT_INCHES)


def chance_plot(points: Sequence[Yield], group_starts: Sequence[int]) -> Markup:
    """Return a plot of the probability that one more run is new by runs, with its upper bound."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        runs = [point.run_count for point in points]
        bounds = [point.new_share_max for point in points]
        estimates = [point.new_share for point in points]
        axes.fill_between(runs, 0, bounds, color=COLOURS["heat-1"], linewidth=0)
        axes.plot(runs, bounds, color=COLOURS["accent"], linewidth=1.5, linestyle=(0, (5, 2)), label="at most (95%)")
        axes.plot(runs, estimates, color=COLOURS["accent"], linewidth=2, label="estimate")
        axes.set_ylabel("probability of a new one")
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.legend(loc="upper right")
        _finish(axes, group_starts)

    last = points[-1]
    title = (
        f"The probability that one more run shows a new behaviour: about {about(last.new_share)} after "
        f"{last.run_count:,} runs, and with 95% confidence at most {at_most(last.new_share_max)}"
    )
    return plot(draw, title=title, width_inches=WIDTH_INCHES, height_inches=HEIGHT_INCHES)


def _finish(axes: Any, group_starts: Sequence[int]) -> None:
    for start in group_starts[1:GROUP_LINES_MAX]:
        axes.axvline(start, color=COLOURS["faint"], linewidth=1, linestyle=(0, (1, 2)))
    axes.set_xlabel("runs, in the order of the plan")
    axes.set_xlim(left=0)
    axes.xaxis.get_major_locator().set_params(nbins=5, integer=True)
    axes.xaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
    axes.grid(axis="y")
