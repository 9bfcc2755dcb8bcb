"""pyarrow's compute functions without importing `pyarrow.compute`, for code that also runs on small tables.

On import `pyarrow.compute` creates a documented wrapper for each of some 250 functions, which takes longer than
verifying a small table; the functions themselves exist without it.
"""

from __future__ import annotations

from typing import Any

from pyarrow._compute import call_function

__all__ = ["compute"]


def compute(name: str, *values: Any) -> Any:
    """Call a function of `pyarrow.compute` with its default options."""
    return call_function(name, list(values))
