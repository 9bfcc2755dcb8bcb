"""Whose mistake an exception is: the explorer's own, or of what it explores."""

EXPLORERS = "tornproof.harness.explorers."


def is_of_explorers(error: Exception) -> bool:
    """Return whether an exception was raised by a line of an explorer itself, not by what it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals["__name__"]).startswith(EXPLORERS)
