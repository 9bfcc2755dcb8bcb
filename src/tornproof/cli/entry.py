"""Where a run begins: signals are taken care of before anything that takes long to import.

What comes before this module's first line, Python's own start, is Python's to answer for.
"""

from __future__ import annotations

import os
import signal

from tornproof.cli import interruption


def main() -> None:
    """Run the command line in a process of its own, under a guard that outlives it."""
    interruption.handle(interruption.end_at_once)
    from tornproof.cli.guard import begin

    has_guard = begin()
    from tornproof.cli.app import main as command_line

    try:
        command_line()
    except KeyboardInterrupt:
        # Just before the command began to take care of it, or when it had ceased to.
        interruption.end_at_once(interruption.received(), None)
    finally:
        if has_guard and interruption.received():
            # The group is the worker's own, and it does not heed this. What is left is the guard's to remove: Python
            # would take down what threads of libraries are still at work with, and some of them abort then.
            os.killpg(0, signal.SIGTERM)
            os._exit(interruption.SIGNAL_BASE + interruption.received())
