"""A table's partitions over time as a plot: rows, bytes, and the bytes that the committed version does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tornproof.reports.kit.plots import COLOURS, plot
from tornproof.reports.table.fields import Partition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS_MAX = 60
TICK_CHARACTERS_MAX = 64
TICK_GAP_CHARACTERS = 5
NAME_CHARACTERS_MAX = 20
HALF_BAR = 0.4
LAYERS = (
    # Field of a bar, label, colour, and a pattern for colour-blind readers.
    ("unused", "unused", "kept", "---"),
    ("dead", "dead", "torn", "xxx"),
    ("orphan", "orphan", "lost", "///"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One partition, or several adjacent ones; sizes are bytes."""

    name: str
    partition_count: int
    rows: int
    used: int
    unused: int
    dead: int
    orphan: int


def bars_of(partitions: Sequence[Partition], orphan_bytes: Mapping[str, int]) -> list[Bar]:
    """Return the bars of the partitions, at most `BARS_MAX`, in order.

    Known orphan bytes are subtracted from the dead bytes, which include them. Impossible numbers of a damaged file are
    clipped.
    """
    in_one = max(1, -(-len(partitions) // BARS_MAX))
    return [_bar(partitions[start : start + in_one], orphan_bytes) for start in range(0, len(partitions), in_one)]


def _bar(partitions: Sequence[Partition], orphan_bytes: Mapping[str, int]) -> Bar:
    tokens = [max(0, each.token) if each.is_resolved else 0 for each in partitions]
    unused = [min(max(0, each.unused_bytes), token) for each, token in zip(partitions, tokens, strict=True)]
    orphans = [min(orphan_bytes.get(each.name, 0), max(0, each.dead_bytes)) for each in partitions]
    return Bar(
        name=partitions[0].name.partition(".")[0][:NAME_CHARACTERS_MAX],
        partition_count=len(partitions),
        rows=sum(max(0, each.rows) for each in partitions),
        used=sum(tokens) - sum(unused),
        unused=sum(unused),
        dead=sum(max(0, each.dead_bytes) for each in partitions) - sum(orphans),
        orphan=sum(orphans),
    )


def partitions_plot(bars: Sequence[Bar]) -> Markup:
    """Return the plot of the bars, in time order."""

    def draw(figure: Figure) -> None:
        rows, sizes, spare = figure.subplots(3, 1, sharex=True)
        _layer(rows, [bar.rows for bar in bars], [0] * len(bars), "accent", "")
        rows.set_ylabel("rows")
        _layer(sizes, [bar.used for bar in bars], [0] * len(bars), "durable", "", label="in use")
        _layer(sizes, [bar.unused for bar in bars], [bar.used for bar in bars], "kept", "---", label="unused")
        sizes.set_ylabel("bytes of\ndata.parquet")
        bases = [0] * len(bars)
        for name, label, colour, pattern in LAYERS:
            heights = [getattr(bar, name) for bar in bars]
            _layer(spare, heights, bases, colour, pattern, label=label)
            bases = [base + height for base, height in zip(bases, heights, strict=True)]
        spare.set_ylabel("unneeded\nbytes")
        for axes in (rows, sizes, spare):
            _scale(axes)
        for axes in (sizes, spare):
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=10)
        longest = max(len(_name(bar)) for bar in bars)
        tick_count = max(2, TICK_CHARACTERS_MAX // (longest + TICK_GAP_CHARACTERS))
        step = max(1, -(-len(bars) // tick_count))
        ticks = list(range(0, len(bars), step))
        spare.set_xticks(ticks, [_name(bars[index]) for index in ticks], parse_math=False)
        spare.set_xlim(-0.6, max(len(bars), 4) - 0.4)

    total = sum(bar.partition_count for bar in bars)
    title = (
        f"Partitions over time, {total} of them: {sum(bar.rows for bar in bars):,} rows, "
        f"{sum(bar.used for bar in bars):,} bytes in use, {sum(bar.unused for bar in bars):,} unused, "
        f"{sum(bar.dead for bar in bars):,} dead, {sum(bar.orphan for bar in bars):,} of orphans"
    )
    return plot(draw, title=title, height_inches=5)


def _layer(
    axes: Any, heights: Sequence[int], bases: Sequence[int], colour: str, pattern: str, label: str | None = None
) -> None:
    """Draw bars as one outline with gaps, which is much smaller than a rectangle for each."""
    edges = [index + side for index in range(len(heights)) for side in (-HALF_BAR, HALF_BAR)]
    lows = [float(value) for base in bases for value in (base, 0)][:-1]
    tops = [float(value) for base, height in zip(bases, heights, strict=True) for value in (base + height, 0)][:-1]
    style: dict[str, Any] = {"facecolor": COLOURS[colour], "edgecolor": COLOURS["paper"], "linewidth": 0}
    axes.stairs(tops, edges, baseline=lows, fill=True, hatch=pattern or None, label=label, **style)


def _scale(axes: Any) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_ylim(0, max(1, axes.get_ylim()[1]))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", linewidth=0.6)
    axes.set_axisbelow(True)


def _name(bar: Bar) -> str:
    return bar.name if bar.partition_count == 1 else f"{bar.name} …"
