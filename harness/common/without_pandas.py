"""Keeps pandas from being imported by Arrow, for processes that run shorter than that import.

Arrow imports pandas, if it is installed, with its first array, only to test whether a list is a Series.
"""

import sys


def hide_pandas() -> None:
    """Let every later import of pandas in this process fail as if it were not installed."""
    sys.meta_path.insert(0, _WithoutPandas)


class _WithoutPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
