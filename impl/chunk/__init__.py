"""Column chunks of row groups, decoded as `_pm` describes them and encoded: codec, statistics, filters.

It imports `pm` and the packages before it. Begin with `chunk.py`.
"""
