"""Conditions on rows: parsing, evaluation, and the row groups that they rule out.

It imports `table` and the packages before it. Begin with `predicate.py`.
"""
