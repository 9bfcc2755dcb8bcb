"""The trend of the last runs of one table and preset: what each phase explored, and the findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tornproof.reports.kit.json_fields import shortened
from tornproof.reports.kit.page import fill
from tornproof.reports.kit.plots import COLOURS, plot
from tornproof.reports.run.document import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS_SHOWN = 20
PHASES_SHOWN = 12
LABEL_CHARACTERS_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A phase in the plot: a colour and a sign, and its counts, None for runs without it."""

    phase: str
    colour: str
    sign: str
    marker: str
    counts: Sequence[int | None]


SIGNS = (
    ("accent", "●", "o"),
    ("lost", "■", "s"),
    ("written", "▲", "^"),
    ("torn", "◆", "D"),
    ("damaged", "▼", "v"),
    ("ink", "✚", "P"),
    ("kept", "★", "*"),
    ("spare", "✖", "X"),
    ("durable", "○", "o"),
    ("invalid", "□", "s"),
    ("valid", "△", "^"),
    ("unknown", "◇", "D"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The last runs of one table and preset, the newest last, and the plot of them."""

    runs: Sequence[Run]
    lines: Sequence[Line]
    plot: Markup
    runs_left_out: int
    phases_left_out: int

    def markup(self, run: Run, pages: Collection[str]) -> Markup:
        """Return plot and table for the newest run, and a link for the others.

        `pages` are the keys of the runs that have a page.
        """
        rows = [
            (run, [line.counts[index] for line in self.lines], run.key if run.key in pages else "")
            for index, run in enumerate(self.runs)
        ]
        return fill("run_trend.html.j2", trend=self, run=run, newest=self.runs[-1], rows=rows[::-1], pages=pages)


def trend_of(runs: Sequence[Run]) -> Trend:
    """Return the trend over the last of these runs, which are of one table and preset, the newest last."""
    shown = runs[-RUNS_SHOWN:]
    lines = _lines(shown)
    return Trend(
        runs=shown,
        lines=lines,
        plot=_plot(shown, lines) if len(shown) > 1 else Markup(),
        runs_left_out=len(runs) - len(shown),
        phases_left_out=len({phase.name for run in shown for phase in run.phases}) - len(lines),
    )


def _lines(runs: Sequence[Run]) -> list[Line]:
    """Return a line for each phase, in the order of the newest run that has it."""
    names = list(dict.fromkeys(phase.name for run in reversed(runs) for phase in run.phases))[:PHASES_SHOWN]
    explored = [{phase.name: phase.explored for phase in run.phases} for run in runs]
    return [
        Line(phase=name, colour=colour, sign=sign, marker=marker, counts=[counts.get(name) for counts in explored])
        for name, (colour, sign, marker) in zip(names, SIGNS, strict=False)
    ]


def _plot(runs: Sequence[Run], lines: Sequence[Line]) -> Markup:
    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        _draw_explored(upper, lines)
        _draw_findings(lower, runs)

    title = (
        f"Trend over {len(runs)} runs: cases explored by {len(lines)} phases on a logarithmic scale, and below it "
        f"the number of findings, in the newest run {len(runs[-1].findings)}; the table below has the numbers."
    )
    return plot(draw, title=title, key=runs[-1].key, height_inches=3.6)


def _draw_explored(axes: Axes, lines: Sequence[Line]) -> None:
    for line in lines:
        colour = COLOURS[line.colour]
        explored = {index: count for index, count in enumerate(line.counts) if count is not None}
        axes.plot(
            list(explored),
            list(explored.values()),
            color=colour,
            marker=line.marker,
            markersize=6,
            markeredgecolor=colour,
            markerfacecolor=COLOURS["paper"] if line.sign in "○□△◇" else colour,
        )
    # Phases count schedules, disks or bits, which differ by orders of magnitude, and may be zero.
    axes.set_yscale("symlog", linthresh=1)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylabel("explored")
    axes.grid(axis="y")


def _draw_findings(axes: Axes, runs: Sequence[Run]) -> None:
    counts = [len(run.findings) for run in runs]
    axes.bar(range(len(runs)), counts, color=COLOURS["invalid"], edgecolor=COLOURS["invalid"], width=0.5)
    axes.set_ylim(0, max(1, *counts) * 1.1)
    axes.locator_params(axis="y", integer=True, nbins=3)
    axes.set_ylabel("findings")
    axes.set_xticks(range(len(runs)), [shortened(run.name.removeprefix("run "), LABEL_CHARACTERS_MAX) for run in runs])
    axes.set_xlabel("run")
