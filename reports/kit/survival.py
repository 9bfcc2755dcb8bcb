"""Times to an event that some were never observed to reach, as a curve of the share that is left."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tornproof.reports.kit.plots import COLOURS, DASHES, plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = "ABCDE"
_COLOURS = ("accent", "lost", "written", "torn", "damaged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """`share` is the estimated share without an event after `time`; `at_risk_count` were observed until then."""

    time: float
    at_risk_count: int
    event_count: int
    censored_count: int
    share: float


def survival(times: Iterable[tuple[float, bool]]) -> tuple[Survival, ...]:
    """Return the product-limit estimate from times, each with whether the event occurred or observation ended then.

    Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 53 (1958). Whoever is
    observed until a time with events is at risk then.
    """
    ordered = sorted(times)
    at_risk_count, share, steps = len(ordered), 1.0, []
    for time, group in itertools.groupby(ordered, key=lambda each: each[0]):
        events = [occurred for _, occurred in group]
        share *= 1 - sum(events) / at_risk_count
        steps.append(
            Survival(
                time=time,
                at_risk_count=at_risk_count,
                event_count=sum(events),
                censored_count=len(events) - sum(events),
                share=share,
            )
        )
        at_risk_count -= len(events)
    return tuple(steps)


def plot_of_curves(curves: Sequence[Sequence[Survival]], *, unit: str, title: str) -> Markup:
    """Return a plot of the share of undetected faults by a unit of work, with a letter for each curve."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for steps, letter, colour, dashes in zip(curves, LETTERS, _COLOURS, DASHES, strict=False):
            _draw_curve(axes, steps, letter, COLOURS[colour], dashes)
        axes.set_xscale("log")
        axes.set_xlim(left=min(_start(steps) for steps in curves))
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(unit)
        axes.xaxis.set_major_formatter(lambda time, _: f"{time:,g}")
        axes.minorticks_off()
        axes.set_ylabel("faults not detected")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(axis="y")

    return plot(draw, title=title, width_inches=5.2)


def _draw_curve(axes: Any, steps: Sequence[Survival], letter: str, colour: str, dashes: Any) -> None:
    """Draw the share as a curve that begins at 1 and has a letter at its end; marks are where observation ended."""
    times = [_start(steps), *(step.time for step in steps)]
    shares = [1.0, *(step.share for step in steps)]
    axes.plot(times, shares, drawstyle="steps-post", color=colour, linestyle=dashes, linewidth=2)
    censored = [step for step in steps if step.censored_count]
    axes.plot([s.time for s in censored], [s.share for s in censored], "|", color=colour, markersize=10)
    axes.annotate(
        letter, (times[-1], shares[-1]), xytext=(6, 0), textcoords="offset points", va="center", weight="bold"
    )


def _start(steps: Sequence[Survival]) -> float:
    """Return where a curve begins, on an axis without a zero."""
    return min(1, steps[0].time)


def milestones(steps: Sequence[Survival]) -> list[tuple[float, float]]:
    """Return the share after 1, 10, 100 and so on, and at the end."""
    last = steps[-1].time
    wanted = [time for time in (10**power for power in range(12)) if time < last]
    return [(time, _share_at(steps, time)) for time in [*wanted, last]]


def _share_at(steps: Sequence[Survival], time: float) -> float:
    return next((step.share for step in reversed(steps) if step.time <= time), 1.0)
