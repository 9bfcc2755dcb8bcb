"""What native partitions, indexes and dictionaries of symbols say, worked out a second time.

It imports `impl` and what explorers have in common. Begin with `native_columns.py`.
"""
