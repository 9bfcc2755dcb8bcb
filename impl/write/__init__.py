"""Commits: rows that are merged, partitions that grow or are rewritten, the order of syncs, and recovery.

It imports `read` and the rooms before it. Begin with `table_writer.py`; the order of syncs is in `commit.py`.
"""
