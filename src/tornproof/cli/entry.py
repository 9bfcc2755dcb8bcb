"""The entry point: signals are handled before anything that takes long to import.

A signal during Python's own start, before this module, is handled by Python.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from tornproof.cli import interruption

SHORT_COMMANDS = ("verify", "read", "inspect")
"""On a small table these take less time than importing pandas, which they do not need."""


def main() -> None:
    """Run the command line in a child process, under a guard that outlives it."""
    # Modules stay, so that collecting among them finds nothing; `app` enables it when a command has been imported.
    gc.disable()
    interruption.handle(interruption.end_at_once)
    from tornproof.cli.guard import begin

    has_guard = begin()
    _start_fast()
    from tornproof.cli.app import main as command_line

    try:
        command_line()
    except KeyboardInterrupt:
        # Before the command handled interrupts, or after it had stopped doing so.
        interruption.end_at_once(interruption.received(), None)
    finally:
        # Python looks for garbage before it ends, among all objects, which takes longer than verifying a small table.
        gc.freeze()
        if has_guard and interruption.received():
            # The group is the worker's own, and the worker ignores this. The guard cleans up: an orderly exit of Python
            # would destroy what threads of libraries still use, and some of them abort then.
            os.killpg(0, signal.SIGTERM)
            os._exit(interruption.SIGNAL_BASE + interruption.received())


def _start_fast() -> None:
    """Avoid what costs a short run more than its work: threads for linear algebra, garbage collection, pandas.

    NumPy's linear algebra library, which nothing here uses, starts a thread for every core when it is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:] and sys.argv[1] in SHORT_COMMANDS:
        from tornproof.harness.common.garbage import collect_seldom
        from tornproof.harness.common.without_pandas import hide_pandas

        collect_seldom()
        hide_pandas()
