"""A table's directory: `_meta`, `_cv`, symbols, partitions and their names; creating tables.

It imports `txn` and the packages before it. Begin with `table.py`.
"""
