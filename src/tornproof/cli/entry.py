"""Where a run begins: signals are taken care of before anything that takes long to import.

What comes before this module's first line, Python's own start, is Python's to answer for.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from tornproof.cli import interruption

GARBAGE_OBJECT_COUNT = 50_000
"""How many objects more than before there are when garbage is looked for; Python's own number is 700."""
SHORT_COMMANDS = ("verify", "read", "inspect")
"""Of a small table they take less time than the import of pandas, for which they have no use."""


def main() -> None:
    """Run the command line in a process of its own, under a guard that outlives it."""
    interruption.handle(interruption.end_at_once)
    from tornproof.cli.guard import begin

    has_guard = begin()
    _start_fast()
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


class _NoPandas:
    """Hides pandas from pyarrow, which imports it, where it is installed, to ask of a list whether it is a Series."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"not in {', '.join(SHORT_COMMANDS)}", name=fullname)


def _start_fast() -> None:
    """Spare a short run what costs it more than its work: threads for linear algebra, a search for garbage, pandas.

    NumPy's library of linear algebra, which nothing here uses, starts a thread for every core as it is imported. What
    imports make stays, so that looking through it again and again finds nothing.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:] and sys.argv[1] in SHORT_COMMANDS:
        gc.set_threshold(GARBAGE_OBJECT_COUNT, *gc.get_threshold()[1:])
        sys.meta_path.insert(0, _NoPandas())
