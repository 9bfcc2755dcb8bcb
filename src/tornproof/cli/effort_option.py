"""The option `--effort`: a word or a number, by which bounds are multiplied."""

from __future__ import annotations

import typer

from tornproof.harness.common.effort import EFFORT_MAX, EFFORTS, effort_of

METAVAR = "|".join((*EFFORTS, "N"))


def parse_effort(text: str) -> int:
    """Return the effort that an option asks for."""
    effort = effort_of(text)
    if effort is None:
        raise typer.BadParameter(
            f"{text!r} is neither one of {', '.join(EFFORTS)} nor a number from 1 to {EFFORT_MAX:,}"
        )
    return effort
