"""pyarrow's functions by their names, for what also runs on small tables.

`pyarrow.compute` makes a documented wrapper for each of some 250 functions as it is imported, which takes longer than
verifying a small table; the functions themselves are there without it.
"""

from __future__ import annotations

from typing import Any

from pyarrow._compute import call_function

__all__ = ["compute"]


def compute(name: str, *values: Any) -> Any:
    """Call a function of `pyarrow.compute` with its default options."""
    return call_function(name, list(values))
