"""A table's directory: `_meta`, `_cv`, symbols, partitions and their names, and new tables.

It imports `txn` and the rooms before it. Begin with `table.py`.
"""
