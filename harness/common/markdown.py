"""Tables for generated pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a table, its titles first."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (titles, ["---"] * len(titles), *rows))
