"""Numeric options: values out of range are rejected with a message before a run begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

Number = TypeVar("Number", int, float)
SECONDS_MAX = 30 * 86_400
CORES = os.cpu_count() or 1
WORKERS_MAX = 4 * CORES


def within(low: int, high: int, why: str = "") -> Callable[[Number | None], Number | None]:
    """Return an option's callback that accepts numbers from `low` to `high`; `why` explains the upper limit."""

    def check(number: Number | None) -> Number | None:
        # NaN fails this comparison, too.
        if number is not None and not low <= number <= high:
            raise typer.BadParameter(f"{number} is not from {low:,} to {high:,}{why and f' ({why})'}")
        return number

    return check


def workers_within() -> Callable[[int | None], int | None]:
    """Return the callback of an option for a number of processes."""
    return within(1, WORKERS_MAX, f"four times the {CORES} cores of this machine")


WorkersOption = Annotated[
    int | None,
    typer.Option(
        callback=workers_within(),
        help="Number of worker processes, for a directory of many tables.",
        show_default=str(CORES),
    ),
]


def seconds_within() -> Callable[[float | None], float | None]:
    """Return the callback of an option for a time limit."""
    return within(1, SECONDS_MAX, "30 days in seconds")


def seed_within() -> Callable[[int | None], int | None]:
    """Return the callback of an option for a seed."""
    # Most commands take none, and need nothing of the harness.
    from tornproof.harness.common.effort import SEED_MAX

    return within(0, SEED_MAX)
