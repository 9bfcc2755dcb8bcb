"""How often Python's garbage collector runs, which finds next to nothing here."""

from __future__ import annotations

import gc

GARBAGE_OBJECT_COUNT = 50_000
"""It runs after this many new objects; Python's default is 700."""


def collect_seldom() -> None:
    """Collect seldom, and never among what exists by now: imported modules stay, and explorations keep their states."""
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECT_COUNT)
