"""Histories judged in parallel, by us and by SQL. Begin with `check.py`."""
