"""Conditions on rows: their text, their meaning for a value, and the row groups that they rule out.

It imports `table` and the rooms before it. Begin with `predicate.py`.
"""
