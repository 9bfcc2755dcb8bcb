"""The committed rows of a table, from its directory to Arrow batches.

It imports `query` and the packages before it. Begin with `reader.py`.
"""
