"""Parallel checks of histories, with an independent check in SQL. Begin with `check.py`."""
