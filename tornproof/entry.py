"""Where a run begins: signals are taken care of before anything that takes long to import.

What comes before this module's first line, Python's own start, is Python's to answer for.
"""

from __future__ import annotations

from tornproof import interruption


def main() -> None:
    """Run the command line in a process of its own, under a guard that outlives it."""
    interruption.handle(interruption.end_at_once)
    from tornproof.guard import begin

    begin()
    from tornproof.cli import main as command_line

    command_line()
