"""Commits: merging rows, growing and rewriting partitions, the order of syncs, recovery and purging.

It imports `read` and the packages before it. Begin with `table_writer.py`; the order of syncs is in `commit.py`.
"""
