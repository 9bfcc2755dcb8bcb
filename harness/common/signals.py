"""What signals are called."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time signal has a number alone."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
